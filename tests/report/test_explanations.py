"""Pictures of models: labels neither touch nor are cut off, however many layers, heads, classes and tokens there are.

Their numbers have the shape of what is seen, are all there, and are no file of megabytes.
"""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.report.markdown import csv_text
from tests.report.shown_models import explanation_of, pictures_of
from tests.report.test_figures import LONG, faults, texts
from vitbench.analysis.attention_distance import likeness, uniform_distance
from vitbench.config.model import ModelSpec
from vitbench.report.figures import pixels
from vitbench.report.figures.charts import Chart, Heat, Nested, Tile, Tiles, Trends
from vitbench.report.figures.pixels import LAID, MOST_OPAQUE, overlaid
from vitbench.report.models import explanation_text, pictures
from vitbench.report.models.examples import PictureGroup, ShownModel, chosen, in_full
from vitbench.report.models.pictures import PREDICTED, sections
from vitbench.report.text import MINUS
from vitbench.store.explanation import Explanation

SMALL: dict[str, Any] = {"image_size": 32, "patch_size": 4, "dim": 64, "depth": 2, "heads": 4, "num_classes": 4}
WIDE = "WIDE CAPITALS MW " * 4
SILENT = {"patches", "filters", "embedded"}  # Pictures without a word in them: their captions say what they are
OF_THE_MODEL = ["positions", "similarity", "scores", "weights", "norms", "attention", "distances"]
COUNTS = [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (48, 200))]


def charts(spec: dict[str, Any], most: int = pictures.MOST, **of: Any) -> Iterator[Chart]:
    """The charts of an explanation that have words in them."""
    explanation = explanation_of(ModelSpec.model_validate({**SMALL, **spec}), **of)
    yield from (picture.chart for picture in pictures_of(explanation, most) if picture.name not in SILENT)


def all_faults(*arguments: Any, **of: Any) -> list[str]:
    return [fault for chart in charts(*arguments, **of) for fault in faults(chart)]


@pytest.mark.parametrize("count", COUNTS)
def test_of_layers_and_heads(count: int) -> None:
    assert all_faults({"depth": count, "heads": count, "dim": 4 * count}) == []
    assert all_faults({"depth": count}, most=6) == []


@pytest.mark.parametrize("name", [pytest.param(LONG, marks=pytest.mark.slow), WIDE])
@pytest.mark.parametrize("count", COUNTS)
def test_of_classes_with_long_names(count: int, name: str) -> None:
    names = [f"{n} {name}" for n in range(count)]
    assert all_faults({"num_classes": count}, classes=names, without=OF_THE_MODEL) == []


@pytest.mark.slow
@pytest.mark.parametrize("many", [1, 10_000_000])
@pytest.mark.parametrize("count", [3, 9, 12, 13, 20, 23, 24, 30, 31, 1000])
def test_of_a_confusion_matrix_as_far_as_names_and_numbers_fit(count: int, many: int) -> None:
    for names in ([f"{n}" for n in range(count)], [f"{n} {WIDE}" for n in range(count)]):
        (matrix,) = (chart for chart in charts({"num_classes": count}, classes=names, many=many) if is_matrix(chart))
        assert faults(matrix) == []


def test_classes_that_differ_in_their_middle_alone_have_different_names_in_every_picture() -> None:
    """A middle is what gives way first where there is little room."""
    names = [f"a long beginning, {n}, and a long end" for n in range(4)]
    for chart in charts({"num_classes": 4}, classes=names, without=OF_THE_MODEL):
        words = {text for text, _ in texts(chart)[0] if "long" in text or "end" in text or "…" in text}
        assert len({text.strip("()") for text in words}) >= 2, type(chart)
        if is_matrix(chart):
            assert len(words) == 4


def is_matrix(chart: Chart) -> bool:
    return isinstance(chart, Heat) and chart.shares


def test_ten_classes_have_their_names_and_numbers() -> None:
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (matrix,) = (chart for chart in charts({"num_classes": 10}, classes=names, many=999) if is_matrix(chart))
    assert isinstance(matrix, Heat)
    words = [text for text, _ in texts(matrix)[0]]
    assert all(words.count(name) == 2 for name in names)
    assert sorted(filter(str.isdigit, words))[-1] in {str(count) for count in matrix.values.flat}
    assert len([text for text in words if text.isdigit()]) >= 100


