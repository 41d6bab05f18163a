"""Explanations of models of all components, by what their files say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file

from tests.components.cases import COMPONENTS, EXACT, NO_WEIGHTED_MEAN, SMALL, device_for, small
from tests.report.shown_models import pictures_of
from tests.runner.runs import plugins_apart
from tests.training.stages import CPU
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.data.catalog import DataError
from vitbench.explaining.attention_maps import between
from vitbench.explaining.explain import ATTENTION, SHARED, SHOWN, TOKENS, _chosen, explain_model
from vitbench.explaining.inputs import Inputs, of_folder, statistics
from vitbench.model.build import build_model
from vitbench.model.weights import save_weights
from vitbench.report.figures.charts import Trends
from vitbench.report.models.examples import ShownModel
from vitbench.report.models.explained_page import render_explanation
from vitbench.report.models.pictures import PREDICTED, about, missing, sections
from vitbench.store.explanation import (
    ARRAYS,
    AVERAGED,
    KEY,
    BadExplanation,
    Explanation,
    read_explanation,
    write_explanation,
)

CLASSES = ["ant", "bee", "cat", "dog", "eel"]
STATISTICS: dict[str, Any] = {"classes": CLASSES, "mean": [0.5] * 3, "std": [0.25] * 3}


def given(labels: list[int | None], side: int = 16) -> Inputs:
    pixels = torch.randint(0, 256, (len(labels), 3, side, side), generator=torch.Generator().manual_seed(0))
    names = tuple(f"image {i}" for i in range(len(labels)))
    return Inputs(pixels.to(torch.uint8), tuple(labels), names, "some images")


def explanation_of(spec: ModelSpec, folder: Path, images: Inputs, device: torch.device = CPU) -> Explanation:
    file = save_weights(build_model(spec, seed=0), folder / "model.safetensors", STATISTICS)
    return explain_model(file, images, device)


OF_THEIR_OWN = [each for each in COMPONENTS if each not in EXACT]
"""An exact component is its slot's reference by another way: nothing is seen of it that is not seen of that."""


@pytest.mark.parametrize(("slot", "name"), OF_THEIR_OWN)
def test_each_component_is_shown_or_the_reason_why_not(slot: str, name: str, tmp_path: Path) -> None:
    spec = small(slot, name)
    device = device_for(spec, training=False)
    explanation = explanation_of(spec, tmp_path, given([0, 1, 2, 3, 4]), device)
    lacking = {each for each in ARRAYS if getattr(explanation, each) is None}
    assert lacking == set(explanation.about.absent), "what is not there has a reason, and nothing else has"
    mapped = registry.facts("attention", spec.attention).exact or spec.attention in {"unscaled", "linear"}
    mapped &= spec.reduction == "none"  # a map of each block's tokens, and these are fewer from block to block
    unseen = not mapped or spec.pooling in NO_WEIGHTED_MEAN
    assert (lacking & {"attention", "last_layer", "rollouts"} != set()) == unseen
    assert ("distances" in lacking) == (not mapped)
    assert bool(explanation.about.attention_of) != unseen
    assert ("similarity" in lacking) == (slot == "positions" and name in {"none", "conditional", "rope_2d_mixed"})
    assert explanation.confusion is not None and explanation.confusion.sum(axis=1).tolist() == [1] * 5
    if explanation.last_layer is not None and explanation.rollouts is not None:
        for looks in (explanation.last_layer, explanation.rollouts):
            assert ((looks >= 0) & (looks.sum(axis=1, keepdims=True) <= 1 + 1e-5)).all()
    kept = read_explanation(write_explanation(tmp_path / "kept.safetensors", explanation))
    assert kept.about == explanation.about
    assert all(np.array_equal(getattr(kept, n), getattr(explanation, n)) for n in ARRAYS if n not in lacking)
    assert all(picture.alt and picture.caption for picture in pictures_of(kept))
    assert bool(missing(kept)) == bool(lacking)


def test_a_baseline_has_a_confusion_matrix_and_what_it_says_of_images(tmp_path: Path) -> None:
    spec = ModelSpec(architecture="cnn", image_size=16, num_classes=5)
    explanation = explanation_of(spec, tmp_path, given([0, 1, 2, 3, 4]))
    predicted, *_ = sections([ShownModel(explanation)])[PREDICTED]
    assert [picture.name for picture in pictures_of(explanation)] == ["examples-right", "examples-wrong", "confusion"]
    assert "in brackets the true class" in predicted.text and "rollout" not in predicted.text
    assert "not made of components" in explanation.about.absent["attention"]
    write_explanation(tmp_path / "kept.safetensors", explanation)
    assert about(explanation) == "A model of cnn, seen on some images; it classifies 1 of 5 correctly (20.0 %)."


