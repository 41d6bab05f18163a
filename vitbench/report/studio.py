"""Studio: pictures are drawn by a process of their own, while this one makes the rest of a report.

Drawing takes as long as all else, and loading the library that draws a second more. The bytes are the same wherever a
chart is drawn.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from vitbench.report.charts import Chart

Draw = Callable[[Chart], Callable[[], bytes]]
"""Takes a chart; what comes back gives its PNG, once that is asked for."""

DRAWER = "vitbench.report.drawing"
ENDED = "the process that draws the pictures has ended, as where the system killed it for memory; nothing was written"


class DrawingStopped(RuntimeError):
    """The process that draws cannot begin or has ended, or pictures cannot be handed over. The message says which."""


def at_once(chart: Chart) -> Callable[[], bytes]:
    """Draws in this process."""
    from vitbench.report.drawing import draw  # a second that who draws elsewhere does not wait for

    png = draw(chart)
    return lambda: png


class Studio:
    """A process that draws charts, from entering to leaving; it ends when the one that began it does, however it ends.

    It has a session of its own: Ctrl-C is for the process that began it. What was not asked for on leaving is given up.
    """

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                made = tempfile.TemporaryDirectory(prefix="vitbench-", ignore_cleanup_errors=True)
                self.folder = Path(stack.enter_context(made))
            except OSError as error:
                raise DrawingStopped(f"there is no temporary folder for pictures: {error.strerror}") from error
            try:
                # It imports from where this process does: not from the working folder, if this one does not.
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", DRAWER, self.folder],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)},
                )  # fmt: skip
            except OSError as error:
                raise DrawingStopped(f"no process can be begun that draws: {error.strerror}") from error
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdin and process.stdout
            self.orders, self.answers = process.stdin, process.stdout
            self.ordered = self.answered = 0
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def draw(self, chart: Chart) -> Callable[[], bytes]:
        """See :data:`Draw`. What comes back raises DrawingStopped where there is no picture."""
        self.ordered += 1
        order = self.ordered
        # By file: a pipe would make this process wait as soon as it is full, and one picture fills it.
        try:
            (self.folder / f"{order}.chart").write_bytes(pickle.dumps(chart))
            self.orders.write(b"%d\n" % order)
        except BrokenPipeError as error:
            raise DrawingStopped(ENDED) from error
        except OSError as error:
            raise self._no_folder(error.strerror) from error
        return lambda: self._picture(order)

    def _picture(self, order: int) -> bytes:
        while self.answered < order:  # they come in the order of the charts
            answer = self.answers.readline()
            if not answer.endswith(b"\n"):
                raise DrawingStopped(ENDED)
            if trouble := answer.decode().strip():
                raise self._no_folder(trouble)
            self.answered += 1
        try:
            return (self.folder / f"{order}.png").read_bytes()
        except OSError as error:
            raise self._no_folder(error.strerror) from error

    def _no_folder(self, trouble: str | None) -> DrawingStopped:
        """Of the folder between the processes, and not of the report's."""
        return DrawingStopped(f"{self.folder}: pictures cannot be put there: {trouble}")
