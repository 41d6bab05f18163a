"""Time one model in this process: warm-up, then iterations, each synchronised with the device."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from vitbench.devices import DTYPES, PeakMemory, Stopwatch, synchronise
from vitbench.model.counting import forward_flops, parameters
from vitbench.model.exactness import check
from vitbench.model.vit import VisionTransformer, build_model
from vitbench.spec.base import Strict, pair
from vitbench.spec.recipe import TrainSpec
from vitbench.spec.trial import TimeTrial
from vitbench.store import Samples, TimeValues
from vitbench.streams import derive
from vitbench.training.optimiser import make_optimiser


class Size(Strict):
    """What is counted of a model, not measured."""

    parameters: int
    forward_flops: int


def gate(trial: TimeTrial, device: torch.device) -> Size:
    """Correct before timed: raises Incorrect unless every exact component keeps the error rule in this dtype."""
    check(trial.model, device, DTYPES[trial.dtype], backward=trial.training)
    with torch.device("meta"):
        counted = parameters(VisionTransformer(trial.model))
    return Size(parameters=counted, forward_flops=forward_flops(trial.model))


def measure(trial: TimeTrial, device: torch.device) -> Samples:
    """Latencies of one fresh process. Inputs and labels are random, and the same in every process and variant."""
    memory = PeakMemory(device)
    dtype = DTYPES[trial.dtype]
    model = build_model(trial.model, seed=0).to(device, dtype)
    stream = torch.Generator().manual_seed(derive(0, "inputs", "timing"))
    shape = (trial.batch_size, trial.model.channels, *pair(trial.model.image_size))
    images = torch.randn(shape, generator=stream).to(device, dtype)
    labels = torch.randint(trial.model.num_classes, (trial.batch_size,), generator=stream).to(device)
    run: nn.Module = cast("nn.Module", torch.compile(model)) if trial.protocol.compile else model
    iterate = MODES[trial.mode](model, run, images, labels, device)

    watch = Stopwatch(device)
    for _ in range(trial.protocol.warmup + trial.protocol.iterations + 1):
        synchronise(device)  # each iteration starts on an idle device: a latency, not the rate of a full queue
        watch.lap()
        iterate()
    synchronise(device)
    watch.lap()
    laps = watch.intervals_ms()
    return Samples(
        latencies_ms=tuple(laps[trial.protocol.warmup + 1 :]),
        first_ms=laps[0],
        peak_memory_mib=memory.mib(),
        load_average=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    )


def _inference(
    model: VisionTransformer, run: nn.Module, images: torch.Tensor, labels: torch.Tensor, device: torch.device
) -> Callable[[], None]:
    run.eval()

    @torch.no_grad()
    def iterate() -> None:
        run(images)

    return iterate


def _training_step(
    model: VisionTransformer, run: nn.Module, images: torch.Tensor, labels: torch.Tensor, device: torch.device
) -> Callable[[], None]:
    """Forward, backward and an AdamW step. The rate is tiny, so that long runs stay on the same numbers."""
    optimiser = make_optimiser(model, TrainSpec(learning_rate=1e-6), device)
    run.train()

    def iterate() -> None:
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(run(images).float(), labels).backward()
        optimiser.step()

    return iterate


MODES = {"inference": _inference, "train": _training_step}


def combine(trial: TimeTrial, size: Size, processes: Sequence[Samples]) -> TimeValues:
    """One trial's processes as the values of its record.

    The statistic is the median of the processes' medians: a process that was unlucky as a whole counts once.
    """
    medians = [statistics.median(p.latencies_ms) for p in processes]
    pooled = sorted(latency for p in processes for latency in p.latencies_ms)
    quartiles = statistics.quantiles(pooled, n=4, method="inclusive") if len(pooled) > 1 else pooled * 3
    p50 = statistics.median(medians)
    return TimeValues(
        latency_ms_p50=p50,
        latency_ms_p25=quartiles[0],
        latency_ms_p75=quartiles[2],
        process_ms_min=min(medians),
        process_ms_max=max(medians),
        images_per_s=trial.batch_size / p50 * 1000,
        first_ms=statistics.median(p.first_ms for p in processes),
        peak_memory_mib=max(p.peak_memory_mib for p in processes),
        parameters=size.parameters,
        forward_flops=size.forward_flops,
        processes=tuple(processes),
    )
