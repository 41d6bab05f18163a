"""Baselines beside the Vision Transformer: of the published sizes, trained and timed like any other cell."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from tests.bad_input import suite_file
from tests.small import DATA, SUITE, recipe_with, time_trial, train_trial
from tests.training.stages import CPU, silent
from vitbench.config import ModelSpec, architectures, model
from vitbench.config.architectures import ARCHITECTURES
from vitbench.config.presets import preset
from vitbench.config.reading import read_suite
from vitbench.config.suite_errors import SpecError
from vitbench.config.trial import TimeTrial
from vitbench.errors import UserError
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops, parameters_of
from vitbench.model.optimiser import weights
from vitbench.model.pretrained import check_pretrained, load_pretrained
from vitbench.runner.cost import approximate_flops
from vitbench.runner.plan import plan
from vitbench.timing.measure import alone
from vitbench.training.loop import fit, train

BASELINES = [name for name, facts in ARCHITECTURES.items() if not facts.of_components]


def small(name: str) -> ModelSpec:
    return ModelSpec.model_validate({"architecture": name, "image_size": 16})


def suite(folder: Path, model: str, *more: str) -> Path:
    """The small suite with another table of the model, and lines added."""
    head, _, rest = SUITE.partition("[model]")
    base = f"{head}[model]\n{model}\n[data]{rest.partition('[data]')[2]}"
    return folder / suite_file(folder, *more, base=base)


def test_resnet18_has_the_published_size() -> None:
    # kuangliu/pytorch-cifar, whose ResNet18 has the same stem
    assert parameters_of(ModelSpec(architecture="resnet18")) == 11_173_962
    assert parameters_of(preset("resnet18-imagenet")) == 11_689_512  # torchvision's documentation


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
    trial = train_trial(model=small(name), train=recipe_with(epochs=4))
    values = train(trial, CPU, silent)
    assert values.epochs[-1].train_loss < 0.8 * values.epochs[0].train_loss
    assert values.parameters == parameters_of(trial.model)


@pytest.mark.parametrize("name", ["cnn", "resnet18"])
def test_an_average_of_weights_has_the_statistics_of_its_batch_norms(name: str) -> None:
    fitted = fit([train_trial(model=small(name), train=recipe_with(ema=0.5))], CPU, silent)
    assert fitted.stepper.ema is not None
    theirs = dict(fitted.stepper.ema.module.named_buffers())
    fresh = dict(build_model(small(name), seed=0).named_buffers())
    assert fresh
    for buffer, value in fitted.stepper.module.named_buffers():
        assert torch.equal(value, theirs[buffer]) and not torch.equal(value, fresh[buffer]), buffer


@pytest.mark.parametrize(("name", "mode"), [("cnn", "inference"), ("cnn", "train"), ("resnet18", "train")])
def test_it_is_timed(name: str, mode: str) -> None:
    values = alone(time_trial(small(name), mode=mode), CPU)
    assert values.sizes.parameters == parameters_of(small(name))
    assert values.sizes.bytes > 4 * values.sizes.parameters and values.sizes.flops > 0


OF_TIMM = {"timm:convnext_atto": 32, "timm:swin_tiny_patch4_window7_224": 32, "timm:vit_tiny_patch16_224": 32}
"""A whole model, and a size of images that it takes."""


@pytest.mark.parametrize("name", OF_TIMM)
def test_a_whole_model_of_timms_computes_what_timms_does(name: str, tmp_path: Path) -> None:
    """It starts from timm's own file; without one it is drawn by the seed; what timm keeps from decay is kept here."""
    timm = pytest.importorskip("timm")
    theirs_name, size = name.removeprefix("timm:"), {"img_size": 32} if "convnext" not in name else {}
    theirs = timm.create_model(theirs_name, num_classes=10, **size).eval()
    save_file(theirs.state_dict(), tmp_path / "timm.safetensors")
    spec = ModelSpec(architecture=name, image_size=OF_TIMM[name])
    one, same, other = (build_model(spec, seed).eval() for seed in (0, 0, 1))
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(one(images), same(images)) and not torch.allclose(one(images), other(images))
    free = set(theirs.no_weight_decay()) if hasattr(theirs, "no_weight_decay") else set()
    assert {w.name for w in weights(one) if not w.decays and w.parameter.ndim > 1} == {f"body.{n}" for n in free} & {
        n for n, _ in one.named_parameters()
    }
    check_pretrained(spec, str(tmp_path / "timm.safetensors"))
    load_pretrained(one, str(tmp_path / "timm.safetensors"))
    torch.testing.assert_close(one(images), theirs(images))


