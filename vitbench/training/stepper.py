"""Steps of training: a model, its optimiser, and how far they have come."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from vitbench.data.batches import Batch, Batches
from vitbench.data.images import Splits
from vitbench.devices import Stopwatch, synchronise
from vitbench.spec.trial import TrainingTrial
from vitbench.store import Epoch
from vitbench.training.average import Average
from vitbench.training.optimiser import learning_rate, make_optimiser, steps_of

CHECK_EVERY = 25
"""Steps between looks at the loss: a look makes the device wait, and a lost run should not go on for long."""


class Diverged(ArithmeticError):
    """The loss or a gradient is no longer a finite number."""


@dataclass(frozen=True)
class Tally:
    """Loss (mean) and accuracy (percent) over some images."""

    loss: float
    accuracy_pct: float


class Course:
    """How far a trial has come, beside its model and its optimiser: finished epochs, and the one under way.

    Attributes:
        epoch: number of the epoch under way, from 0.
        batches: batches of it that have been trained on.
        seen: images of it.
        loss_sum: () float32, sum of its images' losses; on the device, so that nothing in a step waits for the host.
        correct: () int64, how many of its images were told right; on the device.
        seconds: of training in it.
        epochs: the finished ones.
        train_seconds: of training in those.
        step_ms: duration of each step of the trial.
        resumed_at: steps at which another process took the trial up again.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.epochs: list[Epoch] = []
        self.step_ms: list[float] = []
        self.train_seconds = 0.0
        self.resumed_at: tuple[int, ...] = ()
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """Start an epoch."""
        self.epoch, self.batches, self.seen, self.seconds = epoch, 0, 0, 0.0
        self.loss_sum = torch.zeros((), device=self.device)
        self.correct = torch.zeros((), dtype=torch.int64, device=self.device)

    def end(self, epoch: Epoch) -> None:
        """Finish the epoch under way, and start the next."""
        self.epochs.append(epoch)
        self.train_seconds += self.seconds
        self.begin(self.epoch + 1)

    def tally(self) -> Tally:
        """Loss and accuracy on the way, of the epoch under way."""
        return Tally(float(self.loss_sum) / self.seen, 100.0 * int(self.correct) / self.seen)


class Pauses(Protocol):
    """Something that wants a pause between two steps now and then, such as a checkpoint."""

    def due(self) -> bool:
        """Whether it wants one now; asked after each step, and so cheap."""

    def take(self) -> None:
        """What is done in it; its time and memory are not the step's."""


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
        self.average = Average(model, self.recipe.ema) if self.recipe.ema else None
        self.steps = 0

    @property
    def judged(self) -> nn.Module:
        """The model that is evaluated: the average, where there is one."""
        return self.model if self.average is None else self.average.module

    def modules(self) -> dict[str, nn.Module]:
        """Name → what holds the weights of the run so far."""
        return (
            {"model": self.module} if self.average is None else {"model": self.module, "average": self.average.module}
        )

    def epoch(self, batches: Batches, course: Course, pauses: Pauses | None = None) -> Tally:
        """The steps that are left of the epoch under way, or of the budget: loss and accuracy of the whole epoch.

        Raises:
            Diverged: at most ``CHECK_EVERY`` steps after the loss or the gradient norm stops being finite.
        """
        self.model.train()
        norm = None
        began, watch = time.perf_counter(), _running(self.device)
        left = self.total - self.steps
        for whole in itertools.islice(batches.epoch(course.epoch, course.batches), left):
            batch = whole.head(self.left)
            if self.left is not None:
                self.left -= len(batch)
            loss, logits, norm = self.step(batch)
            course.loss_sum += loss * len(batch)
            course.correct += (logits.argmax(dim=-1) == batch.labels).sum()
            course.seen += len(batch)
            course.batches += 1
            if self.steps % CHECK_EVERY == 0 or self.steps == 1:
                self.demand_finite(course.loss_sum, norm)
            watch.lap()
            if pauses is not None and pauses.due():
                self.demand_finite(course.loss_sum, norm)  # a lost run is not kept
                course.step_ms += watch.intervals_ms()
                course.seconds += time.perf_counter() - began
                pauses.take()
                began, watch = time.perf_counter(), _running(self.device)
        self.demand_finite(course.loss_sum, norm)
        tally = course.tally()
        synchronise(self.device)
        course.step_ms += watch.intervals_ms()
        course.seconds += time.perf_counter() - began
        return tally

    def step(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """One optimiser step: (loss, logits (B, classes), gradient norm if clipped)."""
        rate = learning_rate(self.recipe, self.steps, self.per_epoch, self.total)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        images = batch.images(self.data.normalise)
        with autocast(self.device, self.recipe.precision):
            logits: Tensor = self.model(images)
            loss = batch.loss(logits, self.recipe.label_smoothing)
        self.optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm) if self.recipe.clip_norm else None
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.module, self.steps)
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


def _running(device: torch.device) -> Stopwatch:
    watch = Stopwatch(device)
    watch.lap()
    return watch
