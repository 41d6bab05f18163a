"""Drawn charts: names that stay different, lines and marks that do not hide one another, a form for phones."""

from __future__ import annotations

import itertools
from pathlib import Path

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
from tests.report.builders import CellPlan, Plan, build
from tests.report.test_labels import of_each_kind
from vitbench.report import curves, figures, roofline
from vitbench.report.charts import Chart
from vitbench.report.colours import PAPER
from vitbench.report.drawing import draw
from vitbench.report.drawing.curves import DASHES
from vitbench.report.drawing.draw import figure, style
from vitbench.report.drawing.names import above_rows, inches, labels_of, wrapped
from vitbench.report.drawing.parts import NARROW, WIDEST, colours_of
from vitbench.report.marks import Colouring
from vitbench.report.plane_charts import Bundle, Curves, Front, Roofline, Spot
from vitbench.report.row_charts import Paired, Pairs
from vitbench.report.view import View
from vitbench.store import Study

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
    assert "coincide" in picture.caption


def pattern(line: Line2D) -> object:
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
    (picture,) = roofline.rooflines(timed)
    rows = timed.time[timed.time["state"] == "ok"]
    chart = picture.chart
    assert isinstance(chart, Roofline)
    assert chart.bytes_per_s == (rows["ceiling_bytes_per_s"].min(), rows["ceiling_bytes_per_s"].max())
    assert "46 to 84 GB/s over 10 measurements" in picture.caption
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


def test_names_above_rows_stand_at_both_edges() -> None:
    ax = Figure().subplots()
    above_rows(ax, ["one", "two"], 0.4, ["+1", ""])
    assert [(t.get_text(), t.get_ha()) for t in ax.texts] == [("one", "left"), ("two", "left"), ("+1", "right")]
