"""Models of one study: shown on the same images and scales, and what their numbers say, as sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.report.shown_models import explanation_of
from vitbench.analysis.attention_distance import likeness, uniform_distance
from vitbench.config.model import ModelSpec
from vitbench.report.figures.charts import Tile, Tiles, Trends
from vitbench.report.figures.pixels import LAID, MOST_OPAQUE, overlaid
from vitbench.report.models import explanation_text
from vitbench.report.models.examples import PictureGroup, ShownModel, chosen, in_full
from vitbench.report.models.pictures import PREDICTED, sections
from vitbench.report.text import MINUS
from vitbench.store.explanation import Explanation

SPEC = ModelSpec(image_size=16, patch_size=4, dim=64, depth=2, heads=3, num_classes=6)


def told(explanation: Explanation, place: int, as_class: int) -> Explanation:
    """The same, but for what the model makes of one image."""
    shown = list(explanation.about.shown)
    shown[place] = shown[place].model_copy(update={"predicted": as_class})
    return replace(explanation, about=explanation.about.model_copy(update={"shown": tuple(shown)}))


def peaked(explanation: Explanation) -> Explanation:
    """The same, with heads that give half of their attention to one patch."""
    assert explanation.attention is not None
    attention = explanation.attention / 2
    attention[..., 3] += 0.5
    return replace(explanation, attention=attention)


def two(other: Explanation) -> list[ShownModel]:
    return [ShownModel(peaked(explanation_of(SPEC)), "one", "1-"), ShownModel(other, "other", "2-")]


def of_alike(models: list[ShownModel], name: str) -> list[PictureGroup]:
    return [w for groups in sections(models).values() for w in groups if any(name in p.name for p in w.pictures)]


def test_models_are_shown_on_images_that_all_keep_by_what_all_make_of_them() -> None:
    pair = two(told(explanation_of(SPEC), 1, 5))
    assert [(s.outcome, s.places, s.same) for s in chosen(pair)] == [
        ("right", ((0, 2, 3), (0, 2, 3)), True),
        ("differing", ((1,), (1,)), True),
        ("wrong", ((4, 5, 6, 7), (4, 5, 6, 7)), True),
    ]
    assert [(s.outcome, s.places) for s in in_full(pair)] == [("right", ((0,), (0,))), ("wrong", ((4,), (4,)))]
    for group in sections(pair)[PREDICTED]:
        sheets = [picture.chart for picture in group.pictures]
        assert all(isinstance(sheet, Tiles) for sheet in sheets) and len(sheets) == 2
        one, other = ([t.pixels.tobytes() for t in s.strips[0].tiles] for s in sheets if isinstance(s, Tiles))
        assert one == other
    assert "some of the models only" in sections(pair)[PREDICTED][1].said


def test_models_without_an_image_in_common_are_shown_on_their_own_and_it_is_said() -> None:
    pair = two(explanation_of(SPEC, seed=1))
    assert [(s.outcome, s.same) for s in in_full(pair)] == [("right", False), ("wrong", False)]
    groups = [*of_alike(pair, "attention-"), *of_alike(pair, "examples-")]
    assert len(groups) == 4 and all("another for each model" in group.said for group in groups)
    patches = of_alike(pair, "patches")
    assert [len(group.pictures) for group in patches] == [2] and len(
        of_alike(two(explanation_of(SPEC)), "patches")
    ) == 1


def test_a_layer_has_one_scale_for_all_models_and_it_is_written() -> None:
    weak = explanation_of(SPEC)
    assert weak.attention is not None
    weak = replace(weak, attention=np.full_like(weak.attention, 1 / SPEC.patches))
    group = of_alike(two(weak), "attention-1")[0]
    strong, pale = (picture.chart for picture in group.pictures)
    assert isinstance(strong, Tiles) and isinstance(pale, Tiles)
    for row, other in zip(strong.strips[1:], pale.strips[1:], strict=True):
        most = max(float(tile.values.max()) for tile in row.tiles if tile.values is not None)
        assert most > 4 / SPEC.patches, "as in a head that looks somewhere"
        assert row.most == other.most == pytest.approx(most)
        assert row.scale == other.scale == f"to {100 * most:.0f} %"
    (alone,) = of_alike([ShownModel(weak)], "attention-1")
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
    ("values", "said"),
    [
        ((0.8, 0.6, 0.5, 0.1), "show the grid"),
        ((0.8, 0.6, -0.2, -0.3), "show part of the grid"),
        ((0.1, 0.1, 0.0, 0.0), "do not show the grid"),
    ],
)
def test_it_is_said_which_learned_positions_are_alike(values: tuple[float, float, float, float], said: str) -> None:
    model = similar(*values)
    found = likeness(model.explanation)
    assert found is not None
    assert [found.touching, found.row, found.column, found.others] == pytest.approx(values)
    (sentence,) = explanation_text.in_short([model])
    assert "(mine)" in sentence and said in sentence
    assert "not" in said or all(f"{value:.2f}".replace("-", MINUS) in sentence for value in values)
    given = model.explanation.about.model_copy(update={"learned": False})
    assert explanation_text.in_short([replace(model, explanation=replace(model.explanation, about=given))]) == []


def test_it_is_said_how_far_heads_look_beside_uniform_attention() -> None:
    uniform = uniform_distance(SPEC)
    far = replace(explanation_of(SPEC), similarity=None, distances=np.full((2, 3), uniform, np.float32))
    near = replace(far, distances=np.array([[1.0, 2.0, uniform], [uniform] * 3], np.float32))
    (sentence,) = explanation_text.in_short(two(near)[1:])
    assert sentence.startswith("2 of 6 heads look near") and f"1.0 to {uniform:.1f} pixels (other)" in sentence
    (none,) = explanation_text.in_short([ShownModel(far)])
    assert none.startswith("None of 6 heads looks near")
    (group,) = of_alike([ShownModel(far, "far", "1-"), ShownModel(near, "near", "2-")], "distances")
    (picture,) = group.pictures
    assert isinstance(picture.chart, Trends) and [*picture.chart.points["colour"].unique()] == ["far", "near"], (
        "one scale for all"
    )
    assert [value for _, value in picture.chart.levels] == [uniform]