@pytest.mark.parametrize(
    ("pooling", "registers", "words"),
    [
        ("cls", 2, "the class token"),
        ("distilled", 0, "the class token"),
        ("mean", 0, "the mean of all tokens, which is what is pooled"),
        ("sequence", 2, "the mean of all tokens but the registers, as the pooling weighs them"),
    ],
)
def test_it_says_whose_attention_is_shown(pooling: str, registers: int, words: str, tmp_path: Path) -> None:
    spec = SMALL.model_copy(update={"pooling": pooling, "registers": registers})
    explanation = explanation_of(spec, tmp_path, given([0, 1]))
    assert words in explanation.about.attention_of


def test_images_without_classes_are_shown_without_a_confusion_matrix(tmp_path: Path) -> None:
    explanation = explanation_of(SMALL, tmp_path, given([None] * 20))
    assert explanation.confusion is None and "of 0 of 20 images" in explanation.about.absent["confusion"]
    assert [example.name for example in explanation.about.shown] == [f"image {i}" for i in range(SHARED)]
    assert [p.name for p in pictures_of(explanation)][-1] == "examples-unlabelled"


def test_right_and_wrong_are_of_different_classes_and_counted(tmp_path: Path) -> None:
    images = given([i % 5 for i in range(200)])
    explanation = explanation_of(SMALL, tmp_path, images)
    right = [e for e in explanation.about.shown if e.label == e.predicted]
    wrong = [e for e in explanation.about.shown if e.label != e.predicted]
    assert min(len(right), len(wrong)) >= 1 and {e.label for e in explanation.about.shown} == {*range(5)}
    assert explanation.confusion is not None and explanation.confusion.sum(axis=1).tolist() == [40] * 5
    assert explanation.attention is not None
    assert len(explanation.attention) == len(explanation.about.shown), "any of them may be shown of every head"
    names = [picture.name for picture in pictures_of(explanation)]
    assert {"attention-1", "attention-2", "examples-right", "examples-wrong"} <= {*names}


def test_models_are_shown_on_the_same_images_whatever_they_say_of_them() -> None:
    labels = [i % 10 for i in range(300)]
    good, bad = labels[:], [(label + 1) % 10 for label in labels]
    good[250] = 7  # the only image of which it is wrong
    fine, poor = _chosen(labels, good), _chosen(labels, bad)
    assert fine[:SHARED] == poor[:SHARED] == [*range(SHARED)]
    assert fine[SHARED:] == [250], "what the shared ones lack"
    assert len(poor) == SHARED
    half = [label if i % 2 else bad[i] for i, label in enumerate(labels)]
    assert _chosen(labels, half) == [*range(SHARED)] and SHARED // 2 >= SHOWN


