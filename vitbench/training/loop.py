"""The one training loop: every cell, every baseline of a cell, every device."""

import base64
import functools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from vitbench.ceilings import measure_products
from vitbench.config.trial import TrainingTrial, TrainTrial, TuneTrial
from vitbench.data.batches import Batches
from vitbench.data.images import Splits
from vitbench.data.load import splits
from vitbench.devices import DTYPES, PeakMemory
from vitbench.model.build import Model, build_model
from vitbench.model.counting import forward_flops, parameters_of
from vitbench.model.pretrained import load_pretrained
from vitbench.model.resized import at_size
from vitbench.model.vit import VisionTransformer
from vitbench.model.weights import SUFFIX
from vitbench.store import TrainValues, TuneValues
from vitbench.streams import derive
from vitbench.training import stage
from vitbench.training.checkpoint import Checkpointing
from vitbench.training.distillation import Student, Teacher, taught, teach
from vitbench.training.ensemble import Ensemble, logits
from vitbench.training.evaluation import evaluate
from vitbench.training.graphs import FIRST_STEPS
from vitbench.training.kept import final_model, keep
from vitbench.training.pretraining import Pretrained, pretrain
from vitbench.training.probe import Probe
from vitbench.training.resume import Resumable, identity
from vitbench.training.stage import Progress
from vitbench.training.stepper import Diverged, Stepper, TrainState, viewed

WARM_STEPS = FIRST_STEPS + 1
"""First steps of a process that are left out of the median: on them fall allocation, compilation, autotuning, and the
capture of a graph."""


@dataclass(frozen=True)
class Fitted:
    """Models that have been trained together, one or several, and what was seen on the way."""

    stepper: Stepper
    state: TrainState
    data: Sequence[Splits]
    memory: PeakMemory
    batches: Sequence[Batches]
    resumable: Resumable | None
    pretrained: Pretrained | None
    teacher: Teacher | None

    @property
    def earlier_s(self) -> float:
        """Seconds that processes before this one gave to the trials, as far as their checkpoint knew."""
        return sum(each.earlier_s for each in (self.pretrained, self.teacher, self.resumable) if each)

    @property
    def notices(self) -> tuple[str, ...]:
        """All that a reader of the values must know, each once."""
        notices = [each.notice for each in (self.pretrained, self.teacher, self.stepper.graph) if each]
        return tuple(dict.fromkeys(filter(None, notices)))


def train(
    trial: TrainTrial, device: torch.device, progress: Progress, checkpoint: Checkpointing | None = None,
    weights: Path | None = None,
) -> TrainValues:  # fmt: skip
    """Train one cell with one seed, watch it on validation, and read the test images once, at the end.

    Args:
        trial: what to train.
        device: where.
        progress: called with a line for the user after each epoch, and where a checkpoint is used or cannot be.
        checkpoint: where a long run saves its state, and finds that of an interrupted one, with which it ends at the
            same values, bit by bit on the CPU unless the model is compiled. The file is the caller's to discard, once
            the values are safe. None: no checkpoints.
        weights: folder that gets the model at the end, as ``<id of the trial>.safetensors``; where that cannot be
            written, ``progress`` says so. None: nowhere.

    Raises:
        Diverged: at most ``CHECK_EVERY`` steps after the loss or the gradient norm stops being finite; on a GPU see
            :meth:`vitbench.training.stepper.Stepper.epoch`.
        Interrupted: after a save that ``checkpoint.save_now`` asked for.
    """
    (values,) = _trained([trial], device, progress, checkpoint, weights)
    assert isinstance(values, TrainValues)  # one that is lost raises
    return values


def train_ensemble(
    trials: Sequence[TrainTrial], device: torch.device, progress: Progress, weights: Path | None = None
) -> list[TrainValues | Diverged]:
    """Train several seeds of one cell as one program: each gives what it gives alone, within rounding.

    Throughput, time of a step and memory are those of the program, which sees the images of all seeds; of its seconds
    each seed has its share. A seed that diverges leaves the others alone.

    Args:
        trials: alike in all but their seeds.
        device: where.
        progress: called with a line for the user after each epoch.
        weights: see :func:`train`.

    Raises:
        ValueError: where trials differ in more than their seeds, or cannot be an ensemble; the message says why.
        Diverged: where all of them do.
    """
    if len({trial.model_copy(update={"seed": 0}).id for trial in trials}) > 1:
        raise ValueError("trials of an ensemble differ in more than their seeds")
    if reason := trials[0].ensemble_problem():
        raise ValueError(f"cannot be trained as an ensemble: {reason}")
    return _trained(trials, device, progress, None, weights)


