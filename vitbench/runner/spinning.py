"""Spinning: how long the threads of a trial wait for one another before they sleep, by what else the machine does.

A thread of OpenMP that is done with its part spins until the others are: 300,000 times by default, some milliseconds.
Where another process has the core that the last thread needs, it spins for one that cannot run, at every barrier of
every operation, and a run takes 5 to 30 times as long. With 10,000 spins that is rare, and with nothing beside it is as
fast. What is computed is the same either way. Measured: docs/training-notes.md.

libgomp reads GOMP_SPINCOUNT when it is loaded, so the number is that of the fork server, which is started anew when it
is to be another.
"""

import functools
import os
import time

from vitbench.runner.forked import end_server
from vitbench.timing.foreign_load import ForeignLoad

VARIABLE = "GOMP_SPINCOUNT"
LONG, SHORT = "10000", "100"
"""Spins, and those where cores are shared. A run that others join after its start still has LONG."""

LOOKS, APART_SECONDS = 10, 0.005  # How often, and how far apart, it is looked at what else wants to run
TOLERATED = 0.5  # Threads beyond the cores, in the mean, that pass for none: the system's own come and go


def choose(threads: int) -> None:
    """The spin count of a process of so many threads that starts now, while no other of this driver runs.

    One thread alone waits for nobody: it has what the next may need. Nothing is chosen where the user's environment
    says how threads wait.
    """
    if _is_given():
        return
    if threads < 2:
        os.environ.setdefault(VARIABLE, LONG)
        return
    load = ForeignLoad()
    for _ in range(LOOKS):
        load.look()
        time.sleep(APART_SECONDS)
    wanted = SHORT if (load.mean() or 0.0) + threads > (os.cpu_count() or 1) + TOLERATED else LONG
    if os.environ.get(VARIABLE) != wanted:
        end_server()
        os.environ[VARIABLE] = wanted


@functools.cache
def _is_given() -> bool:
    """Whether the environment of this driver said how threads wait before anything was chosen."""
    return VARIABLE in os.environ or "OMP_WAIT_POLICY" in os.environ
