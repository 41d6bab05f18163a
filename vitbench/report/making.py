"""Making the files of a report: pictures and tables take seconds of a core, and there are more cores than one."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

Maker = Callable[[], bytes]

_inherited: dict[int, list[Maker]] = {}
"""What processes are to make, by batch. They inherit it: a figure in the making cannot be sent to them."""

_batches = itertools.count()


class Making:
    """Some files in the making: by processes of their own where that is safe, else when they are asked for.

    The bytes are the same either way.
    """

    def __init__(self, makers: Mapping[str, Maker]) -> None:
        self.makers, self.batch, self.futures = makers, next(_batches), list[Future[bytes]]()
        workers = min(_cores(), len(makers))
        self.pool = ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) if workers > 1 else None
        if self.pool:
            _inherited[self.batch] = list(makers.values())
            self.futures = [self.pool.submit(_make, self.batch, number) for number in range(len(makers))]

    def results(self) -> dict[str, bytes]:
        """Name → content of each file. No process is left behind."""
        if self.pool is None:
            return {name: maker() for name, maker in self.makers.items()}
        with self.pool:
            found = {name: future.result() for name, future in zip(self.makers, self.futures, strict=True)}
        _inherited.pop(self.batch, None)
        return found


def _make(batch: int, number: int) -> bytes:
    return _inherited[batch][number]()


def _cores() -> int:
    """Cores to fork processes for: one where this process has several threads, whose locks a fork would keep closed."""
    tasks = Path("/proc/self/task")
    alone = tasks.is_dir() and len(list(tasks.iterdir())) == 1
    return len(os.sched_getaffinity(0)) if alone else 1
