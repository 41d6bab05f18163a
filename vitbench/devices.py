"""Devices: names, capabilities, time and memory."""

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from vitbench.config.model import ModelSpec
from vitbench.errors import UserError
from vitbench.memory import forget_peak, hand_back, status_mib

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class DeviceError(UserError, ValueError):
    """A device that is asked for and is not there. The message says what there is."""


class Unsupported(ValueError):
    """A trial that cannot run where it is asked to; the message is the reason in the table."""


def resolve(requested: str) -> torch.device:
    """The device that a user means by "auto", "cpu", "cuda", "cuda:1" or "mps".

    From then on float32 is true float32 in this process: cuDNN's convolutions would use TF32 by default, and their
    equivalent implementations would not.

    Raises:
        DeviceError: where there is no such device; never another one in its place.
    """
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if requested == "auto":
        kind = "cuda" if torch.cuda.is_available() else ("mps" if torch.backends.mps.is_available() else "cpu")
        return resolve(kind)
    kind, _, index = requested.partition(":")
    if kind == "cpu" and not index:
        return torch.device("cpu")
    if kind == "mps" and not index:
        if not torch.backends.mps.is_available():
            raise DeviceError("mps requested, and this machine or this build of torch has none")
        return torch.device("mps")
    if kind == "cuda" and (index.isdigit() or requested == "cuda"):
        if not torch.cuda.is_available():
            build = "a CPU build" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
            raise DeviceError(f"{requested} requested, and torch {torch.__version__}, {build}, sees no GPU")
        if int(index or 0) >= torch.cuda.device_count():
            raise DeviceError(f"{requested} requested, and there are {torch.cuda.device_count()} CUDA devices")
        return torch.device("cuda", int(index or 0))
    raise DeviceError(f'"{requested}" is no device; allowed: auto, cpu, cuda, cuda:0, …, mps')


def names(requested: str) -> list[str]:
    """Names of the devices that a user means: all GPUs for "cuda", and for "auto" where there is one.

    Raises:
        DeviceError: as :func:`resolve`.
    """
    first = resolve(requested)
    if first.type == "cuda" and requested in ("auto", "cuda"):
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    return [str(first)]


def unsupported(model: ModelSpec, device: torch.device, dtype: str, *, training: bool) -> str | None:
    """Why a model cannot run on this device, here and now; None if it can."""
    if reason := model.unsupported(device.type, dtype, training) or model.missing_package():
        return reason
    if dtype == "bfloat16" and device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return f"{torch.cuda.get_device_name(device)} has no bfloat16"
    return None


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def copy_all(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy, of each pair, the second tensor to where the first lies; on a GPU one launch for each data type."""
    kinds: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in pairs:
        targets, sources = kinds.setdefault(target.dtype, ([], []))
        targets.append(target)
        sources.append(source)
    for targets, sources in kinds.values():
        torch._foreach_copy_(targets, sources)


class Stopwatch:
    """Time between laps, in milliseconds, without making the device wait where it has events of its own.

    It runs from when it is made.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.kind = device, device.type
        self._laps: list[Any] = []
        self.lap()

    def lap(self) -> None:
        """Mark this point of the device's work."""
        if self.kind == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._laps.append(event)
        else:
            if self.kind != "cpu":  # whose work is done when the host goes on
                synchronise(self.device)
            self._laps.append(time.perf_counter())

    def intervals_ms(self) -> list[float]:
        """Durations between successive laps so far; starts anew from the last lap."""
        synchronise(self.device)
        pairs = itertools.pairwise(self._laps)
        spans = [a.elapsed_time(b) if self.kind == "cuda" else (b - a) * 1000 for a, b in pairs]
        self._laps = self._laps[-1:]
        return spans


class PeakMemory:
    """Largest memory in use since this object was made, MiB.

    On a GPU what torch has allocated; on the CPU (and mps) the process's resident set; both less what it was at the
    start, so that images that lie on the device beforehand are not counted.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.earlier = device, 0.0
        self._forget()
        on_gpu = device.type == "cuda"
        self.resting = torch.cuda.memory_allocated(device) / 2**20 if on_gpu else status_mib("VmRSS")

    def _forget(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            hand_back()
            forget_peak()

    def mib(self) -> float:
        """The peak so far."""
        if self.device.type == "cuda":
            return max(torch.cuda.max_memory_allocated(self.device) / 2**20 - self.resting, self.earlier)
        return max(status_mib("VmHWM") - self.resting, self.earlier)

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave the peak as it is, whatever happens inside (on the CPU: where the kernel lets a process forget it)."""
        self.earlier = self.mib()
        yield
        self._forget()

    def reserved_mib(self) -> float | None:
        """Memory that the allocator held at the peak, unused fragments included; None where it does not tell."""
        return torch.cuda.max_memory_reserved(self.device) / 2**20 if self.device.type == "cuda" else None


def peak_bytes(device: str) -> int:
    """Most memory that the process has had: on a GPU allocated by torch, else resident."""
    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_allocated(device))
    return int(status_mib("VmHWM") * 2**20)