def _trained(
    trials: Sequence[TrainTrial], device: torch.device, progress: Progress, checkpoint: Checkpointing | None,
    weights: Path | None,
) -> list[TrainValues | Diverged]:  # fmt: skip
    began = time.perf_counter()
    trial = trials[0]
    flops = forward_flops(trial.model)  # first, so that a model that cannot be counted costs no training
    peak = measure_products(device, DTYPES[trial.dtype]) if trial.train.measure_peak else None
    fitted = fit(trials, device, progress, checkpoint)
    data, state, stepper = fitted.data, fitted.state, fitted.stepper
    pretrained, teacher = fitted.pretrained, fitted.teacher
    tests = stage.judge(stepper, [each.test for each in data], data, fitted.resumable)
    median, warm_up = step_times_ms(state.step_ms, state.resumed_at, len(fitted.batches[0]))
    batch = min(trial.train.batch_size, len(data[0].train))
    results = [
        Diverged(stepper.lost[member])
        if member in stepper.lost
        else TrainValues(
            epochs=tuple(state.epochs[member]),
            test_loss=test.loss,
            test_accuracy_pct=test.accuracy_pct,
            test_accuracies_at=_at_other_sizes(stepper, trial, data[member], member),
            test_right=base64.b64encode(test.right).decode(),
            test_most_common_pct=data[member].test.most_common_pct(),
            train_images=len(data[member].train),
            validation_images=len(data[member].validation),
            test_images=len(data[member].test),
            parameters=parameters_of(trial.model),
            forward_flops=flops,
            trained_flops=forward_flops(trial.model, training=True) if trial.model.patch_drop else None,
            steps=stepper.steps,
            step_ms_p50=median,
            first_step_ms=state.step_ms[0],
            train_images_per_s=len(trials) * batch / median * 1000,
            train_seconds=state.train_seconds / len(trials),
            seconds=(fitted.earlier_s + time.perf_counter() - began) / len(trials),
            peak_memory_mib=fitted.memory.mib(),
            batches_digest=fitted.batches[member].digest(),
            data_checksum=data[member].checksum,
            resumed_at=state.resumed_at,
            pretraining=pretrained.epochs if pretrained else (),
            teaching=teacher.epochs if teacher else (),
            preparation_flops=sum(each.flops for each in (pretrained, teacher) if each),
            preparation_resumed_at=tuple(step for each in (pretrained, teacher) if each for step in each.resumed_at),
            reconstructions=base64.b64encode(pretrained.sheet).decode() if pretrained else None,
            peak_flops_per_s=peak,
            warm_up_seconds=warm_up / 1000 / len(trials),
            ensemble_size=len(trials),
            notices=fitted.notices,
        )
        for member, test in enumerate(tests)
    ]
    if weights is not None:  # after all that is measured; and what cannot be kept costs no result
        try:
            for member, each in enumerate(trials):
                if member not in stepper.lost:
                    keep(stepper, each, data[member], weights / f"{each.id}{SUFFIX}", member)
        except OSError as error:
            progress(why := f"its weights are not kept: {error.strerror or error}")
            notices = {"notices": (*fitted.notices, why)}
            results = [each if isinstance(each, Diverged) else each.model_copy(update=notices) for each in results]
    return results


def _at_other_sizes(stepper: Stepper, trial: TrainTrial, data: Splits, member: int) -> tuple[float, ...]:
    """Test accuracy, percent, of what a member has learnt, on the test images at each further size of its recipe."""
    if not trial.train.test_sizes:
        return ()
    accuracies, trained = list[float](), final_model(stepper, trial.model, member).to(stepper.device)
    for size in trial.train.test_sizes:
        model = at_size(trained, size)
        run = functools.partial(logits, model, model)
        judge = functools.partial(viewed, run, recipe=trial.train, device=stepper.device)
        (result,) = evaluate(judge, [data.test.resized((size, size))], [data])
        accuracies.append(result.accuracy_pct)
    return tuple(accuracies)


