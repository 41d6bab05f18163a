"""Studio: pictures are drawn by a process of their own, while this one makes the rest of a report.

Drawing takes as long as all else, and loading the library that draws a second more. The bytes are the same wherever a
chart is drawn.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import Self

from vitbench.report.charts import Chart

Draw = Callable[[Chart], Callable[[], bytes]]
"""Takes a chart; what comes back gives its PNG, once that is asked for."""


DRAWING = "vitbench.report.drawing"


class DrawingStopped(RuntimeError):
    """The process that draws was killed, or its pictures cannot be handed over. The message says which."""


def at_once(chart: Chart) -> Callable[[], bytes]:
    """Draws in this process."""
    from vitbench.report.drawing import draw  # a second that who draws elsewhere does not wait for

    png = draw(chart)
    return lambda: png


class Studio:
    """A process that draws charts, from entering to leaving; it ends when the one that began it does, however it ends.

    Ctrl-C is for the process that began it: drawing ends with that, after the picture that is being drawn.
    """

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vitbench-")))
            except OSError as error:
                raise DrawingStopped(f"there is no temporary folder for pictures: {error.strerror}") from error
            # Not forked: a fork of a process with threads may wait for ever for a lock that one of them held.
            self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin)
            self.drawn = 0
            held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the new process inherits it
            try:
                self.pool.submit(_load)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.stack:
            self.pool.shutdown(cancel_futures=True)

    def draw(self, chart: Chart) -> Callable[[], bytes]:
        """See :data:`Draw`. What comes back raises DrawingStopped where there is no picture."""
        self.drawn += 1
        # By file: a process that is killed while it sends a megabyte through a pipe leaves the receiver waiting.
        path = self.folder / f"{self.drawn}.png"
        try:
            return _Drawing(self.pool.submit(_draw, chart, path), path)
        except BrokenProcessPool as error:
            raise DrawingStopped(STOPPED) from error


STOPPED = "the process that draws the pictures was killed, by the system where memory ran out; nothing was written"


class _Drawing:
    def __init__(self, done: Future[None], path: Path) -> None:
        self.done, self.path = done, path

    def __call__(self) -> bytes:
        try:
            self.done.result()
            return self.path.read_bytes()
        except BrokenProcessPool as error:
            raise DrawingStopped(STOPPED) from error
        except OSError as error:  # of the folder between the processes, and not of the report's
            raise DrawingStopped(f"{self.path.parent}: pictures cannot be put there: {error.strerror}") from error


def _begin() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _load() -> None:
    importlib.import_module(DRAWING)


def _draw(chart: Chart, path: Path) -> None:
    from vitbench.report.drawing import draw

    path.write_bytes(draw(chart))
