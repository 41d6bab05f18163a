"""Studio: pictures are drawn by processes of their own, while this one makes the rest of a report.

Drawing takes longer than all else, and loading the library that draws a second more. The bytes are the same wherever a
chart is drawn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Self

from vitbench.report.pictures.charts import Chart, Drawn

Draw = Callable[[Chart], Callable[[], Drawn]]
"""Takes a chart; what comes back gives the picture, once that is asked for."""

DRAWER = "vitbench.report.drawer"
HANDS = 2
"""Processes that draw, at the most: with both forms of each chart drawing takes twice as long as what it waits for."""
ENDED = "the process that draws the pictures has ended, as where the system killed it for memory; nothing was written"


class DrawingStopped(RuntimeError):
    """The process that draws cannot begin or has ended, or pictures cannot be handed over. The message says which."""


def at_once(chart: Chart) -> Callable[[], Drawn]:
    """Draws in this process."""
    from vitbench.report.drawing import draw  # a second that who draws elsewhere does not wait for

    drawn = draw(chart)
    return lambda: drawn


def never(chart: Chart) -> Callable[[], Drawn]:
    """Draws nothing: for who does not ask for the picture."""

    def refuse() -> Drawn:
        raise AssertionError("nothing was drawn")

    return refuse


class Studio:
    """Processes that draw charts in turns, from entering to leaving; they end when the one that began them does.

    The first begins at once, so that it is ready when the first chart is, and each other with the first chart that is
    its turn. What was not asked for on leaving is given up.
    """

    def __enter__(self) -> Self:
        self.ordered = 0
        self.stack = ExitStack()
        self.hands = [self.stack.enter_context(Hand())]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def draw(self, chart: Chart) -> Callable[[], Drawn]:
        """See :data:`Draw`. What comes back raises DrawingStopped where there is no picture."""
        turn = self.ordered % HANDS
        if turn == len(self.hands):
            self.hands.append(self.stack.enter_context(Hand()))
        self.ordered += 1
        return self.hands[turn].draw(chart)


class Hand:
    """A process that draws charts, from entering to leaving; it ends when the one that began it does, however it ends.

    It has a session of its own: Ctrl-C is for the process that began it.
    """

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                made = tempfile.TemporaryDirectory(prefix="vitbench-", ignore_cleanup_errors=True)
                self.folder = Path(stack.enter_context(made))
            except OSError as error:
                raise DrawingStopped(f"there is no temporary folder for pictures: {error.strerror}") from error
            try:
                read, write = Pipe(duplex=False)
                self.orders = stack.enter_context(write)
                with read:
                    process = subprocess.Popen(
                        [sys.executable, "-P", "-m", DRAWER, self.folder],
                        stdin=read.fileno(), stdout=subprocess.PIPE, start_new_session=True,
                        env={**os.environ, "PYTHONPATH": _import_path()},
                    )  # fmt: skip
            except OSError as error:
                raise DrawingStopped(f"no process can be begun that draws: {error.strerror}") from error
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout
            self.answers = process.stdout
            self.ordered = self.answered = 0
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def draw(self, chart: Chart) -> Callable[[], Drawn]:
        """See :data:`Draw`. What comes back raises DrawingStopped where there is no picture."""
        self.ordered += 1
        order = self.ordered
        try:
            self.orders.send(chart)
        except OSError as error:
            raise DrawingStopped(ENDED) from error
        return lambda: self._picture(order)

    def _picture(self, order: int) -> Drawn:
        while self.answered < order:  # they come in the order of the charts
            answer = self.answers.readline()
            if not answer.endswith(b"\n"):
                raise DrawingStopped(ENDED)
            if trouble := answer.decode().strip():
                raise self._no_folder(trouble)
            self.answered += 1
        try:
            png, svg = (self.folder / f"{order}{kind}" for kind in (".png", ".svg"))
            return Drawn(png.read_bytes(), svg.read_text(encoding="utf-8"))
        except OSError as error:
            raise self._no_folder(error.strerror) from error

    def _no_folder(self, trouble: str | None) -> DrawingStopped:
        """Of the folder between the processes, and not of the report's."""
        return DrawingStopped(f"{self.folder}: pictures cannot be put there: {trouble}")


def _import_path() -> str:
    """From where this process imports: so does the other, and not from the working folder where this one does not."""
    return os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
