"""Every field of a recipe, at a value that is not its default, trains steps on each device that is present."""

import functools
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import wants_compiler
from tests.small import DATA, MODEL, recipe_with, train_trial
from tests.training.stages import silent
from vitbench.config import TrainSpec
from vitbench.config.dead_fields import CONDITIONS, dead_letters
from vitbench.config.recipe import TrainTable
from vitbench.model.build import build_model
from vitbench.model.optimiser import learning_rate
from vitbench.model.weights import save_weights
from vitbench.store import TrainValues
from vitbench.training.loop import train, train_ensemble

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
FEW = DATA.model_copy(update={"train_images": 40, "test_images": 20, "validation_images": 10})
PRETRAINED = {"pretrain_epochs": 1, "decoder_dim": 32}
DECAY = {"weight_decay": 0.1}  # without it Adam and AdamW are one
TAUGHT = {"distillation": "soft", "teacher_epochs": 1}

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "epochs": [{"epochs": 2}],
    "images": [{"images": 40}],
    "batch_size": [{"batch_size": 7}],
    "optimizer": [{**DECAY, "optimizer": "adam"}, {**DECAY, "optimizer": "muon"}],
    "learning_rate": [{"learning_rate": 3e-3}],
    "weight_decay": [{"weight_decay": 0.1}],
    "betas": [{"betas": (0.8, 0.95)}],
    "schedule": [{"schedule": "constant"}],
    "warmup_epochs": [{"warmup_epochs": 0.5}],
    "label_smoothing": [{"label_smoothing": 0.1}],
    "clip_norm": [{"clip_norm": 0.5}],
    "crop_padding": [{"crop_padding": 2}],
    "flip": [{"flip": True}],
    "augment": [{"augment": "randaugment"}, {"augment": "trivialaugment"}],
    "randaugment_operations": [{"augment": "randaugment", "randaugment_operations": 3}],
    "randaugment_level": [{"augment": "randaugment", "randaugment_level": 15}],
    "randaugment_scale": [{"augment": "randaugment", "randaugment_scale": "timm"}],
    "cutout": [{"cutout": 4}],
    "erasing": [{"erasing": 0.5}],
    "mixup": [{"mixup": 0.8}],
    "cutmix": [{"cutmix": 1.0}],
    "repeats": [{"repeats": 2}],
    "ema": [{"ema": 0.9}],
    "pretrained": [{"pretrained": "of another seed"}],
    "pretrain_epochs": [PRETRAINED],
    "pretrain_learning_rate": [{**PRETRAINED, "pretrain_learning_rate": 3e-3}],
    "mask_ratio": [{**PRETRAINED, "mask_ratio": 0.5}],
    "decoder_dim": [{**PRETRAINED, "decoder_dim": 96}],
    "decoder_depth": [{**PRETRAINED, "decoder_depth": 2}],
    "distillation": [TAUGHT, {**TAUGHT, "distillation": "hard"}],
    "teacher": [{**TAUGHT, "teacher": "resnet18"}],
    "teacher_epochs": [{**TAUGHT, "teacher_epochs": 2}],
    "teacher_learning_rate": [{**TAUGHT, "teacher_learning_rate": 1e-4}],
    "distillation_share": [{**TAUGHT, "distillation_share": 0.9}],
    "distillation_temperature": [{**TAUGHT, "distillation_temperature": 1.0}],
    "test_sizes": [{"test_sizes": (8, 24)}],
    "flip_test": [{"flip_test": True, "test_sizes": (24,)}],
    "frozen": [{"frozen": True}],
    "precision": [{"precision": "bfloat16"}],
    "compile": [{"compile": True}],
    "cuda_graphs": [{"cuda_graphs": True}],
    "ensemble_seeds": [{"ensemble_seeds": True}],
    "ensemble_at_most": [{"ensemble_seeds": True, "ensemble_at_most": 2}],
    "measure_peak": [{"measure_peak": True}],
}
MOVES_NOTHING = {"ensemble_seeds", "ensemble_at_most", "measure_peak", "test_sizes", "compile", "cuda_graphs"}
"""Fields that give the same weights, but for rounding."""