ARRAY_OF_ANOTHER: list[tuple[str, Any]] = [
    ("pixels", np.zeros((1, 16, 16, 3), np.uint8)), ("last_layer", np.zeros((2, 9), np.float32)),
    ("confusion", np.zeros((5, 5), np.float32)), ("rollouts", np.full((2, 16), np.nan, np.float32)),
    ("attention", np.zeros((1, 2, 2, 16), np.float32)), ("filters", np.zeros((0, 8, 8, 3), np.float32)),
    ("filters", np.zeros((4, 0, 8, 3), np.float32)), ("filters", np.zeros((65, 4, 4, 3), np.float32)),
    ("positions", np.zeros((0, 32), np.float32)), ("positions", np.zeros((16, 32), np.float32)),
    ("confusion", np.full((5, 5), -1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "array"), ARRAY_OF_ANOTHER, ids=lambda x: x if isinstance(x, str) else "")
def test_a_file_that_is_no_explanation_is_refused_with_the_reason(name: str, array: Any, tmp_path: Path) -> None:
    file = write_explanation(tmp_path / "kept.safetensors", explanation_of(SMALL, tmp_path, given([0, 1])))
    head = file.read_bytes()
    meta = json.loads(head[8 : 8 + int.from_bytes(head[:8], "little")])["__metadata__"]
    save_file({**load_file(file), name: array}, file, meta)
    with pytest.raises(BadExplanation, match=name):
        read_explanation(file)
    save_file({"pixels": array}, file, {KEY: "{}"})
    with pytest.raises(BadExplanation):
        read_explanation(file)
    for content in (b"", b"not safetensors", head[:200], head[:-10]):
        file.write_bytes(content)
        with pytest.raises(BadExplanation):
            read_explanation(file)


def test_an_explanation_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explanation = explanation_of(SMALL, tmp_path, given([0, 1]))
    monkeypatch.setattr("vitbench.store.explanation.MAX_BYTES", 10_000)
    with pytest.raises(BadExplanation, match="at most 10,000"):
        write_explanation(tmp_path / "kept" / "one.safetensors", explanation)
    assert not (tmp_path / "kept").exists()


def test_positions_of_too_many_patches_are_not_compared(tmp_path: Path) -> None:
    spec = SMALL.model_copy(update={"image_size": (32, 36), "patch_size": 1, "attention": "none"})
    images = Inputs(torch.zeros(1, 3, 32, 36, dtype=torch.uint8), (0,), ("one",), "an image")
    explanation = explanation_of(spec, tmp_path, images)
    assert explanation.similarity is None and "1,152 patches" in explanation.about.absent["similarity"]


def everywhere(tensor: torch.Tensor) -> torch.Tensor:
    return torch.full_like(tensor, torch.nan)


def huge(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 1e30


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_tokens_are_those_of_the_model(pooling: str, tmp_path: Path) -> None:
    """The patch embedding's channels in the grid, scores of one head, their softmax, and norms after each block."""
    spec = SMALL.model_copy(update={"pooling": pooling, "registers": 2, "positions": "rope_2d"})
    images = given([0, 1, 2])
    explanation = explanation_of(spec, tmp_path, images)
    model = build_model(spec, seed=0).eval()
    indices = [images.names.index(each.name) for each in explanation.about.shown]
    x = (images.pixels[indices].float() / 255 - 0.5) / 0.25
    with torch.no_grad():
        patches, tokens = model.patching(x), model.tokens(x)
        assert explanation.embedded is not None and explanation.embedded.shape == (16, *spec.grid)
        close(explanation.embedded[5, 1, 3], patches[0, spec.grid[1] + 3, 5])
        block, rotation = model.encoder.blocks[0], model.positions.rotation
        q, k, _ = block.attention.split(block.attention.qkv(block.attention_norm(tokens)), rotation)
        scores = q[0, 0] @ k[0, 0].T / spec.head_width**0.5
        close(explanation.scores, scores)
        close(explanation.weights, scores.exp() / scores.exp().sum(1, keepdim=True))
        for layer, each in enumerate(model.encoder.blocks):
            tokens = each(tokens, rotation)
            assert explanation.norms is not None
            close(explanation.norms[:, layer], tokens.square().sum(-1).sqrt())
    assert explanation.norms is not None and explanation.norms.shape == (3, spec.depth, spec.tokens)


def close(actual: object, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(actual), wanted, rtol=1e-4, atol=1e-5)


OF_SHOWN = {*TOKENS, *ATTENTION, "confusion"}  # What there is not where the model tells none of the images


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "change", "lost"),
    [
        ("", everywhere, {*ARRAYS} - {"pixels"}),
        ("qkv.weight", huge, OF_SHOWN),
        ("head.weight", everywhere, OF_SHOWN),
        ("patching.weight", huge, OF_SHOWN),
    ],
)
def test_weights_that_give_no_finite_numbers_are_told_in_sentences(
    name: str, change: Callable[[torch.Tensor], torch.Tensor], lost: set[str], tmp_path: Path
) -> None:
    model = build_model(SMALL.model_copy(update={"positions": "learned"}), seed=0)
    changed = {n: change(t) if name in n and t.is_floating_point() else t for n, t in model.state_dict().items()}
    assert any(not torch.equal(changed[n], t) for n, t in model.state_dict().items()), "some tensor is another now"
    model.load_state_dict(changed)
    explanation = explain_model(save_weights(model, tmp_path / "model.safetensors", STATISTICS), given([0, 1, 2]), CPU)
    assert lost == {each for each in explanation.about.absent if "no finite number" in explanation.about.absent[each]}
    assert lost == set(explanation.about.absent), explanation.about.absent
    kept = read_explanation(write_explanation(tmp_path / "kept.safetensors", explanation))
    render_explanation(kept, "a model", (), tmp_path / "page")
    assert "no finite number" in (tmp_path / "page" / "report.md").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": CLASSES[:3]}, "3 names, and its model has 5"),
        ({"classes": 5}, "no list of names"),
        ({"classes": None}, "no list of names"),
        ({"classes": [*CLASSES[:4], 4]}, "no list of names"),
        ({"mean": [0.5] * 2}, "how the images of its model are normalised"),
    ],
)
def test_damaged_names_and_statistics_are_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = save_weights(build_model(SMALL, seed=0), tmp_path / "model.safetensors", {**STATISTICS, **change})
    with pytest.raises(DataError, match=message):
        explain_model(file, given([0]), CPU)
    with pytest.raises(DataError, match="how the images of its model are normalised"):
        statistics({"mean": [0.5, float("nan"), 0.5], "std": [0.25] * 3}, file)


