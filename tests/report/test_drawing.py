"""Drawn charts: names that stay different, lines and marks that do not hide one another, a form for phones."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, Plan, Values, build, factorial
from tests.report.test_labels import of_each_kind
from vitbench.report import curves, figures
from vitbench.report.cost import roofline
from vitbench.report.drawing import draw, ticks
from vitbench.report.drawing.curves import DASHES, MEAN_POINTS
from vitbench.report.drawing.draw import figure, style
from vitbench.report.drawing.names import above_rows, inches, labels_of, lines_of, wrapped
from vitbench.report.drawing.parts import NARROW, WIDEST, colours_of
from vitbench.report.drawing.ticks import Plain
from vitbench.report.pictures.charts import Chart
from vitbench.report.pictures.colours import PAPER
from vitbench.report.pictures.marks import Colouring
from vitbench.report.pictures.plane_charts import MOST_DASHED, Bundle, Curves, Front, Roofline, Spot
from vitbench.report.pictures.row_charts import Paired, Pairs
from vitbench.report.view import View
from vitbench.store import Study, TrainValues

ROOM = 1.2
WORDS = st.sampled_from(["post", "pre", "depth=12", "warmup_epochs=2.0", "learning_rate=0.004", "a", "·", "x" * 40])
NAMES = st.lists(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=8, unique=True)


@settings(deadline=None, max_examples=60)
@given(NAMES)
def test_names_that_differ_are_never_cut_to_the_same_text(names: list[str]) -> None:
    for labels in (labels_of(names, ROOM), wrapped(names, ROOM)[0]):
        assert len(set(labels)) == len(names)
        assert all(inches(line, 7.5) <= ROOM or len(line) <= 12 for label in labels for line in label.split("\n"))


def shown(made: Figure) -> list[str]:
    """Every text of a figure that is not a number of an axis."""
    texts = [text.get_text() for ax in made.axes for text in (*ax.texts, *ax.get_yticklabels())]
    return texts + [text.get_text() for legend in made.legends for text in legend.get_texts()]


def test_a_name_of_45_letters_is_whole_in_charts_of_pairs_and_in_legends() -> None:
    name = "4 heads + residual connection + pre-norm, MLP"
    assert len(name) == 45
    pairs = Pairs([("", [Paired("cell", [name], [[0.5]], [0.5], ["+0.5"], [""])])], "points", 0.0)
    colouring = Colouring("cell", [name, "b"], [name, "b"])
    bundle = Bundle([np.array([[1.0, 2.0], [2.0, 3.0]])], None)
    lines = Curves(["loss"], "", [""], {("loss", ""): {name: bundle, "b": bundle}}, colouring)
    for chart in (pairs, lines):
        with style():
            assert name in shown(figure(chart))
            assert name in " ".join(shown(figure(chart, narrow=True))).replace("\n", " ") or chart is lines


@pytest.mark.parametrize("chart", [*of_each_kind()][::4], ids=lambda chart: type(chart).__name__)
def test_a_chart_has_a_form_for_a_page_and_one_for_a_phone(chart: Chart) -> None:
    with style():
        assert figure(chart).get_figwidth() <= WIDEST
        assert figure(chart, narrow=True).get_figwidth() == NARROW


def test_both_forms_are_the_same_bytes_twice_and_share_no_id() -> None:
    chart = next(c for c in of_each_kind() if isinstance(c, Pairs))
    one = draw(chart)
    assert one == draw(chart)
    wide, narrow = one.svg.split("</svg>")[:2]
    assert 'class="wide"' in wide and 'class="narrow"' in narrow
    ids = [{part.split('"')[0] for part in form.split(' id="')[1:]} for form in (wide, narrow)]
    assert ids[0] and ids[1] and not ids[0] & ids[1]


def test_without_validation_learning_curves_show_the_accuracy_in_training(tmp_path: Path) -> None:
    for images, first in ((0, "training accuracy (%)"), (500, "validation accuracy (%)")):
        plan = Plan([CellPlan("base", {})], validation_images=images, time=False)
        (picture,) = curves.learning_curves(View(build(tmp_path / str(images), plan)), "cpu")
        assert isinstance(picture.chart, Curves)
        accuracies = [metric for metric in picture.chart.metrics if "accuracy" in metric]
        assert accuracies == [first] and "training loss (nats)" in picture.chart.metrics
        assert ("Training accuracy is" in picture.caption) == (images == 0)


def test_of_lines_that_coincide_each_is_seen() -> None:
    """In the planted study some means of cells are the same to the eye."""
    view = View(Study.read(REPOSITORY / "results" / "reference" / "planted"))
    (picture,) = curves.learning_curves(view, "cpu")
    with style():
        made = figure(picture.chart)
    means = [[line for line in ax.lines if line.get_linewidth() == 2] for ax in made.axes]
    assert all(len({str(line.get_linestyle()) + str(pattern(line)) for line in panel}) == len(panel) for panel in means)
    handles = [line for legend in made.legends for line in legend.get_lines()]
    assert [pattern(line) for line in handles] == [pattern(line) for line in means[0]], "the legend has the same lines"
    # The whole line is beneath, and no later one is without gaps.
    assert DASHES[0] == "solid" and "solid" not in DASHES[1:]
    assert "Dashes let lines beneath show through" in picture.caption


def test_dashes_are_spoken_of_where_they_are_drawn(tmp_path: Path) -> None:
    assert len(DASHES) == MOST_DASHED
    for number, epochs in itertools.product((2, MOST_DASHED, MOST_DASHED + 1), (1, 2)):
        cells = factorial({"depth": tuple(range(1, number + 1))}, epochs=epochs, time=False)
        (picture,) = curves.learning_curves(View(build(tmp_path / f"{number} {epochs}", cells)), "cpu")
        with style():
            (ax, *_) = figure(picture.chart).axes
        assert ("Dashes" in picture.caption) == (len({str(pattern(line)) for line in ax.lines}) > 1)
        assert ("Dashes" in picture.caption) == (number <= MOST_DASHED and epochs > 1)


def test_learning_curves_say_what_the_recipes_and_the_records_have(tmp_path: Path) -> None:
    def with_norms(values: Values) -> Values:
        assert isinstance(values, TrainValues)
        every = tuple(epoch.model_copy(update={"gradient_norm": 1.0}) for epoch in values.epochs)
        return values.model_copy(update={"epochs": every})

    def said(name: str, cells: list[CellPlan], **changes: Any) -> str:
        plan = Plan(cells, validation_images=0, time=False, **changes)
        (picture,) = curves.learning_curves(View(build(tmp_path / name, plan)), "cpu")
        return picture.caption

    plain, flipped = CellPlan("plain", {}), CellPlan("flipped", {"train.flip": True})
    assert "that of the batches of an epoch" in said("none", [plain])
    assert "that of the augmented batches of an epoch" in said("all", [flipped])
    assert "that of the batches, of some cells augmented, of an epoch" in said("some", [plain, flipped])
    assert "Gradient norm: not in the records of these runs." in said("without", [plain])
    assert "Gradient norm" not in said("with", [plain], changed=with_norms)


def test_single_runs_near_their_mean_are_not_painted_over() -> None:
    """What hides them is the mean's own line, and half a point beside it; where that has gaps they are seen."""
    view = View(Study.read(REPOSITORY / "results" / "reference" / "attention-ladder"))
    (picture,) = curves.learning_curves(view, "cpu")
    with style():
        made = figure(picture.chart)
    for ax in made.axes:
        rims = [line for line in ax.lines if line.get_color() == "white"]
        means = [line for line in ax.lines if line.get_linewidth() == MEAN_POINTS]
        assert len(rims) == len(means) == 4
        for rim, mean in zip(rims, means, strict=True):
            assert rim.get_linewidth() <= MEAN_POINTS + 1
            gaps = [[part * line.get_linewidth() for part in pattern(line)[1] or ()] for line in (rim, mean)]
            assert gaps[0] == pytest.approx(gaps[1])


