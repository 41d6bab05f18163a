"""Orphans: a process ends with its parent, so that none is left."""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1  # From <linux/prctl.h>


def die_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when the one that forked it ends, even while it is stuck in C code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