NEUTRAL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("pretrain_learning_rate", "mask_ratio", "decoder_dim", "decoder_depth"), PRETRAINED),
    **{name: TAUGHT for name in OPTIONS if name.startswith(("teacher", "distillation_"))},
    **{
        name: {"augment": "randaugment"}
        for name in ("randaugment_operations", "randaugment_level", "randaugment_scale")
    },
    "optimizer": DECAY,
}
"""What a field needs that says how something else is done: it is compared with that at its default."""

CASES = [
    pytest.param(name, option, id=str(option), marks=[pytest.mark.slow] if name == "compile" else [])
    for name, options in OPTIONS.items()
    for option in options
]


def trained(device: str, folder: Path, seeds: int = 1, **changes: Any) -> list[TrainValues]:
    if "pretrained" in changes:
        changes["pretrained"] = str(save_weights(build_model(MODEL, 1), folder / "weights.safetensors"))
    recipe = recipe_with(**{"batch_size": 15, **changes})
    trials = [
        train_trial(train=recipe, data=FEW, seed=seed).model_copy(update={"device": device}) for seed in range(seeds)
    ]
    if reason := trials[0].unsupported(device):
        pytest.skip(reason)
    results = (
        train_ensemble(trials, torch.device(device), silent)
        if recipe.ensemble_seeds
        else [train(trial, torch.device(device), silent) for trial in trials]
    )
    values = [each for each in results if isinstance(each, TrainValues)]
    assert len(values) == seeds, results
    return values


@functools.cache
def losses(device: str, seeds: int, changes: tuple[tuple[str, Any], ...]) -> list[float]:
    return [values.test_loss for values in trained(device, Path(), seeds, **dict(changes))]


@pytest.mark.parametrize("field", CONDITIONS)
def test_a_dead_letter_changes_nothing_and_its_condition_gives_it_an_effect(field: str, tmp_path: Path) -> None:
    with_condition = OPTIONS[field][0]
    alone = {field: with_condition[field]}
    (values,) = trained("cpu", tmp_path, **alone)
    assert [values.test_loss] == losses("cpu", 1, ())
    plain, used = (recipe_with(**given) for given in (alone, with_condition))
    (message,) = dead_letters([plain])
    assert message.startswith(f"train.{field} has no effect")
    assert dead_letters([plain, used]) == dead_letters([used]) == []


@pytest.mark.parametrize(("epochs", "warmup", "reached"), [(2, 5.0, False), (2, 2.0, False), (3, 2.0, True)])
def test_a_warm_up_as_long_as_the_run_is_told_of(epochs: int, warmup: float, reached: bool) -> None:
    recipe = recipe_with(epochs=epochs, warmup_epochs=warmup)
    highest = max(learning_rate(recipe, step, 10, 10 * epochs) for step in range(10 * epochs))
    assert (highest >= recipe.learning_rate) is reached
    words = f"train.learning_rate is never reached: epochs is {epochs}, and warmup_epochs is {warmup:g}"
    assert dead_letters([recipe]) == ([] if reached else [words])
    assert not dead_letters([TrainTable(**recipe.model_dump(), flops=1e12)]), "the plan says how many images these are"


def test_there_is_one_for_every_field() -> None:
    assert OPTIONS.keys() == TrainSpec.model_fields.keys()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("field", "option"), CASES)
def test_it_trains_and_is_no_dead_letter(field: str, option: dict[str, Any], device: str, tmp_path: Path) -> None:
    if option.get("compile") and device == "cpu":
        wants_compiler()
    seeds = 2 if field.startswith("ensemble") else 1
    results = trained(device, tmp_path, seeds, **option)
    plain = losses(device, seeds, tuple(NEUTRAL.get(field, {}).items()))
    for one, loss in zip(results, plain, strict=True):
        assert math.isfinite(one.test_loss) and one.steps >= 2
        if field in MOVES_NOTHING:
            assert one.test_loss == pytest.approx(loss, rel=1e-3)
        else:
            assert one.test_loss != loss, "the option changed nothing"
    assert (results[0].ensemble_size, results[0].peak_flops_per_s is not None) == (seeds, field == "measure_peak")
    assert len(results[0].test_accuracies_at) == len(option.get("test_sizes", ()))
