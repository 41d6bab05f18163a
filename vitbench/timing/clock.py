"""Clock: one call's time on its device, and by the host's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from vitbench.devices import synchronise

FLUSHED_BYTES = 256 * 2**20
"""Written between calls to empty a GPU's cache: several times the largest there is (50 MiB on Hopper)."""


class Lap(NamedTuple):
    """One measurement, the mean of one or more consecutive calls, milliseconds."""

    device_ms: float
    wall_ms: float


class Clock:
    """Times calls on a device.

    On a GPU every call is measured twice. Between device events, enqueued while the device is busy writing over its
    cache, so that neither the launch from Python nor data left by the call before is in the figure; and by the host's
    clock from an idle device to an idle device, as a caller that waits for the result would see it. A host's clock
    around an unsynchronised call would measure the launch alone.
    On a CPU both figures are the host's.

    Source: triton.testing.do_bench and NVIDIA's nvbench for events and cache flush.
    """

    def __init__(self, device: torch.device, *, flush: bool) -> None:
        """``flush``: empty a GPU's cache before each call, as for kernels whose inputs come from far away."""
        self.device = device
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
        synchronise(self.device)
        wall_ms = (time.perf_counter() - began) * 1000 / calls
        if self.buffer is None:
            return Lap(wall_ms, wall_ms)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.buffer.zero_()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return Lap(start.elapsed_time(end) / calls, wall_ms)
