"""Mistakes as a user makes them: the command line refuses, in a process of its own or, quicker, in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.small import SUITE
from vitbench.cli.main import main


def files_of(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder: relative path → content, None of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``vitbench`` as it is typed in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run([sys.executable, "-m", "vitbench", *arguments], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=300, check=False)  # fmt: skip


def refused_by_process(folder: Path, *arguments: str) -> str:
    """The message of a command that a process of its own refuses: status 2, no traceback, nothing written."""
    before = files_of(folder)
    done = process(folder, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and done.stderr.strip()
    assert files_of(folder) == before, "something was written"
    return done.stderr


def refused_here(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message of a command that is refused in this process, which has all modules loaded; nothing is written."""
    before = files_of(folder)
    with chdir(folder), pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.strip() and "Traceback" not in message
    assert files_of(folder) == before, "something was written"
    return message


def suite_file(folder: Path, *more: str, name: str = "suite.toml", base: str = SUITE) -> str:
    """A small suite on disk, with lines added; its name."""
    (folder / name).write_text("\n".join([base, *more]), encoding="utf-8")
    return name
