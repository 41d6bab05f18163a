"""Baselines beside the Vision Transformer: of the published sizes, trained and timed like any other cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.small import DATA, SUITE, TRAIN, time_trial, train_trial
from vitbench.model.counting import forward_flops, parameters_of
from vitbench.model.networks import build_model
from vitbench.runner.cost import approximate_flops
from vitbench.runner.plan import plan
from vitbench.spec import ModelSpec, TrainSpec
from vitbench.spec.errors import SpecError
from vitbench.spec.networks import NETWORKS
from vitbench.spec.reading import read_suite
from vitbench.spec.trial import TimeTrial, unstackable
from vitbench.timing.measure import alone
from vitbench.training.loop import fit, train

CPU = torch.device("cpu")
BASELINES = [name for name, facts in NETWORKS.items() if not facts.of_components]


def silent(_: str) -> None:
    pass


def small(network: str) -> ModelSpec:
    return ModelSpec.model_validate({"network": network, "image_size": 16})


def recipe(**changes: Any) -> TrainSpec:
    return TrainSpec.model_validate({**TRAIN.model_dump(), **changes})


def suite(folder: Path, text: str) -> Path:
    file = folder / "suite.toml"
    file.write_text(text)
    return file


def test_resnet18_has_the_published_size() -> None:
    # kuangliu/pytorch-cifar, whose ResNet18 has the same stem
    assert parameters_of(ModelSpec(network="resnet18")) == 11_173_962


@pytest.mark.parametrize("size", [16, 32, 64])
@pytest.mark.parametrize("network", BASELINES)
def test_operations_by_closed_form(network: str, size: int) -> None:
    spec = ModelSpec.model_validate({"network": network, "image_size": size})
    assert approximate_flops(spec) == pytest.approx(forward_flops(spec), rel=0.01)


@pytest.mark.parametrize("network", BASELINES)
def test_it_learns(network: str) -> None:
    trial = train_trial(model=small(network), train=recipe(epochs=6))
    one, other = train(trial, CPU, silent), train(trial, CPU, silent)
    assert one.test_loss == other.test_loss and one.parameters == parameters_of(trial.model)
    assert one.epochs[-1].train_loss < 0.8 * one.epochs[0].train_loss


@pytest.mark.parametrize("network", BASELINES)
def test_an_average_of_weights_has_the_statistics_of_its_batch_norms(network: str) -> None:
    fitted = fit([train_trial(model=small(network), train=recipe(ema=0.5))], CPU, silent)
    assert fitted.stepper.average is not None
    theirs = dict(fitted.stepper.average.module.named_buffers())
    fresh = dict(build_model(small(network), seed=0).named_buffers())
    assert fresh
    for name, mine in fitted.stepper.module.named_buffers():
        assert torch.equal(mine, theirs[name]) and not torch.equal(mine, fresh[name]), name


@pytest.mark.parametrize("mode", ["inference", "train"])
@pytest.mark.parametrize("network", BASELINES)
def test_it_is_timed(network: str, mode: str) -> None:
    values = alone(time_trial(small(network), mode=mode), CPU)
    assert values.sizes.parameters == parameters_of(small(network))
    assert values.sizes.bytes > 4 * values.sizes.parameters and values.sizes.flops > 0


def test_what_a_baseline_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    text = SUITE.replace("[model]", '[model]\nnetwork = "resnet18"')
    with pytest.raises(SpecError) as error:
        read_suite(suite(tmp_path, text))
    said = str(error.value)
    for name in ("patch_size", "dim", "depth", "heads"):
        assert f'{name}: network "resnet18" has no such thing: leave it out' in said
    assert "image_size" not in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("pretrain_epochs = 2", 'train.pretrain_epochs: network "cnn" has no patches that could be hidden'),
        ('distillation = "hard"', 'train.distillation: network "cnn" is a teacher, and no pupil'),
    ],
)
def test_recipes_that_a_baseline_cannot_follow(settings: str, said: str, tmp_path: Path) -> None:
    head, _, rest = SUITE.partition("[model]")
    text = f'{head}[model]\nnetwork = "cnn"\nimage_size = 16\n[data]{rest.partition("[data]")[2]}{settings}\n'
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
set = {{ network = "cnn" }}
"""
    trials = plan(read_suite(suite(tmp_path, text)), "cpu").trials
    levels = {(p.cell, p.trial.level) for p in trials if isinstance(p.trial, TimeTrial)}
    assert {level for cell, level in levels if "CNN" in cell} == {"model"}
    assert {level for cell, level in levels if "ViT" in cell} == {"model", "block", "mlp"}
    assert DATA.name == "synthetic"


@pytest.mark.parametrize("network", BASELINES)
def test_seeds_are_trained_one_by_one(network: str) -> None:
    assert unstackable(small(network), TRAIN) == f'network "{network}" has to be called once for each model'
