"""The one training loop: every cell, every baseline of a cell, every device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from vitbench.data.batches import Batches
from vitbench.data.images import Images, Splits
from vitbench.data.load import splits
from vitbench.devices import PeakMemory
from vitbench.model.counting import forward_flops, parameters
from vitbench.model.vit import build_model
from vitbench.spec.trial import TrainingTrial, TrainTrial, TuneTrial
from vitbench.store import Epoch, TrainValues, TuneValues
from vitbench.streams import derive
from vitbench.training.checkpoint import Checkpointing
from vitbench.training.optimiser import learning_rate
from vitbench.training.resume import Resumable
from vitbench.training.stepper import Course, Diverged, Stepper, Tally, autocast

EVALUATION_BATCH = 256

WARM_STEPS = 3
"""First steps of a process that are left out of the median: allocation, compilation and autotuning fall on them."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Fitted:
    """A model that has been trained, and what was seen on the way."""

    stepper: Stepper
    course: Course
    data: Splits
    memory: PeakMemory
    batches: Batches
    resumable: Resumable | None

    @property
    def earlier_s(self) -> float:
        """Seconds that processes before this one gave to the trial, as far as its checkpoint knew."""
        return self.resumable.earlier_s if self.resumable else 0.0

    def evaluate(self, images: Images) -> Tally:
        """Loss and accuracy on whole images; ends between two batches where the trial is asked to.

        Raises:
            Diverged, Interrupted: see :func:`train`.
        """
        watch = self.resumable.between_batches if self.resumable else None
        return evaluate(self.stepper.judged, images, self.data, self.stepper.recipe.precision, watch)


def train(
    trial: TrainTrial, device: torch.device, progress: Progress, checkpoint: Checkpointing | None = None
) -> TrainValues:
    """Train one cell with one seed, watch it on validation, and read the test images once, at the end.

    Args:
        trial: what to train.
        device: where.
        progress: called with a line for the user after each epoch, and where a checkpoint is used or cannot be.
        checkpoint: where a long run saves its state, and finds that of an interrupted one, with which it ends at the
            same values, bit by bit on the CPU unless the model is compiled. The file is the caller's to discard, once
            the values are safe. None: no checkpoints.

    Raises:
        Diverged: at most ``CHECK_EVERY`` steps after the loss or the gradient norm stops being finite.
        Interrupted: after a save that ``checkpoint.save_now`` asked for.
    """
    began = time.perf_counter()
    recipe = trial.train
    flops = forward_flops(trial.model)  # first, so that a model that cannot be counted costs no training
    fitted = fit(trial, device, progress, checkpoint)
    data, course = fitted.data, fitted.course
    test = fitted.evaluate(data.test)
    median = median_ms(course.step_ms, course.resumed_at)
    return TrainValues(
        epochs=tuple(course.epochs),
        test_loss=test.loss,
        test_accuracy_pct=test.accuracy_pct,
        train_images=len(data.train),
        validation_images=len(data.validation),
        test_images=len(data.test),
        parameters=parameters(fitted.stepper.module),
        forward_flops=flops,
        steps=fitted.stepper.steps,
        step_ms_p50=median,
        first_step_ms=course.step_ms[0],
        train_images_per_s=min(recipe.batch_size, len(data.train)) / median * 1000,
        train_seconds=course.train_seconds,
        seconds=fitted.earlier_s + time.perf_counter() - began,
        peak_memory_mib=fitted.memory.mib(),
        batches_digest=fitted.batches.digest(),
        data_checksum=data.checksum,
        resumed_at=course.resumed_at,
    )


