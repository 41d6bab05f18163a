"""The one training loop: every cell, every baseline of a cell, every device."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.data.batches import Batches
from vitbench.data.images import Images, Splits
from vitbench.data.load import splits
from vitbench.devices import PeakMemory, Stopwatch, synchronise
from vitbench.model.counting import forward_flops, parameters
from vitbench.model.vit import build_model
from vitbench.spec.trial import TrainingTrial, TrainTrial, TuneTrial
from vitbench.store import Epoch, TrainValues, TuneValues
from vitbench.streams import derive
from vitbench.training.optimiser import learning_rate, make_optimiser, steps_of

EVALUATION_BATCH = 256
CHECK_EVERY = 25
"""Steps between looks at the loss: a look makes the device wait, and a lost run should not go on for long."""

WARM_STEPS = 3
"""Steps that are left out of the median: allocation, compilation and autotuning fall on them."""

Progress = Callable[[str], None]


class Diverged(ArithmeticError):
    """The loss or a gradient is no longer a finite number."""


@dataclass(frozen=True)
class Tally:
    """Loss (mean) and accuracy (percent) over some images."""

    loss: float
    accuracy_pct: float


@dataclass(frozen=True)
class Fitted:
    """A model that has been trained, and what was seen on the way."""

    stepper: Stepper
    data: Splits
    epochs: tuple[Epoch, ...]
    step_ms: tuple[float, ...]
    train_seconds: float
    memory: PeakMemory
    batches: Batches


def train(trial: TrainTrial, device: torch.device, progress: Progress) -> TrainValues:
    """Train one cell with one seed, watch it on validation, and read the test images once, at the end.

    Args:
        trial: what to train.
        device: where.
        progress: called with a line for the user after each epoch.

    Raises:
        Diverged: at most ``CHECK_EVERY`` steps after the loss or the gradient norm stops being finite.
    """
    began = time.perf_counter()
    recipe = trial.train
    flops = forward_flops(trial.model)  # first, so that a model that cannot be counted costs no training
    fitted = fit(trial, device, progress)
    data = fitted.data
    test = evaluate(fitted.stepper.model, data.test, data, recipe.precision)
    median = statistics.median(fitted.step_ms[WARM_STEPS:] or fitted.step_ms)
    return TrainValues(
        epochs=fitted.epochs,
        test_loss=test.loss,
        test_accuracy_pct=test.accuracy_pct,
        train_images=len(data.train),
        validation_images=len(data.validation),
        test_images=len(data.test),
        parameters=parameters(fitted.stepper.module),
        forward_flops=flops,
        steps=fitted.stepper.steps,
        step_ms_p50=median,
        first_step_ms=fitted.step_ms[0],
        train_images_per_s=min(recipe.batch_size, len(data.train)) / median * 1000,
        train_seconds=fitted.train_seconds,
        seconds=time.perf_counter() - began,
        peak_memory_mib=fitted.memory.mib(),
        batches_digest=fitted.batches.digest(),
        data_checksum=data.checksum,
    )


def tune(trial: TuneTrial, device: torch.device, progress: Progress) -> TuneValues:
    """Train one setting of a cell, and judge it by its last epoch's validation. The test images are not looked at.

    Raises:
        Diverged: see :func:`train`.
    """
    began = time.perf_counter()
    fitted = fit(trial, device, progress)
    last = fitted.epochs[-1]
    assert last.validation_loss is not None and last.validation_accuracy_pct is not None
    return TuneValues(
        epochs=fitted.epochs,
        validation_loss=last.validation_loss,
        validation_accuracy_pct=last.validation_accuracy_pct,
        train_images=len(fitted.data.train),
        validation_images=len(fitted.data.validation),
        steps=fitted.stepper.steps,
        seconds=time.perf_counter() - began,
        batches_digest=fitted.batches.digest(),
        data_checksum=fitted.data.checksum,
    )


def fit(trial: TrainingTrial, device: torch.device, progress: Progress) -> Fitted:
    """Train a trial's model over its whole budget, watching it on validation after each epoch.

    Raises:
        Diverged: see :func:`train`.
    """
    recipe = trial.train
    data = splits(trial.data, trial.model, trial.seed).to(device)
    batches = Batches(data.train, recipe.batch_size, trial.seed, crop_padding=recipe.crop_padding, flip=recipe.flip)
    memory = PeakMemory(device)
    model = build_model(trial.model, trial.seed).to(device)
    stepper = Stepper(model, trial, data, device, len(batches))
    assert stepper.total > 0
    torch.manual_seed(derive(trial.seed, "dropout"))  # the streams of dropout and stochastic depth are torch's own

    epochs: list[Epoch] = []
    step_ms: list[float] = []
    train_seconds = 0.0
    for number in range(-(-stepper.total // len(batches))):
        started = time.perf_counter()
        tally, laps = stepper.epoch(batches, number)
        synchronise(device)
        seconds = time.perf_counter() - started
        train_seconds += seconds
        step_ms += laps
        watched = evaluate(stepper.model, data.validation, data, recipe.precision) if len(data.validation) else None
        epochs.append(
            Epoch(
                epoch=number + 1,
                train_loss=tally.loss,
                train_accuracy_pct=tally.accuracy_pct,
                validation_loss=watched.loss if watched else None,
                validation_accuracy_pct=watched.accuracy_pct if watched else None,
                learning_rate=learning_rate(recipe, stepper.steps - 1, len(batches), stepper.total),
                seconds=seconds,
            )
        )
        seen = f", validation {watched.accuracy_pct:.1f} %" if watched else ""
        progress(f"epoch {number + 1}/{-(-stepper.total // len(batches))}: loss {tally.loss:.3f}{seen}")
    return Fitted(stepper, data, tuple(epochs), tuple(step_ms), train_seconds, memory, batches)


class Stepper:
    """A model, its optimiser, and the steps taken so far of all that the budget allows."""

    def __init__(
        self, model: nn.Module, trial: TrainingTrial, data: Splits, device: torch.device, per_epoch: int
    ) -> None:
        self.recipe, self.data, self.device, self.per_epoch = trial.train, data, device, per_epoch
        self.total = steps_of(self.recipe, len(data.train))
        self.left = self.recipe.images
        self.module = model
        self.optimiser = make_optimiser(model, self.recipe, device)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.model: nn.Module = cast("nn.Module", torch.compile(model)) if self.recipe.compile else model
        self.steps = 0

    def epoch(self, batches: Batches, number: int) -> tuple[Tally, list[float]]:
        """All steps of one epoch, or as many as are left: (loss and accuracy on the way, milliseconds of each step)."""
        self.model.train()
        # Sums stay on the device: nothing in a step waits for the host.
        loss_sum = torch.zeros((), device=self.device)
        correct = torch.zeros((), dtype=torch.int64, device=self.device)
        watch = Stopwatch(self.device)
        watch.lap()
        seen = 0
        for whole_pixels, whole_labels in itertools.islice(batches.epoch(number), self.total - self.steps):
            pixels, labels = whole_pixels[: self.left], whole_labels[: self.left]
            if self.left is not None:
                self.left -= len(labels)
            loss, logits, norm = self.step(pixels, labels)
            loss_sum += loss * len(labels)
            correct += (logits.argmax(dim=-1) == labels).sum()
            seen += len(labels)
            if self.steps % CHECK_EVERY == 0 or self.steps == 1:
                self.demand_finite(loss_sum, norm)
            watch.lap()
        self.demand_finite(loss_sum, norm)
        return Tally(float(loss_sum) / seen, 100.0 * int(correct) / seen), watch.intervals_ms()

    def step(self, pixels: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """One optimiser step on (B, 3, height, width) uint8: (loss, logits (B, classes), gradient norm if clipped)."""
        rate = learning_rate(self.recipe, self.steps, self.per_epoch, self.total)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        images = self.data.normalise(pixels)
        with autocast(self.device, self.recipe.precision):
            logits: Tensor = self.model(images)
            loss = F.cross_entropy(logits, labels, label_smoothing=self.recipe.label_smoothing)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm) if self.recipe.clip_norm else None
        self.optimiser.step()
        self.steps += 1
        return loss.detach(), logits.detach(), norm

    def demand_finite(self, loss_sum: Tensor, norm: Tensor | None) -> None:
        """Raise Diverged unless the epoch's sum of losses, which keeps any NaN, and the last norm are finite."""
        if not bool(torch.isfinite(loss_sum)):
            raise Diverged(f"loss not finite by step {self.steps}")
        if norm is not None and not bool(torch.isfinite(norm)):
            raise Diverged(f"gradient norm not finite by step {self.steps}")


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The autocast context of a precision; in float32 one that is switched off."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


@torch.no_grad()
def evaluate(model: nn.Module, images: Images, data: Splits, precision: str) -> Tally:
    """Loss and accuracy on whole images, unaugmented. Raises Diverged where the loss is not finite."""
    model.eval()
    device = images.pixels.device
    loss, correct = torch.zeros((), device=device), torch.zeros((), dtype=torch.int64, device=device)
    for pixels, labels in zip(
        images.pixels.split(EVALUATION_BATCH), images.labels.split(EVALUATION_BATCH), strict=True
    ):
        with autocast(device, precision):
            logits = model(data.normalise(pixels)).float()
        loss += F.cross_entropy(logits, labels, reduction="sum")
        correct += (logits.argmax(dim=-1) == labels).sum()
    if not bool(torch.isfinite(loss)):
        raise Diverged("loss not finite in evaluation")
    return Tally(float(loss) / len(images), 100.0 * int(correct) / len(images))