def test_what_a_claim_compares_stands_in_one_panel_and_a_mean_is_of_one_setting() -> None:
    view = View(Study.read(REPOSITORY / "results" / "reference" / "norm-placement-small"))
    (picture,) = curves.learning_curves(view, "cpu")
    chart = picture.chart
    assert isinstance(chart, Curves) and "whatever their" not in picture.caption
    assert chart.colouring.title == "norm, warmup_epochs" and len(chart.facets) == 4
    seeds = view.train["seed"].nunique()
    assert {len(bundle.runs) for panel in chart.panels.values() for bundle in panel.values()} == {seeds}
    assert {len(panel) for panel in chart.panels.values()} == {4}


def test_a_mean_over_several_settings_says_so(tmp_path: Path) -> None:
    axes = {"depth": (1, 2, 3, 4), "heads": (1, 2, 4, 8), "mlp_ratio": (1.0, 2.0, 4.0)}
    (picture,) = curves.learning_curves(View(build(tmp_path, factorial(axes, time=False))), "cpu")
    chart = picture.chart
    assert isinstance(chart, Curves)
    (left,) = [axis for axis in axes if axis not in (chart.colouring.title, chart.facet_axis)]
    assert f"the mean of those of one colour, whatever their {left}" in picture.caption


def pattern(line: Line2D) -> Any:
    return line._unscaled_dash_pattern  # matplotlib tells it nowhere else