def tune(
    trial: TuneTrial, device: torch.device, progress: Progress, checkpoint: Checkpointing | None = None
) -> TuneValues:
    """Train one setting of a cell, and judge it by its last epoch's validation. The test images are not looked at.

    Raises:
        Diverged, Interrupted: see :func:`train`.
    """
    began = time.perf_counter()
    fitted = fit([trial], device, progress, checkpoint)
    (epochs,), (data,), (batches,) = fitted.state.epochs, fitted.data, fitted.batches
    last = epochs[-1]
    assert last.validation_loss is not None and last.validation_accuracy_pct is not None
    return TuneValues(
        epochs=tuple(epochs),
        validation_loss=last.validation_loss,
        validation_accuracy_pct=last.validation_accuracy_pct,
        train_images=len(data.train),
        validation_images=len(data.validation),
        steps=fitted.stepper.steps,
        seconds=fitted.earlier_s + time.perf_counter() - began,
        batches_digest=batches.digest(),
        data_checksum=data.checksum,
        resumed_at=fitted.state.resumed_at,
    )


def fit(
    trials: Sequence[TrainingTrial], device: torch.device, progress: Progress, checkpoint: Checkpointing | None = None
) -> Fitted:
    """Train the models of trials that differ in their seeds alone, watching them on validation after each epoch.

    Raises:
        Diverged, Interrupted: see :func:`train`.
    """
    recipe = trials[0].train
    data = [splits(trial.data, trial.model, trial.seed).to(device) for trial in trials]
    batches = [Batches(each, recipe, trial.seed) for each, trial in zip(data, trials, strict=True)]
    memory = PeakMemory(device)
    models = [build_model(trial.model, trial.seed).to(device) for trial in trials]
    pretrained = teacher = objective = resumable = None
    where = stage.StageSetting(trials[0], data[0], device, memory, progress, checkpoint)
    if recipe.pretrained is not None:
        for each in models:
            load_pretrained(each, recipe.pretrained, head=not recipe.frozen)
    model: nn.Module = models[0] if len(models) == 1 else Ensemble(models)
    if recipe.pretrain_epochs or recipe.has_teacher:
        assert isinstance(model, VisionTransformer)  # plans with another, or with an ensemble, are refused
        pretrained = pretrain(model, where) if recipe.pretrain_epochs else None
        if recipe.has_teacher:
            teacher, model = teach(where), Student(model)
            objective = taught(teacher.model, recipe)
    if recipe.frozen:
        assert isinstance(model, Model)  # likewise
        model = Probe(model)
    per_epoch, images = len(batches[0]), len(data[0].train)
    stepper = Stepper(model, recipe, images=images, device=device, per_epoch=per_epoch, objective=objective)
    assert stepper.total > 0
    state = TrainState(device, len(trials))
    torch.manual_seed(derive(trials[0].seed, "dropout"))  # the streams of dropout and stochastic depth are torch's own
    if checkpoint is not None:
        made_by = identity(trials[0], data[0].checksum, device)
        resumable = Resumable(checkpoint, made_by, stepper, state, memory=memory, progress=progress)
        resumable.resume()
    stage.train_epochs(stepper, batches, data, state, resumable, progress=progress)
    return Fitted(stepper, state, data, memory, batches, resumable, pretrained, teacher)


def step_times_ms(step_ms: Sequence[float], resumed_at: Sequence[int], per_epoch: int) -> tuple[float, float]:
    """Median duration of a step, and time by which the steps of a warm-up took longer than it, milliseconds.

    Each process warms up in its first ``WARM_STEPS``, and in the first that ends an epoch: its batch may have a shape
    of its own. The median is of the other steps where there are some.
    """
    starts = (0, *resumed_at)
    cold = {start + i for start in starts for i in (*range(WARM_STEPS), per_epoch - 1 - start % per_epoch)}
    median = statistics.median([ms for step, ms in enumerate(step_ms) if step not in cold] or step_ms)
    return median, sum(max(ms - median, 0.0) for step, ms in enumerate(step_ms) if step in cold)
