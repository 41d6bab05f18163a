"""Memory: resident size of this process, and whether freed memory is kept or returned to the system."""

import contextlib
import functools
import sys
from pathlib import Path
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's mallopt: how many bytes may lie idle, and from how many on a block is the system's own."""


def keep_freed_memory() -> None:
    """Keep what this process frees for what it takes next, to its end; with another C library than glibc nothing.

    A training step takes the blocks that the last one freed. By default the larger ones go back to the system in
    between, and each of their pages costs a fault when it comes again: 5 to 10 % of a small model's step on a CPU.
    """
    # Older ones take 32 MiB at most. Where neither is taken the other option alone would make things worse: with it
    # glibc no longer raises the first threshold by itself.
    if (libc := _glibc()) and any(libc.mallopt(M_MMAP_THRESHOLD, size) for size in (2**30, 2**25)):
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def hand_back() -> None:
    """Give what is freed back to the system, so that it does not hide what is taken from now on."""
    if libc := _glibc():
        libc.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    import ctypes  # here: at the top it would slow the start of every command

    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "malloc_trim") else None


def forget_peak() -> None:
    """Set the process's peak resident set back to its present one, where the kernel allows it."""
    with contextlib.suppress(OSError):  # a fresh process's own peak is near enough
        Path("/proc/self/clear_refs").write_text("5")


def status_mib(key: str) -> float:
    """A value of /proc/self/status in MiB, VmRSS or VmHWM; elsewhere than on Linux the peak of both."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) / 1024
    import resource

    # Only the peak is known, and stands for both. Linux counts KiB, macOS bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