@pytest.fixture(scope="module")
def timed() -> View:
    return View(Study.read(REPOSITORY / "results" / "reference" / "attention-timing-cpu"))


@pytest.mark.parametrize("narrow", [False, True], ids=["page", "phone"])
def test_a_roofline_has_no_word_on_its_line_and_every_mark_open_at_its_place(timed: View, narrow: bool) -> None:
    (picture,) = roofline.rooflines(timed, list(timed.axes))
    with style():
        made = figure(picture.chart, narrow=narrow)
        made.draw_without_rendering()
        ax = made.axes[0]
        assert len(ax.lines) == 2, "the smallest ceilings that were measured, and the largest"
        for roof in ax.lines:
            ends = itertools.pairwise(pixels(ax, roof.get_xydata()))
            line = np.concatenate([np.linspace(a, b, 200) for a, b in ends])
            for text in ax.texts:
                left, bottom, right, top = text.get_window_extent().extents
                on = (left < line[:, 0]) & (line[:, 0] < right) & (bottom < line[:, 1]) & (line[:, 1] < top)
                assert not on.any(), text.get_text()
        marks = [c for c in ax.collections if isinstance(c, PathCollection)]
        assert len(marks) == len(picture.chart.points)
        assert len({tuple(mark.get_edgecolor()[0]) for mark in marks}) > 3
        assert not any(len(mark.get_facecolor()) for mark in marks), "open marks hide none"
        # What is read off the axis of intensity is what was measured, to half the width of a mark.
        true = {point.intensity for point in picture.chart.points}
        for mark in marks:
            ((x, _),) = mark.get_offset_transform().transform(mark.get_offsets())
            asides = [abs(x - pixels(ax, (intensity, 100.0))[0]) for intensity in true]
            assert min(asides) <= 3.0 * made.dpi / 72


def test_a_rooflines_ceilings_are_all_that_were_measured_and_its_settings_what_tells_them_apart(timed: View) -> None:
    (picture,) = roofline.rooflines(timed, list(timed.axes))
    rows = timed.time[timed.time["state"] == "ok"]
    chart = picture.chart
    assert isinstance(chart, Roofline)
    assert chart.bytes_per_s == (rows["ceiling_bytes_per_s"].min(), rows["ceiling_bytes_per_s"].max())
    low, high = (1e-9 * bound for bound in chart.bytes_per_s)
    assert f"{low:.0f} to {high:.0f} GB/s over 10 measurements" in picture.caption
    assert "Roofline of cpu, float32: attention core, batch 1." in picture.caption
    assert "N 65, H 6, K 64, forward and backward" in {point.setting for point in chart.points}
    with style():
        for narrow in (False, True):
            assert not [text for text in shown(figure(chart, narrow=narrow)) if "…" in text]


def front(spots: list[Spot]) -> Front:
    return Front("throughput (images/s)", "accuracy (%)", False, spots, Colouring(), logarithmic=False)


