"""Commands on a real pseudo-terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import REPOSITORY


def on_a_terminal(
    folder: Path, width: int, *arguments: str, stop: Callable[[str], bool] = lambda _: False
) -> tuple[int, str]:
    """(exit status, all that was written) of `vitbench …`; Ctrl-C is typed where ``stop`` says so of what is there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    # A worker of pytest-xdist has the width of the terminal on which the tests were begun there.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
         "from vitbench.cli.main import main; main()", *arguments],
        cwd=folder, env={**environment, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm-256color"},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    written, typed, deadline = b"", False, time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # what Linux says at the end
                break
            if not part:
                break
            written += part
        if not typed and stop(written.decode(errors="replace")):
            os.write(ours, b"\x03")
            typed = True
    os.close(ours)
    return process.wait(timeout=30), written.decode().replace("\r\n", "\n")
