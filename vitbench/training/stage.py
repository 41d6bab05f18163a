"""Epochs of training; and the stages before a trial's own (pre-training, a teacher), each with its checkpoint."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from vitbench.config.recipe import TrainSpec
from vitbench.config.trial import TrainingTrial
from vitbench.data.batches import Batches
from vitbench.data.images import Images, Splits
from vitbench.devices import PeakMemory
from vitbench.store import Epoch
from vitbench.streams import Stream, derive
from vitbench.training.checkpoint import Checkpointing
from vitbench.training.evaluation import Evaluated, evaluate
from vitbench.training.resume import Resumable, identity
from vitbench.training.stepper import Diverged, Objective, Stepper, TrainState

Progress = Callable[[str], None]


@dataclass(frozen=True)
class StageSetting:
    """Setting that all stages of a trial share."""

    trial: TrainingTrial  # whose stages they are
    data: Splits  # on the device
    device: torch.device
    memory: PeakMemory  # of the trial
    progress: Progress  # called with a line for the user after each epoch
    checkpoint: Checkpointing | None  # of the trial; a stage's file lies beside


@dataclass(frozen=True)
class Done:
    """A stage that is over."""

    epochs: tuple[Epoch, ...]  # of it, in order; with accuracies where it is about labels
    earlier_s: float  # seconds that processes before this one gave to it, as far as its checkpoint knew
    resumed_at: tuple[int, ...]  # its steps at which another process took it up again
    notice: str | None  # why it ran without the CUDA graphs that were asked for, or None


def run(
    stage: Stream, model: nn.Module, recipe: TrainSpec, where: StageSetting, *, words: str,
    objective: Objective | None = None, patches: int | None = None,
) -> Done:  # fmt: skip
    """Train a model in place, and keep it: who takes the trial up again later has no need to.

    Args:
        stage: names the stream of all that is drawn in it, and its checkpoint.
        model: on the device.
        recipe: of the stage.
        where: see :class:`StageSetting`.
        words: what the user hears of it.
        objective: what is trained for. Default: the labels.
        patches: see :class:`vitbench.data.batches.Batches`.

    Raises:
        Diverged, Interrupted: as :func:`vitbench.training.loop.train`; the message of the first names the stage.
    """
    data, device, seed = where.data, where.device, where.trial.seed
    batches = Batches(data, recipe, derive(seed, stage), patches)
    stepper = Stepper(model, recipe, images=len(data.train), device=device, per_epoch=len(batches), objective=objective)
    state, resumable = TrainState(device), None
    torch.manual_seed(derive(seed, stage, "device"))
    if where.checkpoint is not None:
        made_by = {**identity(where.trial, data.checksum, device), "stage": stage}
        path = where.checkpoint.path
        aside = replace(where.checkpoint, path=path.with_suffix(f".{stage}{path.suffix}"))
        resumable = Resumable(aside, made_by, stepper, state, memory=where.memory, progress=where.progress)
        resumable.resume()
    begun = state.epoch
    try:
        train_epochs(
            stepper, [batches], [data], state, resumable, labelled=objective is None,
            progress=lambda line: where.progress(f"{words}, {line}"),
        )  # fmt: skip
    except Diverged as lost:
        raise Diverged(f"{words}: {lost}") from lost
    if resumable and state.epoch > begun:
        resumable.take()
    model.zero_grad()  # else the next stage would count and clip those of weights that no longer move
    notice = stepper.graph.notice if stepper.graph else None
    return Done(tuple(state.epochs[0]), resumable.earlier_s if resumable else 0.0, state.resumed_at, notice)


def judge(
    stepper: Stepper, images: Sequence[Images], data: Sequence[Splits], resumable: Resumable | None
) -> list[Evaluated]:
    """Evaluate each member; between two batches it saves and ends, where that is asked of it.

    A member whose loss is not finite is lost. Raises Diverged where none is left.
    """
    results = evaluate(stepper.judge, images, data, resumable.between_batches if resumable else None)
    stepper.look(torch.tensor([result.loss for result in results]), None, "in evaluation")
    return results


def train_epochs(
    stepper: Stepper, batches: Sequence[Batches], data: Sequence[Splits], state: TrainState,
    resumable: Resumable | None, *, progress: Progress, labelled: bool = True,
) -> None:  # fmt: skip
    """Train all epochs that are left of the budget, and after each judge each member on its validation images.

    Without labels there is nothing to judge. Raises what :func:`vitbench.training.loop.train` does.
    """
    count = -(-stepper.total // stepper.per_epoch)
    validation = [each.validation for each in data]
    while state.epoch < count:
        tallies = stepper.epoch(batches, state, resumable)
        watched = None
        if labelled and len(validation[0]):
            watched = judge(stepper, validation, data, resumable)
        norms = state.gradient_norms()
        epochs = {
            member: Epoch(
                epoch=state.epoch + 1, train_loss=tally.loss,
                train_accuracy_pct=tally.accuracy_pct if labelled else None,
                validation_loss=watched[member].loss if watched else None,
                validation_accuracy_pct=watched[member].accuracy_pct if watched else None,
                learning_rate=stepper.rate(stepper.steps - 1), seconds=state.seconds, gradient_norm=norms[member],
            )
            for member, tally in enumerate(tallies)
            if member not in stepper.lost
        }  # fmt: skip
        state.end(epochs)
        progress(_line(state, count))


def _line(state: TrainState, count: int) -> str:
    """Line for the user after an epoch: of several members their means."""
    last = [epochs[-1] for epochs in state.epochs if len(epochs) == state.epoch]
    loss = statistics.mean(epoch.train_loss for epoch in last)
    watched = [epoch.validation_accuracy_pct for epoch in last if epoch.validation_accuracy_pct is not None]
    seen = f", validation {statistics.mean(watched):.1f} %" if watched else ""
    of = f" ({len(last)} of {len(state.epochs)} seeds)" if len(state.epochs) > 1 else ""
    return f"epoch {state.epoch}/{count}: loss {loss:.3f}{seen}{of}"
