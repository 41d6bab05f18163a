"""What a study will cost, before it is run and without torch."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable

from vitbench.spec.model import ModelSpec
from vitbench.spec.trial import TimeTrial, TrainTrial
from vitbench.store import PlannedTrial, Record, TimeValues, TrainValues

CPU_FLOPS_PER_CORE = 35e9
"""Sustained rate of small ViTs in float32 on one core of a 2020s server CPU; used until a trial has been measured."""

START_SECONDS = 1.0
"""Of each process: fork, data, model, evaluation's overhead."""


def approximate_flops(model: ModelSpec) -> int:
    """Forward operations of one image by closed form, a multiply-add counting two; softmax and norms left out."""
    n, d = model.tokens, model.dim
    patch = 2 * model.patches * model.channels * d
    for side in model.patch_size if isinstance(model.patch_size, tuple) else (model.patch_size,) * 2:
        patch *= side
    attention = 0 if model.leaves_out("attention") else 8 * n * d * d + 4 * n * n * d
    mlp = 0 if model.leaves_out("mlp") else 4 * n * d * model.hidden
    return patch + model.depth * (attention + mlp) + 2 * d * model.num_classes


def trial_flops(trial: TrainTrial | TimeTrial, train_images: int) -> int:
    """Operations of a whole trial: forward and backward over all epochs, or all timed iterations."""
    forward = approximate_flops(trial.model)
    if isinstance(trial, TrainTrial):
        return 3 * forward * train_images * trial.train.epochs
    protocol = trial.protocol
    per_process = (protocol.warmup + protocol.iterations + 1) * trial.batch_size
    return (3 if trial.mode == "train" else 1) * forward * per_process * protocol.rounds


def processes(trial: TrainTrial | TimeTrial) -> int:
    """Processes that a trial starts."""
    return 1 if isinstance(trial, TrainTrial) else 1 + trial.protocol.rounds


def measured_rate(records: Iterable[Record]) -> float | None:
    """Operations per second of the trials that have finished; None where there are none."""
    rates = []
    for record in records:
        if isinstance(record.values, TrainValues) and isinstance(record.trial, TrainTrial):
            images = record.values.train_images * record.trial.train.epochs
            rates.append(3 * record.values.forward_flops * images / max(record.values.train_seconds, 1e-9))
        if isinstance(record.values, TimeValues) and isinstance(record.trial, TimeTrial):
            passes = 3 if record.trial.mode == "train" else 1
            rates.append(passes * record.values.forward_flops * record.values.images_per_s)
    return statistics.median(rates) if rates else None


def estimate_seconds(
    trials: Iterable[PlannedTrial], train_images: int, device: str, rate: float | None, workers: int = 1
) -> float | None:
    """Seconds for some trials; None where nothing is known of the device."""
    if rate is None:
        if device != "cpu":
            return None
        rate = CPU_FLOPS_PER_CORE * (os.cpu_count() or 1)
    total = 0.0
    for planned in trials:
        start = START_SECONDS * processes(planned.trial) * (1.0 if planned.trial.kind == "train" else 0.3)
        total += trial_flops(planned.trial, train_images) / rate + start
    return total / workers
