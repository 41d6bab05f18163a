"""The training loop: it learns, repeats itself, stops when lost, and gives every cell the same batches."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tests.small import DATA, MODEL, TRAIN, train_trial
from tests.training.stages import CPU, silent
from vitbench.config import DataSpec, TrainSpec
from vitbench.data.images import Images, Splits
from vitbench.model.build import build_model
from vitbench.model.optimiser import learning_rate, parameter_groups, weights
from vitbench.store import TrainValues
from vitbench.training import stage
from vitbench.training.loop import train
from vitbench.training.stepper import Stepper, Tally, shared


def run(**changes: object) -> TrainValues:
    return train(train_trial(**changes), CPU, silent)


def test_learns_from_real_images(lossless: Path) -> None:
    """Above chance (10 %) by far more than the sampling error of 1,000 images (1 point) after one short epoch."""
    data = DataSpec(name="image_folder", path=str(lossless), validation_images=500)
    model = MODEL.model_copy(update={"image_size": 32})
    values = run(data=data, model=model, train=TrainSpec(epochs=2, batch_size=50, warmup_epochs=0.2))
    assert values.test_accuracy_pct > 20
    assert values.epochs[1].train_loss < values.epochs[0].train_loss
    assert (values.train_images, values.validation_images, values.test_images) == (4500, 500, 1000)
    assert values.steps == 180 and values.test_readings == 1


def test_no_epoch_is_chosen_on_the_test_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read once, after the last epoch, and what is reported is what that reading gave."""
    read: list[tuple[int, float]] = []
    original = stage.evaluate

    def noted(stepper: Stepper, images: Sequence[Images], data: Sequence[Splits], watch: None) -> list[Tally]:
        (tally,) = original(stepper, images, data, watch)
        read.append((len(images[0]), tally.accuracy_pct))
        return [tally]

    monkeypatch.setattr(stage, "evaluate", noted)
    values = run(train=TRAIN.model_copy(update={"epochs": 4, "learning_rate": 0.03}))
    assert [count for count, _ in read] == [40, 40, 40, 40, 60], "validation after each epoch, test once at the end"
    assert values.test_accuracy_pct == read[-1][1]


def test_the_same_trial_gives_the_same_numbers() -> None:
    recipe = TRAIN.model_copy(update={"crop_padding": 2, "flip": True, "label_smoothing": 0.1, "clip_norm": 1.0})
    model = MODEL.model_copy(update={"dropout": 0.1, "drop_path": 0.1})
    one, two = (run(train=recipe, model=model).model_dump() for _ in range(2))
    other = run(train=recipe, model=model, seed=1).model_dump()
    for field in ("test_loss", "test_accuracy_pct", "batches_digest", "data_checksum"):
        assert one[field] == two[field]
    assert one["epochs"][0]["train_loss"] == two["epochs"][0]["train_loss"] != other["epochs"][0]["train_loss"]
    assert one["batches_digest"] != other["batches_digest"]


def test_without_validation_there_is_none() -> None:
    values = run(data=DATA.model_copy(update={"validation_images": 0}))
    assert values.epochs[0].validation_accuracy_pct is None and values.validation_images == 0


def test_an_image_and_its_mirror_image_are_judged_as_one() -> None:
    pixels = torch.randn(6, 3, 16, 16)
    answers = {}
    for together in (False, True):
        recipe = TRAIN.model_copy(update={"flip_test": together})
        stepper = Stepper(build_model(MODEL, 0), recipe, images=60, device=CPU, per_epoch=3)
        answers[together] = [stepper.judge([images])[0] for images in (pixels, pixels.flip(-1))]
    torch.testing.assert_close(*answers[True])
    torch.testing.assert_close(answers[True][0], torch.stack(answers[False]).mean(dim=0))
    assert not torch.allclose(*answers[False], atol=1e-3)


def test_weight_decay_spares_norms_biases_positions_and_class_token() -> None:
    model = build_model(MODEL, seed=0)
    decayed, free = parameter_groups(weights(model), 0.5)
    names = {id(p): n for n, p in model.named_parameters()}
    spared = {names[id(p)] for p in free["params"]}
    kept = {names[id(p)] for p in decayed["params"]}
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.5, 0.0)
    assert spared | kept == set(names.values()) and not spared & kept
    assert {"positions.table", "pooling.class_token", "patching.bias", "encoder.final_norm.weight"} <= spared
    assert {"patching.weight", "head.weight", "encoder.blocks.0.attention.qkv.weight"} <= kept


def test_a_step_has_its_share_of_the_making_of_its_chunk() -> None:
    assert shared([1.0, 2.0, 3.0], 1) == [1.0, 2.0, 3.0]
    laps = [6.0, 1.0, 0.0, 2.0, 0.0, 3.0, 4.0, 1.0]
    assert shared(laps, 3) == [3.0, 4.0, 5.0, 5.0] and sum(shared(laps, 3)) == sum(laps)
    assert shared([], 3) == []


def test_schedules() -> None:
    recipe = TrainSpec(epochs=10, learning_rate=1.0, warmup_epochs=2.0)
    rates = [learning_rate(recipe, step, 10, 100) for step in range(100)]
    assert rates[0] == pytest.approx(1 / 21) and rates[19] == pytest.approx(20 / 21) and rates[20] == 1.0
    assert all(a < b for a, b in pairwise(rates[:21]))
    assert all(a > b for a, b in pairwise(rates[20:])) and rates[-1] < 0.001
    assert {learning_rate(recipe.model_copy(update={"schedule": "constant"}), s, 10, 100) for s in range(20, 100)} == {
        1.0
    }
