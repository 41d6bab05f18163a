"""Baselines beside the Vision Transformer: of the published sizes, trained and timed like any other cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.small import SUITE, TRAIN, time_trial, train_trial
from tests.training.stages import CPU, silent
from vitbench.config import ModelSpec, TrainSpec
from vitbench.config.architectures import ARCHITECTURES
from vitbench.config.presets import PRESETS
from vitbench.config.reading import read_suite
from vitbench.config.suite_errors import SpecError
from vitbench.config.trial import TimeTrial
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops, parameters_of
from vitbench.runner.cost import approximate_flops
from vitbench.runner.plan import plan
from vitbench.timing.measure import alone
from vitbench.training.loop import fit, train

BASELINES = [name for name, facts in ARCHITECTURES.items() if not facts.of_components]


def small(name: str) -> ModelSpec:
    return ModelSpec.model_validate({"architecture": name, "image_size": 16})


def recipe(**changes: Any) -> TrainSpec:
    return TrainSpec.model_validate({**TRAIN.model_dump(), **changes})


def suite(folder: Path, text: str) -> Path:
    file = folder / "suite.toml"
    file.write_text(text)
    return file


def test_resnet18_has_the_published_size() -> None:
    # kuangliu/pytorch-cifar, whose ResNet18 has the same stem
    assert parameters_of(ModelSpec(architecture="resnet18")) == 11_173_962
    assert parameters_of(PRESETS["resnet18-imagenet"]) == 11_689_512  # torchvision's documentation


@pytest.mark.parametrize("size", [16, 32, 64])
@pytest.mark.parametrize("name", BASELINES)
def test_operations_by_closed_form(name: str, size: int) -> None:
    spec = ModelSpec.model_validate({"architecture": name, "image_size": size})
    if name == "resnet18_imagenet" and size % 32:
        pytest.skip("its last stage would be of less than a pixel")
    assert approximate_flops(spec) == pytest.approx(forward_flops(spec), rel=0.01)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if "resnet" in n else []) for n in BASELINES]
)
def test_it_learns(name: str) -> None:
    trial = train_trial(model=small(name), train=recipe(epochs=4))
    values = train(trial, CPU, silent)
    assert values.epochs[-1].train_loss < 0.8 * values.epochs[0].train_loss
    assert values.parameters == parameters_of(trial.model)


@pytest.mark.parametrize("name", ["cnn", "resnet18"])
def test_an_average_of_weights_has_the_statistics_of_its_batch_norms(name: str) -> None:
    fitted = fit([train_trial(model=small(name), train=recipe(ema=0.5))], CPU, silent)
    assert fitted.stepper.average is not None
    theirs = dict(fitted.stepper.average.module.named_buffers())
    fresh = dict(build_model(small(name), seed=0).named_buffers())
    assert fresh
    for buffer, mine in fitted.stepper.module.named_buffers():
        assert torch.equal(mine, theirs[buffer]) and not torch.equal(mine, fresh[buffer]), buffer


@pytest.mark.parametrize(("name", "mode"), [("cnn", "inference"), ("cnn", "train"), ("resnet18", "train")])
def test_it_is_timed(name: str, mode: str) -> None:
    values = alone(time_trial(small(name), mode=mode), CPU)
    assert values.sizes.parameters == parameters_of(small(name))
    assert values.sizes.bytes > 4 * values.sizes.parameters and values.sizes.flops > 0


def test_what_a_baseline_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    text = SUITE.replace("[model]", '[model]\narchitecture = "resnet18"')
    with pytest.raises(SpecError) as error:
        read_suite(suite(tmp_path, text))
    said = str(error.value)
    for field in ("dim", "depth", "heads"):
        assert f'{field}: architecture "resnet18" has no such thing: leave it out' in said
    assert "image_size" not in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("pretrain_epochs = 2", 'train.pretrain_epochs: architecture "cnn" has no patches that could be hidden'),
        ('distillation = "hard"', 'train.distillation: architecture "cnn" is a teacher, and no pupil'),
    ],
)
def test_recipes_that_a_baseline_cannot_follow(settings: str, said: str, tmp_path: Path) -> None:
    head, _, rest = SUITE.partition("[model]")
    text = f'{head}[model]\narchitecture = "cnn"\nimage_size = 16\n[data]{rest.partition("[data]")[2]}{settings}\n'
    with pytest.raises(SpecError, match=said):
        read_suite(suite(tmp_path, text))


def test_an_axis_of_networks_and_levels(tmp_path: Path) -> None:
    head, _, rest = SUITE.partition("[model]")
    text = f"""{head}[model]\nimage_size = 16\n[data]{rest.partition("[data]")[2]}
[time]
levels = ["model", "block", "mlp"]
[[axes.network]]
name = "ViT"
set = {{ patch_size = 4, dim = 32, depth = 1, heads = 2 }}
[[axes.network]]
name = "CNN"
set = {{ architecture = "cnn" }}
"""
    trials = plan(read_suite(suite(tmp_path, text)), "cpu").trials
    levels = {(p.cell, p.trial.level) for p in trials if isinstance(p.trial, TimeTrial)}
    assert {level for cell, level in levels if "CNN" in cell} == {"model"}
    assert {level for cell, level in levels if "ViT" in cell} == {"model", "block", "mlp"}
