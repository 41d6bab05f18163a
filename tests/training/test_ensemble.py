"""Several seeds of a cell as one program: each comes to what it comes to alone."""

import functools
import re
from typing import Any

import pytest
import torch

from tests.components.cases import COMPONENTS
from tests.small import MODEL, recipe_with, train_trial
from tests.training.stages import CPU, TIMED, silent
from vitbench.config import ModelSpec, TrainTrial
from vitbench.data.batches import Batch
from vitbench.model.contract import fitted
from vitbench.store import TrainValues
from vitbench.training.loop import train, train_ensemble
from vitbench.training.stepper import Diverged

SEEDS = (0, 1, 5)
OF_THE_PROGRAM = TIMED | {"ensemble_size"}


def trials(model: ModelSpec = MODEL, **changes: Any) -> list[TrainTrial]:
    recipe = recipe_with(**{"epochs": 2, **changes})
    return [train_trial(model=model, train=recipe, seed=seed) for seed in SEEDS]


def alike(member: TrainValues | Diverged, alone: TrainValues) -> None:
    """But for rounding, of which a few steps make little; and time, which is the whole program's."""
    assert isinstance(member, TrainValues)
    for epoch, other in zip(member.epochs, alone.epochs, strict=True):
        assert epoch.train_loss == pytest.approx(other.train_loss, abs=2e-4)
        assert epoch.validation_loss == pytest.approx(other.validation_loss, abs=2e-4)
    assert member.test_loss == pytest.approx(alone.test_loss, abs=2e-4)
    other = {"epochs", "test_loss", "test_accuracy_pct"} | OF_THE_PROGRAM
    assert member.model_dump(exclude=other) == alone.model_dump(exclude=other)


@functools.cache
def digests() -> list[str]:
    """Digests of the batches that a plain model sees, one for each seed."""
    return [train(trial, CPU, silent).batches_digest for trial in trials(epochs=1, flip=True)]


@pytest.mark.parametrize(("slot", "name"), COMPONENTS)
def test_each_seed_comes_to_what_it_comes_to_alone_and_every_cell_sees_the_same_batches(slot: str, name: str) -> None:
    model = fitted(MODEL, slot, name)
    if reason := model.unsupported("cpu", "float32", True):
        pytest.skip(reason)
    planned = trials(model, epochs=1, flip=True)
    problem = planned[0].ensemble_problem()
    if problem is None:
        members = train_ensemble(planned, CPU, silent)
    else:
        with pytest.raises(ValueError, match=re.escape(problem)):
            train_ensemble(planned, CPU, silent)
    for index, trial in [*enumerate(planned)][1 if problem is None else -1 :]:
        alone = train(trial, CPU, silent)
        assert alone.batches_digest == digests()[index]
        if problem is None:
            alike(members[index], alone)


def test_all_but_mha_biases_and_batch_statistics_can_be_in_an_ensemble() -> None:
    alone = {name for slot, name in COMPONENTS if trials(fitted(MODEL, slot, name))[0].ensemble_problem()}
    packages = {"flash_attn", "xformers"}
    assert alone == {"mha", "relative", "relative_mlp", "alibi_2d", "conv_stem", "resnet_stem", *packages}


@pytest.mark.parametrize("chance", ["dropout", "attention_dropout", "drop_path", "patch_drop"])
def test_what_draws_as_it_trains_is_refused(chance: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be trained as an ensemble: {chance} would draw other numbers"):
        train_ensemble(trials(MODEL.model_copy(update={chance: 0.1})), CPU, silent)


def test_other_cells_are_refused() -> None:
    other = train_trial(model=MODEL.model_copy(update={"norm": "post"}), train=trials()[0].train, seed=7)
    with pytest.raises(ValueError, match="more than their seeds"):
        train_ensemble([*trials(), other], CPU, silent)


def test_a_seed_that_diverges_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first step on, or from the middle of an epoch."""
    expected = [train(trial, CPU, silent) for trial in trials(batch_size=10, epochs=3)]
    original = Batch.images
    seen: list[int] = []

    def poisoned(batch: Batch) -> torch.Tensor:
        seen.append(1)
        images = original(batch)  # the second of three is poisoned from its 20th batch on
        return images * float("nan") if len(seen) % 3 == 2 and len(seen) > 60 else images

    lines: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "images", poisoned)
        first, lost, last = train_ensemble(trials(batch_size=10, epochs=3), CPU, lines.append)
    assert isinstance(lost, Diverged) and "loss not finite by step 25" in str(lost)
    alike(first, expected[0])
    alike(last, expected[2])
    assert "(3 of 3 seeds)" in lines[0] and "(2 of 3 seeds)" in lines[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"clip_norm": 0.3, "weight_decay": 0.1, "label_smoothing": 0.1},
        {"augment": "randaugment", "mixup": 0.8, "cutmix": 1.0, "erasing": 0.5, "flip": True, "crop_padding": 2},
        {"ema": 0.9, "optimizer": "adam"},
        {"optimizer": "muon", "weight_decay": 0.1, "learning_rate": 3e-4},
        {"images": 130, "warmup_epochs": 0.5},
    ],
    ids=str,
)
def test_under_other_recipes_too(changes: dict[str, Any]) -> None:
    for member, trial in zip(train_ensemble(trials(**changes), CPU, silent), trials(**changes), strict=True):
        alike(member, train(trial, CPU, silent))
