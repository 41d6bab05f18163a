"""Processes, identified by start time and a mark of the run, since a pid is used again and clocks step."""

import contextlib
import functools
import hashlib
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "VITBENCH_RUN"
"""Environment variable of a driver and of all that it starts: only what has a driver's own mark is ended for it."""

PR_SET_PDEATHSIG = 1  # From <linux/prctl.h>
PASSES = 5  # Passes over a group's processes, of which one may fork while others are ended


@functools.cache
def mark() -> str:
    """This process' own mark. It is in the environment of whatever is started from now on."""
    os.environ[MARK] = secrets.token_hex(8)
    return os.environ[MARK]


@functools.cache
def machine_id() -> str:
    """Hash of where process numbers mean the same processes: one boot of one machine, one namespace."""
    parts = [str(os.getuid())]
    for file in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        with contextlib.suppress(OSError):
            parts.append(Path(file).read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    if len(parts) == 1:  # not Linux
        parts.append(os.uname().nodename)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def lives(pid: int, since: float) -> bool:
    """Whether a process of this number, started at that time, is there."""
    now = start_time(pid)
    return now is not None and abs(now - since) < 0.5


def start_time(pid: int) -> float | None:
    """When a process was started, in seconds since the machine's; None where none of this number lives.

    Steps of the wall clock do not move it. Where the system has no /proc it is the time since 1970.
    """
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return _since_1970(pid)
    return None if state in "ZX" else int(rest[18]) / os.sysconf("SC_CLK_TCK")


def wall_clock(moment: float) -> float:
    """A time that :func:`start_time` gives as seconds since 1970, by the clock as it stands now."""
    if not Path("/proc/self/stat").exists():
        return moment
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + moment


def end_group(leader: int, marked: str) -> None:
    """Kill the processes of a group that a driver with this mark started; never another, whatever a lease names."""
    import psutil

    if leader <= 1 or not marked:
        return
    for _ in range(PASSES):
        killed = False
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if os.getpgid(process.pid) != leader or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if process.uids().real == os.getuid() and process.environ().get(MARK) == marked:
                    process.kill()
                    killed = True
        if not killed:
            return


def _since_1970(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def die_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when the one that forked it ends, even while it is stuck in C code."""
    if sys.platform == "linux":
        import ctypes  # here: at the top it would slow the start of every command

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


@contextlib.contextmanager
def sigterm_exits() -> Iterator[None]:
    """SIGTERM ends what is done meanwhile as a Ctrl-C does: what it has started is ended, its temporary files go."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