TOKENS = [
    ((16, 48), 48),
    *(pytest.param(size, n, marks=pytest.mark.slow)
      for size, n in ((8, 4), ((40, 80), 200), (56, 196), (96, 576), (128, 1024), ((4, 800), 200), ((800, 4), 200),
                      ((4, 4096), 1024), ((4096, 4), 1024))),
]  # fmt: skip


@pytest.mark.parametrize(("size", "patches"), TOKENS)
def test_of_tokens_and_grids_that_are_no_squares(size: Any, patches: int) -> None:
    spec = {"image_size": size}
    assert ModelSpec.model_validate({**SMALL, **spec}).patches == patches
    drawn = list(charts(spec, learned=False, without=["attention", "confusion"]))
    assert {type(chart) for chart in drawn} >= {Tiles, Heat, Nested}
    assert [fault for chart in drawn for fault in faults(chart)] == []


ONE = [{"right": 1, "wrong": 0}, pytest.param({"right": 0, "wrong": 0, "unknown": 1}, marks=pytest.mark.slow)]


@pytest.mark.parametrize("images", ONE)
def test_of_one_image(images: dict[str, int]) -> None:
    spec, names = {"num_classes": 2, "depth": 1, "heads": 1}, ["a " + LONG * 3, WIDE * 3]
    assert all_faults(spec, classes=names, **images, without=["positions", "similarity"]) == []


def test_of_many_places_evenly_chosen_ones_have_a_map() -> None:
    (nested,) = (chart for chart in charts({"image_size": 128}) if isinstance(chart, Nested))
    assert len(nested.rows) == len(nested.columns) == 16 and {*nested.rows} >= {0, 31}
    assert nested.values.shape == (256, 1024)
    similarity = explanation_of(ModelSpec.model_validate({**SMALL, "image_size": 128})).similarity
    assert similarity is not None
    np.testing.assert_array_equal(nested.values[17], similarity[32 * nested.rows[1] + nested.columns[1]])
    (whole,) = (chart for chart in charts({}) if isinstance(chart, Nested))
    assert whole.rows == whole.columns == list(range(8)) and whole.values.shape == (64, 64)


