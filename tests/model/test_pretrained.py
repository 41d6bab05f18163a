"""Starting weights: a file of ours or of timm's, found by its content; refused where it is not what was planned."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file

from tests.bad_input import suite_file
from tests.small import MODEL, recipe_with, train_trial
from tests.training.stages import CPU, silent
from vitbench.config import ModelSpec, TrainSpec
from vitbench.config.reading import read_suite
from vitbench.config.suite_errors import SpecError
from vitbench.model.build import build_model
from vitbench.model.pretrained import check_pretrained, load_pretrained
from vitbench.model.timm_names import heads_of
from vitbench.model.timm_weights import to_timm
from vitbench.model.vit import VisionTransformer
from vitbench.model.weights import WeightsError, save_weights
from vitbench.runner.plan import plan
from vitbench.training.loop import fit
from vitbench.training.probe import Probe


def built(seed: int, **changes: int | str) -> VisionTransformer:
    model = build_model(MODEL.model_copy(update=changes), seed)
    assert isinstance(model, VisionTransformer)
    return model


def same(one: VisionTransformer, other: VisionTransformer, but: str = "-") -> bool:
    theirs = other.state_dict()
    return all(torch.equal(t, theirs[n]) for n, t in one.state_dict().items() if not n.startswith(but))


def test_weights_of_ours_and_of_timms_names(tmp_path: Path) -> None:
    trained = built(1)
    ours, theirs = save_weights(trained, tmp_path / "ours.safetensors"), tmp_path / "timm.safetensors"
    save_file(to_timm(trained), theirs)
    for file in (ours, theirs):
        model = built(0)
        assert not same(model, trained)
        load_pretrained(model, str(file))
        assert same(model, trained)


@pytest.mark.parametrize("head", ["normed", "pre_logits"])
def test_a_head_of_any_form_is_taken_by_one_of_its_form(head: str, tmp_path: Path) -> None:
    trained, model = built(1, head=head), built(0, head=head)
    load_pretrained(model, str(save_weights(trained, tmp_path / "w.safetensors")))
    assert same(model, trained)


@pytest.mark.parametrize("names", ["ours", "timm's"])
def test_a_head_for_other_classes_keeps_its_own(names: str, tmp_path: Path) -> None:
    trained, model, file = built(1, num_classes=7), built(0), tmp_path / "w.safetensors"
    save_weights(trained, file) if names == "ours" else save_file(to_timm(trained), file)
    load_pretrained(model, str(file))
    assert same(model, trained, but="head.") and torch.equal(model.head.weight, built(0).head.weight)


def test_ours_of_another_model_are_told_in_our_names(tmp_path: Path) -> None:
    file = save_weights(built(1, depth=2), tmp_path / "deep.safetensors")
    with pytest.raises(WeightsError, match=rf"{file}: unexpected: encoder.blocks.1"):
        load_pretrained(built(0), str(file))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 4}, "their heads is 2, the model's 4"),
        ({"norm": "post", "final_norm": False}, "their norm is pre, the model's post"),
        ({"mlp": "relu"}, "their mlp is gelu, the model's relu"),
    ],
    ids=str,
)
def test_ours_of_another_function_of_the_same_tensors_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    spec = MODEL.model_copy(update={"final_norm": changes.get("final_norm", True)})
    file = save_weights(build_model(spec, 1), tmp_path / "w.safetensors")
    model = build_model(MODEL.model_copy(update=changes), 0)
    assert isinstance(model, VisionTransformer)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(WeightsError, match=f"{file}: its weights are of another function: {message}"):
        load_pretrained(model, str(file))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "fits"),
    [({}, False), ({"positions": "none", "bias": "relative"}, False), ({"positions": "sinusoidal_2d"}, True)],
    ids=str,
)
def test_weights_of_places_are_for_a_grid_of_the_same_form(changes: dict[str, Any], fits: bool, tmp_path: Path) -> None:
    wide, high = (MODEL.model_copy(update={"image_size": size, **changes}) for size in ((16, 32), (32, 16)))
    file = save_weights(build_model(wide, 1), tmp_path / "w.safetensors")
    if fits:
        load_pretrained(build_model(high, 0), str(file))
    else:
        with pytest.raises(WeightsError, match="its patches lie in 4 × 8, the model's in 8 × 4"):
            load_pretrained(build_model(high, 0), str(file))


def test_a_resnet_starts_from_torchvisions_weights_and_computes_what_it_does(tmp_path: Path) -> None:
    theirs = torchvision.models.resnet18(num_classes=7).eval()
    save_file(theirs.state_dict(), tmp_path / "resnet18.safetensors")
    source = str(tmp_path / "resnet18.safetensors")
    images = torch.rand(2, 3, 64, 64)
    for classes in (7, 10):
        spec = ModelSpec(architecture="resnet18_imagenet", image_size=64, num_classes=classes)
        check_pretrained(spec, source)
        model, fresh = (build_model(spec, 0).eval() for _ in range(2))
        load_pretrained(model, source)
        if classes == 7:
            torch.testing.assert_close(model(images), theirs(images))
        else:
            assert torch.equal(model.head.weight, fresh.head.weight), "other classes: the head is its own"
    small = build_model(ModelSpec(architecture="resnet18"), 0)
    with pytest.raises(WeightsError, match=r"body.conv1.weight is \(64, 3, 7, 7\)"):
        load_pretrained(small, source)


@pytest.mark.parametrize("attention", ["per_head", "batched"])
def test_ours_of_an_equivalent_implementation_are_taken(attention: str, tmp_path: Path) -> None:
    file = save_weights(built(1), tmp_path / "w.safetensors")
    model = build_model(MODEL.model_copy(update={"attention": attention}), 0)
    assert isinstance(model, VisionTransformer)
    load_pretrained(model, str(file))
    assert same(model, built(1))


@pytest.mark.parametrize("name", ["timm:hf-hub:x/y", "timm:../x", "timm:"])
def test_timms_names_lead_nowhere_else(name: str) -> None:
    with pytest.raises(ValueError, match="takes the name of a model"):
        TrainSpec(pretrained=name)


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    file = save_weights(built(1), tmp_path / "w.safetensors")
    with pytest.raises(WeightsError, match="changed since"):
        load_pretrained(built(0), f"{file}#sha256={'0' * 16}")


def suite(folder: Path, weights: Path | str) -> Path:
    """The small suite with pretrained weights."""
    return folder / suite_file(folder, f"pretrained = '{weights}'")


def test_a_trial_is_known_by_the_content_and_not_by_the_path(tmp_path: Path) -> None:
    one, copy, other = (tmp_path / f"{name}.safetensors" for name in ("one", "copy", "other"))
    save_weights(built(1), one), save_weights(built(2), other)
    copy.write_bytes(one.read_bytes())
    ids = [plan(read_suite(suite(tmp_path, file)), "cpu").trials[0].id for file in (one, copy, other)]
    assert ids[0] == ids[1] != ids[2]
    save_weights(built(2), one)
    assert plan(read_suite(suite(tmp_path, one)), "cpu").trials[0].id == ids[2], "read anew for each plan"


@pytest.mark.parametrize("lies_there", ["nothing", "a pipe", "a folder"])
def test_what_is_no_file_is_refused_before_anything_runs(lies_there: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    make, why = {"nothing": (str, "No such file or directory"), "a pipe": (os.mkfifo, "not a file"),
                 "a folder": (os.mkdir, "Is a directory")}[lies_there]  # fmt: skip
    make(path)
    with pytest.raises(SpecError, match=f"train.pretrained: {path}: {why}; give a .safetensors file"):
        plan(read_suite(suite(tmp_path, path)), "cpu")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda: built(1, heads=4).state_dict(), ""),
        (lambda: built(1, depth=2).state_dict(), "unexpected: encoder.blocks.1"),
        (lambda: to_timm(built(1)), ""),
        (lambda: to_timm(built(1, dim=16)), "timm's weights do not fit the model: patch_embed.proj.weight is (16,"),
        (lambda: {"w": torch.zeros(2)}, "timm's weights do not fit the model: missing: "),
    ],
    ids=["ours", "ours, deeper", "timm's", "timm's, narrower", "another network's"],
)
def test_weights_of_another_model_are_refused_before_anything_runs(
    weights: Callable[[], dict[str, torch.Tensor]], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "w.safetensors"
    save_file(weights(), file)
    planned = suite(tmp_path, file)
    if not message:
        assert plan(read_suite(planned), "cpu").trials
        return
    with pytest.raises(SpecError, match=re.escape(f"suite.toml: base: train.pretrained: {file}: {message}")):
        plan(read_suite(planned), "cpu")


def test_weights_of_another_function_are_refused_before_anything_runs(tmp_path: Path) -> None:
    file = save_weights(built(1, heads=4), tmp_path / "w.safetensors")
    with pytest.raises(SpecError, match=r"train.pretrained: .*its weights are of another function: their heads is 4"):
        plan(read_suite(suite(tmp_path, file)), "cpu")


def test_a_file_that_is_no_safetensors_is_refused_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(b"no weights")
    with pytest.raises(SpecError, match=r"train.pretrained: .*this file is none or is damaged"):
        plan(read_suite(suite(tmp_path, file)), "cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "vit_smal_patch16_224",
            'timm has no such model; did you mean "vit_small_patch16_224"?; name another, or put a file',
        ),
        ("vit_small_patch16_224.augreg_in21", "timm has no such weights; did you mean"),
    ],
)
def test_names_that_timm_does_not_have_are_refused_before_anything_runs(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path))
    file = suite(tmp_path, f"timm:{name}")
    with pytest.raises(SpecError, match=re.escape(f"train.pretrained: timm:{name}: {message}")):
        plan(read_suite(file), "cpu")
    (tmp_path / "weights").mkdir()
    save_weights(built(1), tmp_path / "weights" / f"{name}.safetensors")
    plan(read_suite(file), "cpu")


def test_a_probe_starts_from_all_but_their_head(tmp_path: Path) -> None:
    """Their head was trained on features that were not normalised, as those of a probe are."""
    file = save_weights(built(1), tmp_path / "w.safetensors")
    recipe = recipe_with(pretrained=str(file), frozen=True, learning_rate=1e-9)
    probe = fit([train_trial(train=recipe)], CPU, silent).stepper.module
    assert isinstance(probe, Probe) and isinstance(probe.model, VisionTransformer)
    assert same(probe.model, built(1), but="head.")
    assert torch.allclose(probe.model.head.weight, built(0).head.weight, atol=1e-6)


def test_timms_are_found_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path))
    (tmp_path / "weights").mkdir()
    trained, model = built(1), built(0)
    save_file(to_timm(trained), tmp_path / "weights" / "a_model.safetensors")
    load_pretrained(model, "timm:a_model")
    assert same(model, trained)


@pytest.mark.parametrize(("heads", "fits"), [(2, True), (4, False)])
def test_heads_are_those_of_timms_model(
    heads: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path))
    spec = ModelSpec(image_size=160, patch_size=16, dim=64, depth=2, heads=heads)
    if fits:
        check_pretrained(spec, "timm:test_vit.r160_in1k")
    else:
        with pytest.raises(WeightsError, match="has 2 heads, and the model 4"):
            check_pretrained(spec, "timm:test_vit.r160_in1k")


def test_a_timm_that_cannot_build_without_memory_tells_no_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str) -> None:  # as of timm 1.0.20, which is not installed here
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")

    monkeypatch.setattr(timm, "create_model", create_model)
    assert heads_of.__wrapped__("test_vit.r160_in1k") is None


def test_what_cannot_be_had_says_where_a_file_may_be_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path))
    with pytest.raises(WeightsError, match=f"or put a file of its weights at {tmp_path}/weights/no_such_model"):
        load_pretrained(built(0), "timm:no_such_model")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(WeightsError, match="timm is not installed: pip install timm"):
        load_pretrained(built(0), "timm:no_such_model")