def tune(
    trial: TuneTrial, device: torch.device, progress: Progress, checkpoint: Checkpointing | None = None
) -> TuneValues:
    """Train one setting of a cell, and judge it by its last epoch's validation. The test images are not looked at.

    Raises:
        Diverged, Interrupted: see :func:`train`.
    """
    began = time.perf_counter()
    fitted = fit(trial, device, progress, checkpoint)
    last = fitted.course.epochs[-1]
    assert last.validation_loss is not None and last.validation_accuracy_pct is not None
    return TuneValues(
        epochs=tuple(fitted.course.epochs),
        validation_loss=last.validation_loss,
        validation_accuracy_pct=last.validation_accuracy_pct,
        train_images=len(fitted.data.train),
        validation_images=len(fitted.data.validation),
        steps=fitted.stepper.steps,
        seconds=fitted.earlier_s + time.perf_counter() - began,
        batches_digest=fitted.batches.digest(),
        data_checksum=fitted.data.checksum,
        resumed_at=fitted.course.resumed_at,
    )


def fit(
    trial: TrainingTrial, device: torch.device, progress: Progress, checkpoint: Checkpointing | None = None
) -> Fitted:
    """Train a trial's model over its whole budget, watching it on validation after each epoch.

    Raises:
        Diverged, Interrupted: see :func:`train`.
    """
    recipe = trial.train
    data = splits(trial.data, trial.model, trial.seed).to(device)
    batches = Batches(data.train, recipe, trial.seed)
    memory = PeakMemory(device)
    model = build_model(trial.model, trial.seed).to(device)
    stepper = Stepper(model, trial, data, device, len(batches))
    assert stepper.total > 0
    course = Course(device)
    torch.manual_seed(derive(trial.seed, "dropout"))  # the streams of dropout and stochastic depth are torch's own
    resumable = None
    if checkpoint is not None:
        resumable = Resumable(checkpoint, trial, stepper, course, memory=memory, progress=progress)
        resumable.resume()
    fitted = Fitted(stepper, course, data, memory, batches, resumable)

    count = -(-stepper.total // len(batches))
    while course.epoch < count:
        tally = stepper.epoch(batches, course, resumable)
        watched = fitted.evaluate(data.validation) if len(data.validation) else None
        course.end(
            Epoch(
                epoch=course.epoch + 1,
                train_loss=tally.loss,
                train_accuracy_pct=tally.accuracy_pct,
                validation_loss=watched.loss if watched else None,
                validation_accuracy_pct=watched.accuracy_pct if watched else None,
                learning_rate=learning_rate(recipe, stepper.steps - 1, len(batches), stepper.total),
                seconds=course.seconds,
            )
        )
        seen = f", validation {watched.accuracy_pct:.1f} %" if watched else ""
        progress(f"epoch {course.epoch}/{count}: loss {tally.loss:.3f}{seen}")
    return fitted


def median_ms(step_ms: Sequence[float], resumed_at: Sequence[int]) -> float:
    """Median duration of a step, milliseconds, each process's first ``WARM_STEPS`` apart where there are others."""
    cold = {start + i for start in (0, *resumed_at) for i in range(WARM_STEPS)}
    return statistics.median([ms for step, ms in enumerate(step_ms) if step not in cold] or step_ms)


@torch.no_grad()
def evaluate(
    model: nn.Module, images: Images, data: Splits, precision: str, watch: Callable[[], None] | None = None
) -> Tally:
    """Loss and accuracy on whole images, unaugmented; ``watch`` is called before each batch.

    Raises:
        Diverged: where the loss is not finite.
    """
    model.eval()
    device = images.pixels.device
    loss, correct = torch.zeros((), device=device), torch.zeros((), dtype=torch.int64, device=device)
    for pixels, labels in zip(
        images.pixels.split(EVALUATION_BATCH), images.labels.split(EVALUATION_BATCH), strict=True
    ):
        if watch is not None:
            watch()
        with autocast(device, precision):
            logits = model(data.normalise(pixels)).float()
        loss += F.cross_entropy(logits, labels, reduction="sum")
        correct += (logits.argmax(dim=-1) == labels).sum()
    if not bool(torch.isfinite(loss)):
        raise Diverged("loss not finite in evaluation")
    return Tally(float(loss) / len(images), 100.0 * int(correct) / len(images))