def test_the_measure_sees_what_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two defects are planted: names that are not shortened, and names where they have no room."""
    names = [f"{n} {WIDE}" for n in range(8)]
    monkeypatch.setattr(pixels, "fit", lambda names, *_, **__: [*names])
    without = [*OF_THE_MODEL, "confusion"]
    assert any(" / " in fault for fault in all_faults({"num_classes": 8}, classes=names, without=without))
    monkeypatch.setattr(pixels, "LINE", 0.0)
    (matrix,) = (chart for chart in charts({"num_classes": 48}) if is_matrix(chart))
    assert "class 1 / class 2" in faults(matrix)


MOST_BYTES = 3 << 20


def tables(explanation: Explanation) -> dict[str, pd.DataFrame]:
    """Name of a picture → its numbers, as they are read from its file."""
    charts = {picture.name: picture.chart for picture in pictures_of(explanation)}
    texts = {name: csv_text(chart.frame) for name, chart in charts.items() if len(chart.frame)}
    assert max(map(len, texts.values())) <= MOST_BYTES, {name: len(text) for name, text in texts.items()}
    return {name: pd.read_csv(io.StringIO(text)) for name, text in texts.items()}


def test_they_are_those_of_the_explanation() -> None:
    spec = ModelSpec(image_size=(12, 16), patch_size=(3, 8), dim=32, depth=2, heads=2, num_classes=3, pooling="cls")
    explanation = explanation_of(spec, classes=["ant", "bee", "=cat"], learned=False)
    frames = tables(explanation)
    assert set(frames) == {"positions", "similarity", "scores", "weights", "norms", "attention-1", "attention-2",
                          "distances", "examples-right", "examples-wrong", "confusion"}  # fmt: skip
    confusion = frames["confusion"].set_index("true class")
    assert [*confusion.columns] == ["predicted class ant", "predicted class bee", "predicted class =cat"]
    assert [*confusion.index] == ["ant", "bee", "'=cat"], "a spreadsheet computes nothing"
    np.testing.assert_array_equal(confusion.to_numpy(), explanation.confusion)
    similarity = frames["similarity"].set_index(["row", "column"])
    assert explanation.similarity is not None
    assert explanation.attention is not None and explanation.positions is not None
    np.testing.assert_allclose(similarity.to_numpy(), explanation.similarity, atol=1e-6)
    assert similarity.loc[(4, 1), "row 1 column 2"] == pytest.approx(explanation.similarity[6, 1], abs=1e-6)
    attention = frames["attention-2"].set_index(["strip", "title"]).loc[("layer 2", "head 1")]
    wrong = next(i for i, example in enumerate(explanation.about.shown) if example.label != example.predicted)
    np.testing.assert_allclose(attention.drop("tile").to_numpy(float), explanation.attention[wrong, 1, 0], atol=1e-6)
    np.testing.assert_allclose(frames["positions"].set_index("token").to_numpy(), explanation.positions, atol=1e-6)


LARGE: list[dict[str, Any]] = [
    {"image_size": 32, "patch_size": 1, "depth": 12, "heads": 12, "dim": 768},
    {"num_classes": 1000, "dim": 1024, "image_size": 224, "patch_size": 14},
]


@pytest.mark.parametrize("large", LARGE, ids=["1,024 positions", "1,000 classes"])
def test_they_are_never_a_number_a_row_of_a_million(large: dict[str, Any]) -> None:
    tables(explanation_of(ModelSpec.model_validate(large), learned=False))


SPEC = ModelSpec(image_size=16, patch_size=4, dim=64, depth=2, heads=3, num_classes=6)


def with_prediction(explanation: Explanation, place: int, as_class: int) -> Explanation:
    """An explanation with another prediction for one image."""
    examples = list(explanation.about.shown)
    examples[place] = examples[place].model_copy(update={"predicted": as_class})
    return replace(explanation, about=explanation.about.model_copy(update={"shown": tuple(examples)}))


def peaked(explanation: Explanation) -> Explanation:
    """An explanation with heads that give half of their attention to one patch."""
    assert explanation.attention is not None
    attention = explanation.attention / 2
    attention[..., 3] += 0.5
    return replace(explanation, attention=attention)


def two(other: Explanation) -> list[ShownModel]:
    return [ShownModel(peaked(explanation_of(SPEC)), "one", "1-"), ShownModel(other, "other", "2-")]


def groups_with(models: list[ShownModel], name: str) -> list[PictureGroup]:
    return [g for groups in sections(models).values() for g in groups if any(name in p.name for p in g.pictures)]


def test_models_are_shown_on_images_that_all_keep_by_what_all_make_of_them() -> None:
    pair = two(with_prediction(explanation_of(SPEC), 1, 5))
    assert [(s.outcome, s.indices, s.same) for s in chosen(pair)] == [
        ("right", ((0, 2, 3), (0, 2, 3)), True),
        ("differing", ((1,), (1,)), True),
        ("wrong", ((4, 5, 6, 7), (4, 5, 6, 7)), True),
    ]
    assert [(s.outcome, s.indices) for s in in_full(pair)] == [("right", ((0,), (0,))), ("wrong", ((4,), (4,)))]
    for group in sections(pair)[PREDICTED]:
        sheets = [picture.chart for picture in group.pictures]
        assert all(isinstance(sheet, Tiles) for sheet in sheets) and len(sheets) == 2
        first, second = ([t.pixels.tobytes() for t in s.strips[0].tiles] for s in sheets if isinstance(s, Tiles))
        assert first == second
    assert "some of the models only" in sections(pair)[PREDICTED][1].text


def test_models_without_an_image_in_common_are_shown_on_their_own_and_it_is_said() -> None:
    pair = two(explanation_of(SPEC, seed=1))
    assert [(s.outcome, s.same) for s in in_full(pair)] == [("right", False), ("wrong", False)]
    groups = [*groups_with(pair, "attention-"), *groups_with(pair, "examples-")]
    assert len(groups) == 4 and all("another for each model" in group.text for group in groups)
    patches = groups_with(pair, "patches")
    assert [len(group.pictures) for group in patches] == [2]
    assert len(groups_with(two(explanation_of(SPEC)), "patches")) == 1


def test_a_layer_has_one_scale_for_all_models_and_it_is_written() -> None:
    weak = explanation_of(SPEC)
    assert weak.attention is not None
    weak = replace(weak, attention=np.full_like(weak.attention, 1 / SPEC.patches))
    group = groups_with(two(weak), "attention-1")[0]
    strong, pale = (picture.chart for picture in group.pictures)
    assert isinstance(strong, Tiles) and isinstance(pale, Tiles)
    for row, other in zip(strong.strips[1:], pale.strips[1:], strict=True):
        most = max(float(tile.values.max()) for tile in row.tiles if tile.values is not None)
        assert most > 4 / SPEC.patches, "as in a head that looks somewhere"
        assert row.most == other.most == pytest.approx(most)
        assert row.scale == other.scale == f"to {100 * most:.0f} %"
    (alone,) = groups_with([ShownModel(weak)], "attention-1")
    (uniform,) = (picture.chart for picture in alone.pictures)
    assert isinstance(uniform, Tiles)
    assert {strip.most for strip in uniform.strips[1:]} == {4 / SPEC.patches}, "what attends to all alike is pale"


def test_no_attention_is_clear_and_the_most_is_opaque() -> None:
    image = np.random.default_rng(0).integers(0, 256, (4, 4, 3)).astype(np.uint8)
    image[..., 1] = image[..., 2] = image[..., 0]
    shares = np.array([[0.0, 0.2], [0.1, 0.2]])
    seen = overlaid(Tile(image, values=shares), 0.2).astype(float)
    np.testing.assert_array_equal(seen[:2, :2], image[:2, :2])
    laid = 255 * LAID
    for rows, columns, opaque in ((slice(2), slice(2, 4), MOST_OPAQUE), (slice(2, 4), slice(2), MOST_OPAQUE / 2)):
        np.testing.assert_allclose(seen[rows, columns], opaque * laid + (1 - opaque) * image[rows, columns], atol=1.01)


def similar(touching: float, row: float, column: float, others: float) -> ShownModel:
    """A model whose learned positions are alike just so."""
    y, x = np.divmod(np.arange(16), 4)
    down, across = np.abs(y[:, None] - y), np.abs(x[:, None] - x)
    values = np.where(down == 0, row, np.where(across == 0, column, others))
    values = np.where(np.maximum(down, across) <= 1, touching, values)
    np.fill_diagonal(values, 1.0)
    return ShownModel(replace(explanation_of(SPEC), similarity=values.astype(np.float32), distances=None), "mine")


@pytest.mark.parametrize(
    ("values", "phrase"),
    [
        ((0.8, 0.6, 0.5, 0.1), "show the grid"),
        ((0.8, 0.6, -0.2, -0.3), "show part of the grid"),
        ((0.1, 0.1, 0.0, 0.0), "do not show the grid"),
    ],
)
def test_it_is_said_which_learned_positions_are_alike(values: tuple[float, float, float, float], phrase: str) -> None:
    model = similar(*values)
    alike = likeness(model.explanation)
    assert alike is not None
    assert [alike.touching, alike.row, alike.column, alike.others] == pytest.approx(values)
    (sentence,) = explanation_text.in_short([model])
    assert "(mine)" in sentence and phrase in sentence
    assert "not" in phrase or all(f"{value:.2f}".replace("-", MINUS) in sentence for value in values)
    about = model.explanation.about.model_copy(update={"learned": False})
    assert explanation_text.in_short([replace(model, explanation=replace(model.explanation, about=about))]) == []


def test_it_is_said_how_far_heads_look_beside_uniform_attention() -> None:
    uniform = uniform_distance(SPEC)
    far = replace(explanation_of(SPEC), similarity=None, distances=np.full((2, 3), uniform, np.float32))
    near = replace(far, distances=np.array([[1.0, 2.0, uniform], [uniform] * 3], np.float32))
    (sentence,) = explanation_text.in_short(two(near)[1:])
    assert sentence.startswith("2 of 6 heads look near") and f"1.0 to {uniform:.1f} pixels (other)" in sentence
    (none,) = explanation_text.in_short([ShownModel(far)])
    assert none.startswith("None of 6 heads looks near")
    (group,) = groups_with([ShownModel(far, "far", "1-"), ShownModel(near, "near", "2-")], "distances")
    (picture,) = group.pictures
    assert isinstance(picture.chart, Trends)
    assert [*picture.chart.points["colour"].unique()] == ["far", "near"], "one scale for all"
    assert [value for _, value in picture.chart.levels] == [uniform]
