"""The gradient's norm over training: what it is, and that clipping, ensembles and going on do not change it."""

import pytest
import torch

from tests.small import MODEL, TRAIN, train_trial
from tests.training.stages import CPU, silent
from vitbench.data.batches import Batches
from vitbench.data.load import splits
from vitbench.model.build import build_model
from vitbench.store import Epoch, TrainValues
from vitbench.training import stepper
from vitbench.training.loop import train, train_ensemble

RECIPE = TRAIN.model_copy(update={"epochs": 2})


def norms(**changes: object) -> list[float | None]:
    values = train(train_trial(train=RECIPE.model_copy(update=changes)), CPU, silent)
    return [epoch.gradient_norm for epoch in values.epochs]


def test_it_is_that_of_the_first_batch_of_an_epoch_of_few() -> None:
    trial = train_trial(train=RECIPE)
    model = build_model(MODEL, 0)
    first = next(iter(Batches(splits(trial.data, MODEL, 0), RECIPE, 0).epoch(0)))
    torch.nn.functional.cross_entropy(model(first.images()), first.labels).backward()
    by_hand = sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5
    one, other = norms()
    assert one == pytest.approx(by_hand, rel=1e-4) and other is not None and other != one


def test_it_is_the_one_before_clipping() -> None:
    first = norms()[0]
    assert norms(clip_norm=0.01)[0] == pytest.approx(first, rel=1e-5)


def test_it_is_a_mean_over_evenly_spaced_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "CHECK_EVERY", 2)
    taken: list[float] = []
    real = stepper.gradient_norms
    monkeypatch.setattr(stepper, "gradient_norms", lambda m: (norm := real(m), taken.append(float(norm)))[0])
    means = norms()
    assert len(taken) == 4, "of 4 steps in each of 2 epochs the first and the third"
    assert means == [pytest.approx((taken[0] + taken[1]) / 2), pytest.approx((taken[2] + taken[3]) / 2)]


def test_members_of_an_ensemble_have_their_own() -> None:
    recipe = RECIPE.model_copy(update={"ensemble_seeds": True})
    trials = [train_trial(train=recipe, seed=seed) for seed in range(2)]
    for trial, member in zip(trials, train_ensemble(trials, CPU, silent), strict=True):
        assert isinstance(member, TrainValues)
        alone = train(trial, CPU, silent)
        assert [e.gradient_norm for e in member.epochs] == pytest.approx(
            [e.gradient_norm for e in alone.epochs], rel=1e-3
        )


def test_one_that_is_no_number_is_none() -> None:
    state = stepper.TrainState(CPU)
    state.batches = 1
    state.norm_sum += torch.inf
    assert state.gradient_norms() == [None]
    epoch = Epoch(epoch=1, train_loss=1.0, train_accuracy_pct=None, validation_loss=None, validation_accuracy_pct=None,
                  learning_rate=0.1, seconds=1.0)  # fmt: skip
    assert epoch.gradient_norm is None, "as it is of records that hold none"