def test_folders_are_read_as_training_reads_them(tmp_path: Path) -> None:
    places = {"ant/a.png": 0, "ant/sub/b.png": 0, "bee/ant/c.png": 1, "d.png": None, "fox/bee/e.png": None}
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), "red").save(tmp_path / place)
    images = of_folder(tmp_path, SMALL, tuple(CLASSES))
    assert dict(zip(images.names, images.labels, strict=True)) == places
    (tmp_path / "ant").rename(tmp_path / "\udcff")  # no UTF-8, as training names it
    images = of_folder(tmp_path, SMALL, ("\\udcff", *CLASSES[1:]))
    assert [*images.labels].count(0) == 2


PLUGIN = '''
from torch.nn import functional as F
from vitbench.components.contracts import Pooling, SelfAttention
from vitbench.registry import component

@component(slot="attention", name="cosine-of-a-test", source="a test")
class Cosine(SelfAttention):
    """Scores are cosines."""

    def attend(self, q, k, v):
        return (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)).softmax(dim=-1) @ v

@component(slot="pooling", name="largest-of-a-test", source="a test")
class Largest(Pooling):
    """The largest."""

    def forward(self, tokens):
        return tokens.amax(dim=1)
'''


def test_components_that_do_not_say_are_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    with plugins_apart():
        registry.load_plugin(tmp_path / "mine.py")
        inexact, largest = (
            explanation_of(SMALL.model_copy(update=changes), tmp_path, given([0, 1]))
            for changes in ({"attention": "cosine-of-a-test"}, {"pooling": "largest-of-a-test"})
        )
        assert "is not exact, and does not say" in inexact.about.absent["attention"]
        assert "no weighted mean of tokens" in largest.about.absent["last_layer"] and largest.distances is not None
        files = [write_explanation(tmp_path / f"{i}.safetensors", each) for i, each in enumerate((inexact, largest))]
    assert read_explanation(files[0]).about == inexact.about, "a report needs no plug-in to show it"
    with pytest.raises(BadExplanation, match=r"number of tokens is not known: .*largest-of-a-test"):
        read_explanation(files[1])


def test_of_many_classes_and_images_evenly_chosen_ones_are_seen_and_not_the_first(tmp_path: Path) -> None:
    """Images in folders come class by class: the first of a thousand are all of one class."""
    labels = [i // 10 for i in range(1000)]
    assert _chosen(labels, labels)[:2] == [0, 90] and len(_chosen(labels, labels)) == SHARED
    images = given([i // 100 for i in range(500)])
    images.pixels[:400] = 0
    whole = explanation_of(SMALL, tmp_path, images).distances
    first = explanation_of(SMALL, tmp_path, given([0] * AVERAGED)).distances
    evenly = torch.linspace(0, 499, AVERAGED).round().long()
    seen = Inputs(images.pixels[evenly], (0,) * AVERAGED, ("",) * AVERAGED, "some")
    wanted = explanation_of(SMALL, tmp_path, seen).distances
    assert whole is not None and first is not None and wanted is not None
    np.testing.assert_allclose(whole, wanted, rtol=1e-5)
    assert not np.allclose(whole, first, rtol=1e-5)


def test_it_says_how_far_uniform_attention_would_reach(tmp_path: Path) -> None:
    spec = SMALL.model_copy(update={"image_size": (12, 16), "patch_size": (3, 8)})
    images = Inputs(torch.zeros(1, 3, 12, 16, dtype=torch.uint8), (0,), ("one",), "an image")
    (chart,) = (p.chart for p in pictures_of(explanation_of(spec, tmp_path, images)) if p.name == "distances")
    assert isinstance(chart, Trends)
    ((name, value),) = chart.levels
    assert value == pytest.approx(float(between(spec).mean())) and f"{value:.1f}" in name
