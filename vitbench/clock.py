"""Clock: the time of one call, on its device and on the host."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from vitbench.devices import synchronise

FLUSHED_BYTES = 256 * 2**20
"""Bytes written between calls to empty a GPU's cache: several times the largest there is (50 MiB on Hopper)."""


SLEEP_CYCLES_PER_MS = 2_000_000  # Cycles of torch's sleeping kernel: a millisecond at 2 GHz, and more on a slower clock
SLACK_MS, MOST_ASLEEP_MS = 0.2, 100.0


class Lap(NamedTuple):
    """One measurement, the mean of one or more consecutive calls, milliseconds."""

    device_ms: float
    wall_ms: float
    hidden: bool | None = None
    """Whether the host had launched all calls before the device began the first; None where none was to be hidden."""


class Clock:
    """Times calls on a device.

    On a GPU every call is measured twice: between device events, and by the host's clock from an idle device to an idle
    device, as a caller that waits for the result would see it. A host's clock around an unsynchronised call would
    measure the launch alone. On a CPU both figures are the host's.

    Of an operator (``flush``) the first figure is of its kernels alone. Events are enqueued while the device is busy:
    it writes over its cache, so that no data are left of the call before, and sleeps for twice as long as the host has
    just taken to launch the calls. Of a whole model nothing is hidden: where the host cannot keep up, its user waits.

    Source: triton.testing.do_bench and NVIDIA's nvbench for events and cache flush; nvbench's blocking kernel.
    """

    def __init__(self, device: torch.device, *, flush: bool) -> None:
        """``flush``: empty a GPU's cache, and hide launches, as for operators whose inputs come from far away."""
        self.device, self.flush = device, flush
        self.buffer = None
        if device.type == "cuda":
            size = FLUSHED_BYTES if flush else 1
            self.buffer = torch.empty(size, dtype=torch.int8, device=device)

    def lap(self, call: Callable[[], object], calls: int = 1) -> Lap:
        """Time ``calls`` consecutive calls; on a GPU, with its cache emptied, only the first of them is cold."""
        synchronise(self.device)
        began = time.perf_counter()
        for _ in range(calls):
            call()
        launched_ms = (time.perf_counter() - began) * 1000
        synchronise(self.device)
        wall_ms = (time.perf_counter() - began) * 1000 / calls
        if self.buffer is None:
            return Lap(wall_ms, wall_ms)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.buffer.zero_()
        if self.flush:
            asleep_ms = min(2 * launched_ms + SLACK_MS, MOST_ASLEEP_MS)
            torch.cuda._sleep(round(asleep_ms * SLEEP_CYCLES_PER_MS))
        start.record()
        for _ in range(calls):
            call()
        end.record()
        hidden = not start.query() if self.flush else None
        end.synchronize()
        return Lap(start.elapsed_time(end) / calls, wall_ms, hidden)