@pytest.mark.parametrize("narrow", [False, True], ids=["page", "phone"])
def test_a_front_names_every_cell_shows_both_spreads_and_leaves_open_what_is_not_to_be_relied_on(narrow: bool) -> None:
    nan = float("nan")
    chart = front([
        Spot(100.0, 80.0, 110.0, 50.0, 1.0, "", "A", "a", best=True),
        Spot(101.0, nan, nan, 50.0, nan, "", "B", "b", best=False),
        Spot(300.0, 250.0, 340.0, 40.0, 2.0, "", "C", "c", best=True),
        Spot(200.0, 150.0, 350.0, 45.0, 2.0, "", "D", "d", best=False, marked=True),
    ])  # fmt: skip
    with style():
        made = figure(chart, narrow=narrow)
        ax = made.axes[0]
        assert {text.get_text(): text.get_fontweight() for text in ax.texts} == {
            "A, B": "bold", "C": "bold", "D": "normal",
        }  # fmt: skip
        bars = [tuple(map(tuple, path.vertices)) for c in ax.collections if isinstance(c, LineCollection)
                for path in c.get_paths()]  # fmt: skip
        assert ((80.0, 50.0), (110.0, 50.0)) in bars and ((100.0, 49.0), (100.0, 51.0)) in bars and len(bars) == 6
        opened = {
            tuple(c.get_offsets()[0]): to_hex(c.get_facecolor()[0]) == PAPER
            for c in ax.collections
            if isinstance(c, PathCollection)
        }
        assert opened == {(200.0, 45.0): True, (100.0, 50.0): False}
        (line,) = ax.lines
        assert sorted(line.get_xdata()) == [100.0, 300.0], "the cells that nothing surpasses, and no other"


def pixels(ax: Axes, data: object) -> np.ndarray:
    return np.asarray(ax.transData.transform(data))


def test_a_value_has_one_colour_in_the_pictures_of_its_axis(timed: View) -> None:
    (picture,) = roofline.rooflines(timed, list(timed.axes))
    colourings = [picture.chart.colouring]
    colourings += [p.chart.colouring for g in timed.time_groups for p in figures.timings(timed, g, list(timed.axes))]
    for one, other in itertools.combinations(map(colours_of, colourings), 2):
        assert all(one[value] == other[value] for value in one.keys() & other.keys())


def test_names_above_rows_stand_beside_the_line_at_their_left() -> None:
    made = Figure()
    ax = made.subplots()
    above_rows(ax, ["one", "two"], 0.4)
    edge = ax.get_window_extent().x0
    assert [text.get_text() for text in ax.texts] == ["one", "two"]
    assert all(text.get_window_extent().x0 > edge + 2 for text in ax.texts)


def test_no_line_of_a_broken_name_ends_in_a_mark_between_its_parts() -> None:
    name = "pre · depth=12 · warmup_epochs=2 · learning_rate=0.004"
    for room in np.linspace(0.8, 3.0, 40):
        (broken,) = lines_of([name], float(room), 7.5, 4)
        assert not any(line.endswith("·") for line in broken.split("\n"))
    assert lines_of(["start = masked autoencoder"], 1.2, 8.5, 3) == ["start = masked\nautoencoder"]
    assert lines_of(["learning_rate=0.0005 · depth=6"], 1.2, 8.5, 3) == ["learning_rate=\n0.0005 · depth=6"]


def test_one_seed_is_not_hidden_by_a_bar_of_its_own() -> None:
    one, two = ([[0.5]], [[0.4, 0.6]])
    for points, bars in ((one, 0), (two, 1)):
        chart = Pairs([("", [Paired("axis", ["a"], points, [0.5], ["+0.5"], [""])])], "points", 0.0)
        (ax,) = figure(chart).axes
        assert len([line for line in ax.lines if line.get_linewidth() > 1]) == bars


def test_numbers_along_an_axis_have_the_same_decimals() -> None:
    assert Plain().format_ticks([50.7, 50.8, 50.9, 51.0]) == ["50.7", "50.8", "50.9", "51.0"]
    assert Plain().format_ticks([0.0, 5000.0]) == ["0", "5,000"]
    assert Plain().format_ticks([0.30000000000000004, 2e-05]) == ["0.30000", "0.00002"]


@given(st.integers(1, 100_000), st.integers(1, 6))
def test_the_last_epoch_has_a_tick_and_no_two_are_near(last: int, most: int) -> None:
    found = ticks.epochs(last, most)
    assert found[-1] == last and found[0] >= 1 and len(found) <= max(most, ticks.FEW_EPOCHS)
    assert last <= ticks.FEW_EPOCHS or all(b - a >= last / most * 0.5 for a, b in itertools.pairwise(found))
    assert ticks.epochs(40, 4) == [10, 20, 30, 40]
