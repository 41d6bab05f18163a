"""What a study will cost, before it is run and without torch."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping

from vitbench.spec.base import by_identity, pair
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import Level
from vitbench.spec.trial import TimeTrial, TrainTrial, Trial
from vitbench.store import Record, TimeValues, TrainValues

CPU_FLOPS_PER_CORE = 35e9
"""Sustained rate of small ViTs in float32 on one core of a 2020s server CPU; used until a trial has been measured."""

LEAST_WARMUP = 10
"""Iterations that a warm-up takes at the least to see that it is steady."""

SHARED_BY = 4
"""Timing trials that share a process, about."""

START_SECONDS = 1.0
"""Of each process: fork, data, model, evaluation's overhead."""


def approximate_flops(model: ModelSpec, level: Level = "model") -> int:
    """Forward operations of one image by closed form, a multiply-add counting two; softmax and norms left out."""
    n, d = model.tokens, model.dim
    patch = 2 * model.patches * model.channels * d * math.prod(pair(model.patch_size))
    core = 0 if model.leaves_out("attention") else 4 * n * n * d
    attention = 0 if model.leaves_out("attention") else 8 * n * d * d + core
    mlp = 0 if model.leaves_out("mlp") else 4 * n * d * model.hidden
    whole = patch + model.depth * (attention + mlp) + 2 * d * model.num_classes
    parts: Mapping[Level, int] = {
        "model": whole, "block": attention + mlp, "patching": patch, "attention": attention, "attention_core": core,
        "norm_layer": 8 * n * d, "positions": n * d, "mlp": mlp, "pooling": n * d,
    }  # fmt: skip
    return parts[level]


def trial_flops(trial: Trial, train_images: int, forward: Callable[..., int] = approximate_flops) -> int:
    """Operations of a whole trial: forward and backward over all epochs, or all timed iterations.

    Args:
        trial: the trial.
        train_images: of one epoch.
        forward: :func:`approximate_flops`, or the same with a memory.
    """
    if not isinstance(trial, TimeTrial):
        return 3 * forward(trial.model) * (trial.train.images or train_images * trial.train.epochs)
    protocol = trial.protocol
    warmup = max(protocol.warmup, LEAST_WARMUP)
    images = (warmup * (protocol.rounds + 1) + protocol.iterations * protocol.rounds) * trial.batch_size
    return (3 if trial.mode == "train" else 1) * forward(trial.model, trial.level) * images


def processes(trial: Trial) -> float:
    """Processes that a trial starts; those that it shares with others in part."""
    return 1 + trial.protocol.rounds / SHARED_BY if isinstance(trial, TimeTrial) else 1


def measured_rate(records: Iterable[Record]) -> float | None:
    """Operations per second of the trials that have finished; None where there are none."""
    rates = []
    for record in records:
        if isinstance(record.values, TrainValues) and isinstance(record.trial, TrainTrial):
            images = record.trial.train.images or record.values.train_images * record.trial.train.epochs
            rates.append(3 * record.values.forward_flops * images / max(record.values.train_seconds, 1e-9))
        if isinstance(record.values, TimeValues) and isinstance(record.trial, TimeTrial):
            passes = 3 if record.trial.mode == "train" else 1
            rates.append(passes * record.values.forward_flops * record.values.images_per_s)
    return statistics.median(rates) if rates else None


class Estimate:
    """What some trials will take, added one by one.

    Attributes:
        flops: operations of those added.
    """

    def __init__(self, train_images: int, device: str, rate: float | None) -> None:
        """``train_images``: of one epoch. ``rate``: operations per second, where some have been measured."""
        if rate is None and device == "cpu":
            rate = CPU_FLOPS_PER_CORE * (os.cpu_count() or 1)
        self.train_images, self.rate = train_images, rate
        self.forward = by_identity(approximate_flops)
        self.flops, self.total = 0, 0.0

    def add(self, trial: Trial) -> None:
        """One more trial."""
        flops = trial_flops(trial, self.train_images, self.forward)
        self.flops += flops
        if self.rate is not None:
            start = START_SECONDS * processes(trial) * (0.3 if trial.kind == "time" else 1.0)
            self.total += flops / self.rate + start

    @property
    def seconds(self) -> float | None:
        """One after another; None where nothing is known of the device."""
        return None if self.rate is None else self.total
