"""A GPU's own counters, by NVML: its clock, why it is held back, and the energy that it has used."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch

from vitbench.devices import synchronise

REASONS = {
    0x04: "power cap", 0x08: "hardware slowdown", 0x10: "sync boost", 0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown", 0x80: "power brake",
}  # fmt: skip
"""Bits of NVML's nvmlClocksEventReasons that mean a clock held back; an idle GPU's low clock is none of them."""


@contextmanager
def _handle(device: torch.device) -> Iterator[tuple[Any, Any] | None]:
    """(NVML, handle of the device); None where it is no GPU, or NVML is not there or does not tell."""
    opened = None
    with ExitStack() as stack:
        if device.type == "cuda":
            with suppress(ImportError):
                import pynvml

                with suppress(pynvml.NVMLError):
                    pynvml.nvmlInit()
                    stack.callback(pynvml.nvmlShutdown)
                    # By its UUID: NVML numbers all GPUs of the machine, torch those that it is shown.
                    uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
                    opened = pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
        yield opened


def clock_state(device: torch.device) -> tuple[int | None, str | None]:
    """(clock of a GPU's processors in MHz, why it is held back: empty if it is not); Nones where unknown."""
    with _handle(device) as opened:
        if opened is None:
            return None, None
        nvml, handle = opened
        try:
            mhz = int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
            bits = int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except nvml.NVMLError:
            return None, None
        return mhz, ", ".join(reason for bit, reason in REASONS.items() if bits & bit)


def energy_mj(device: torch.device, iterate: Callable[[], object], seconds: float) -> float | None:
    """Energy of one iteration in millijoules: the card's own counter over as many as fill ``seconds``; None if unknown.

    The whole card, its idle power included.
    """
    with _handle(device) as opened:
        if opened is None:
            return None
        nvml, handle = opened
        try:
            before = int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        except nvml.NVMLError:
            return None
        iterations, deadline = 0, time.monotonic() + seconds
        while time.monotonic() < deadline:
            iterate()
            synchronise(device)
            iterations += 1
        return (int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) - before) / iterations