def test_a_whole_model_of_timms_is_planned_trained_and_timed(tmp_path: Path) -> None:
    pytest.importorskip("timm")
    ours, theirs = (
        preset("vit-ti/16"),
        ModelSpec(architecture="timm:vit_tiny_patch16_224", image_size=224, num_classes=1000),
    )
    assert approximate_flops(theirs) == approximate_flops(ours)
    spec = ModelSpec(architecture="timm:convnext_atto", image_size=32)
    trial = train_trial(model=spec, data=DATA.model_copy(update={"resize": 32}), train=recipe_with(epochs=1))
    assert train(trial, CPU, silent).parameters == parameters_of(spec)
    assert alone(time_trial(spec), CPU).sizes.parameters == parameters_of(spec)
    path = suite(tmp_path, 'architecture = "timm:convnext_atto"\nimage_size = 16')
    info = plan(read_suite(path), "cpu")
    path.write_text(path.read_text().replace("= 16", "= 32"))
    assert plan(read_suite(path), "cpu").trials
    with pytest.raises(UserError, match='architecture "timm:convnext_atto" does not run on images of 16x16'):
        approximate_flops(info.trials[0].trial.model)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet19", '"resnet19" is no architecture; did you mean "resnet18"?'),
        ("timm:hf_hub:x/y", '"timm:hf_hub:x/y" is no architecture'),
        ("timm:convnext_tiny.fb_in1", 'timm has no "convnext_tiny" with the tag "fb_in1"; did you mean "fb_in1k"?'),
        ("timm:convnext_tny", 'architecture: timm has no model "convnext_tny"; did you mean "convnext_tiny"?'),
    ],
)
def test_names_of_architectures_that_are_none(name: str, message: str, tmp_path: Path) -> None:
    if "convnext" in name:
        pytest.importorskip("timm")
    with pytest.raises(SpecError, match=re.escape(message)):
        read_suite(suite(tmp_path, f'architecture = "{name}"'))


def test_without_timm_its_models_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    without = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    for module in (architectures, model):
        monkeypatch.setattr(module, "importlib", without)
    spec = ModelSpec(architecture="timm:convnext_femto")
    assert not spec.problems() and approximate_flops(spec) == 0
    assert spec.missing_package() == (
        'architecture "timm:convnext_femto" needs the package timm, which is not installed'
    )


def test_what_a_baseline_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    base = SUITE.replace("[model]", '[model]\narchitecture = "resnet18"')
    with pytest.raises(SpecError) as error:
        read_suite(tmp_path / suite_file(tmp_path, base=base))
    message = str(error.value)
    for field in ("dim", "depth", "heads"):
        assert f'{field}: architecture "resnet18" has no such thing: leave it out' in message
    assert "image_size" not in message


@pytest.mark.parametrize("preset", ["cnn", "resnet18", "timm:convnext_femto"])
def test_a_baseline_stands_beside_vits_by_its_preset(preset: str, tmp_path: Path) -> None:
    variants = f'[[variants]]\nname = "ViT"\n[[variants]]\nname = "other"\nset.preset = "{preset}"\n'
    (tmp_path / "suite.toml").write_text(SUITE + variants)
    vit, other = (cell.model for cell in read_suite(tmp_path / "suite.toml").cells)
    assert vit.of_components and vit.dim == 32
    assert other == ModelSpec(architecture=preset)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("pretrain_epochs = 2", 'train.pretrain_epochs: architecture "cnn" has no patches that could be hidden'),
        (
            'optimizer = "muon"',
            'train.optimizer: muon is for the matrices of blocks, and none are known of architecture "cnn"',
        ),
        ('distillation = "hard"', 'train.distillation: architecture "cnn" is a teacher, and no pupil'),
    ],
)
def test_recipes_that_a_baseline_cannot_follow(settings: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        read_suite(suite(tmp_path, 'architecture = "cnn"\nimage_size = 16', settings))


def test_an_axis_of_networks_and_levels(tmp_path: Path) -> None:
    axis = """
[time]
levels = ["model", "block", "mlp"]
[[axes.network]]
name = "ViT"
set = { patch_size = 4, dim = 32, depth = 1, heads = 2 }
[[axes.network]]
name = "CNN"
set = { architecture = "cnn" }
"""
    trials = plan(read_suite(suite(tmp_path, "image_size = 16", axis)), "cpu").trials
    levels = {(p.cell, p.trial.level) for p in trials if isinstance(p.trial, TimeTrial)}
    assert {level for cell, level in levels if "CNN" in cell} == {"model"}
    assert {level for cell, level in levels if "ViT" in cell} == {"model", "block", "mlp"}
