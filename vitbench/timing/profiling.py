"""Profiling: which operations an iteration of a model spends its time in, by torch.profiler."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from vitbench.config.model import ModelSpec
from vitbench.config.recipe import Mode, TimeSpec
from vitbench.config.trial import TimeTrial
from vitbench.devices import synchronise
from vitbench.timing.subject import Subject

WARMUP, ITERATIONS = 3, 5


@dataclass(frozen=True)
class OperationCost:
    """Calls and time of one kind of operation."""

    name: str  # the operator's, or the kernel's, as torch calls it
    calls: float  # an iteration
    ms: float  # of its own, without what it calls; milliseconds of the device, an iteration
    share: float  # of an iteration's time


def profiled(
    spec: ModelSpec, device: torch.device, *, batch_size: int, mode: Mode, dtype: str, trace: Path
) -> list[OperationCost]:
    """Run some iterations of a model under the profiler; the operation that takes most comes first.

    The profiler slows what it watches, small operations most: shares tell where the time goes, and are no timing. What
    they leave of an iteration is Python's, waiting, or that of another runtime, whose operations are not seen.

    Args:
        spec: the model.
        device: where it runs.
        batch_size: images at once.
        mode: "inference", or "train" for forward, backward and optimiser step.
        dtype: "float32", "bfloat16" or "float16".
        trace: file for the timeline, which chrome://tracing and perfetto.dev show.

    Raises:
        OSError: where the timeline cannot be written.
        torch.OutOfMemoryError, RuntimeError: as running it does.
    """
    trial = TimeTrial.model_validate(
        {"kind": "time", "level": "model", "model": spec, "protocol": TimeSpec(), "device": device.type,
         "dtype": dtype, "batch_size": batch_size, "mode": mode}
    )  # fmt: skip
    trace.write_bytes(b"")  # now, since the profiler says nothing where it cannot
    subject = Subject(trial, device)
    for _ in range(WARMUP):
        subject.iterate()
    synchronise(device)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it reports its own start and end, and that there is no GPU
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, acc_events=True) as watched:
        began = time.perf_counter()
        for _ in range(ITERATIONS):
            subject.iterate()
        synchronise(device)
        wall_us = (time.perf_counter() - began) * 1e6
    watched.export_chrome_trace(str(trace))
    events = watched.key_averages()
    if on_gpu:  # its kernels; operators on the host have the time of those that they launch once more
        kernels = [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
        operations = {event.key: (event.count, event.self_device_time_total) for event in kernels}
    else:
        operations = {event.key: (event.count, event.self_cpu_time_total) for event in events}
    costs = [
        OperationCost(name, count / ITERATIONS, us / 1e3 / ITERATIONS, us / wall_us)
        for name, (count, us) in operations.items()
        if us > 0
    ]
    return sorted(costs, key=lambda each: -each.ms)
