"""Sharing: training on a machine with other work moves its threads together, onto as many cores as they get.

Threads of OpenMP wait for one another at every barrier. Where each shares its core with another process, one of them is
nearly always waiting for its core, and the others wait with it. On as many cores as the threads get in all they have
these nearly to themselves, and the other work has the rest. What is computed is the same: the threads are as many.
Measured: docs/training-notes.md.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

TASKS = Path("/proc/self/task")

LOOK_SECONDS = 0.5  # Time for which threads are on all cores again, to see how long they wait for them
APART_SECONDS = 10.0  # Time between two looks
ALONE = 0.8  # Share of the time in which threads could run that they did, above which the machine is theirs


@contextlib.contextmanager
def sharing(threads: int) -> Iterator[None]:
    """Watch, while so many threads compute something, how many cores they get, and keep them on so many.

    Nothing is done where there is no second thread or core, or the system does not say how long threads wait for one.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if min(threads, len(cores)) < 2 or _waited() is None:
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(cores, min(threads, len(cores)), over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
        _keep_on(set(cores))


def _watch(cores: list[int], most: int, over: threading.Event) -> None:
    while True:
        _keep_on(set(cores))
        before = _waited() or {}
        if over.wait(LOOK_SECONDS):
            return
        gets = entitled(before, _waited() or {}, most)
        if gets < most:
            first = cores.index(here) if (here := _core()) in cores else 0
            _keep_on({cores[(first + number) % len(cores)] for number in range(gets)})
        if over.wait(APART_SECONDS):
            return


def entitled(before: dict[int, tuple[int, int]], after: dict[int, tuple[int, int]], most: int) -> int:
    """Cores that threads got between two looks at them: as many as they could use where they hardly waited.

    Args:
        before: thread → nanoseconds that it ran, and that it waited for a core.
        after: the same, later.
        most: cores that they can use.
    """
    spent = [(after[t][0] - before[t][0], after[t][1] - before[t][1]) for t in before.keys() & after.keys()]
    ran, waited = sum(r for r, _ in spent), sum(w for _, w in spent)
    if not ran or ran / (ran + waited) > ALONE:
        return most
    return max(1, min(most, round(most * ran / (ran + waited))))


def _waited() -> dict[int, tuple[int, int]] | None:
    """Thread → nanoseconds that it ran, and that it waited for a core; None where the system does not say."""
    times = {}
    try:
        for task in TASKS.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                ran, waited, _ = map(int, (task / "schedstat").read_text().split())
                times[int(task.name)] = (ran, waited)
    except (OSError, ValueError):
        return None
    return times or None


def _keep_on(cores: set[int]) -> None:
    for task in TASKS.iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            os.sched_setaffinity(int(task.name), cores)


def _core() -> int:
    """The core on which the main thread ran last."""
    return int((TASKS / str(os.getpid()) / "stat").read_text().rpartition(")")[2].split()[36])
