"""Figures of every kind: labels neither touch nor are cut off, marks are where the numbers say, names are text.

Texts are measured where matplotlib lays them out, without drawing a pixel. The page takes over places and lengths,
as ``test_page.py`` sees in a browser.
"""

import io
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from tests.report.builders import CPU, GPU, SMALL, CellPlan, Plan, build, charts_of, factorial, reference
from tests.report.contrast import LEAST_MARK, LEAST_TEXT, contrast
from vitbench.report.document import Bar, Forest, ForestRow, Scale
from vitbench.report.figures import colours, marks
from vitbench.report.figures.charts import SPOT, Chart, Colouring, Curves, Front, Heat, Nested, Roofline, Trends
from vitbench.report.figures.colours import PAPER, alone
from vitbench.report.figures.draw import draw, figure, style
from vitbench.report.figures.parts import fit, inches
from vitbench.report.sections import timing
from vitbench.report.view import View
from vitbench.store.record import STATES

TOUCH = 1.0  # Pixels by which boxes around two texts may meet: they have air in them
LONG = "of a long name " * 4


def texts(chart: Chart) -> tuple[list[tuple[str, tuple[float, float, float, float]]], tuple[float, float]]:
    """The texts of a chart, each with its box (left, bottom, right, top), and the size of the picture; in pixels."""
    with style():
        made = figure(chart)
        made.draw_without_rendering()
        labels: list[Text] = [text for legend in made.legends for text in (*legend.get_texts(), legend.get_title())]
        for ax in made.axes:
            labels += [*ax.texts, ax.title, ax._left_title, ax._right_title]
            labels += [label for axis in (ax.xaxis, ax.yaxis) for label in _labels(axis)]
        boxes = [
            (t.get_text(), t.get_window_extent().extents) for t in labels if t.get_visible() and t.get_text().strip()
        ]
        width, height = made.bbox.width, made.bbox.height
    return [(text, (float(a), float(b), float(c), float(d))) for text, (a, b, c, d) in boxes], (width, height)


def _labels(axis: Axis) -> Iterator[Text]:
    yield axis.label
    low, high = sorted(axis.get_view_interval())
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if low <= tick.get_loc() <= high:
            yield tick.label1


def faults(chart: Chart) -> list[str]:
    """Texts that touch, and texts that the picture's edge cuts off."""
    boxes, (width, height) = texts(chart)
    assert boxes
    bad = [f"{text} is cut off" for text, (left, bottom, right, top) in boxes
           if left < -TOUCH or bottom < -TOUCH or right > width + TOUCH or top > height + TOUCH]  # fmt: skip
    for (first, a), (second, b) in itertools.combinations(boxes, 2):
        if min(a[2], b[2]) - max(a[0], b[0]) > TOUCH and min(a[3], b[3]) - max(a[1], b[1]) > TOUCH:
            bad.append(f"{first} / {second}")
    return bad


def some(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
    """All states at once."""
    words = ["ok", *STATES, "pending"]
    return words[int(cell.label.split()[1]) * 3 % len(words)], "why"


def named(cells: int) -> Plan:
    """Cells with long names, on two machines, in all states."""
    plans = [CellPlan(f"cell {n} {LONG}", {"depth": 1 + n % 12, "dim": 32 * (1 + n // 12)}) for n in range(cells)]
    return Plan(plans, seeds=(0, 1), state=some, environment=lambda cell, seed: CPU if seed else GPU)


def numbers(cells: int) -> Plan:
    """A grid of two axes, of numbers, one of them with as many values as there are cells of the other's two."""
    return factorial(
        {"mlp_ratio": tuple(0.25 * (n + 1) for n in range(cells // 2)), "norm": ("pre", "post")}, seeds=(0, 1, 2)
    )


def one_seed(cells: int) -> Plan:
    """Four axes, one seed, one device."""
    many = {"heads": (1, 2, 4, 8, 16), "depth": tuple(range(1, 11)), **SMALL}
    return factorial(SMALL if cells == 4 else many, modes=("inference",))


@pytest.mark.parametrize("name", ["positions-small", "resolution-small"])
def test_a_cell_has_one_colour_in_all_figures(name: str) -> None:
    coloured = [c for c in charts_of(reference(name)) if isinstance(c, Curves | Front | Trends)]
    assert len({type(chart) for chart in coloured}) > 1
    pairs = {pair for chart in coloured for pair in colours.colours_of(chart.colouring).items()}
    assert len(pairs) == len(dict(pairs)) > 3


@pytest.mark.parametrize(
    ("cells", "plan"),
    [
        *itertools.product((4, 48), (named, numbers)),
        (4, one_seed),
        *(pytest.param(200, plan, marks=pytest.mark.slow) for plan in (named, numbers, one_seed)),
    ],
)
def test_labels_of_a_whole_report_neither_touch_nor_are_cut_off(
    tmp_path: Path, cells: int, plan: Callable[[int], Plan]
) -> None:
    charts = charts_of(View(build(tmp_path / "study", plan(cells))))
    kinds = {type(chart) for chart in charts}
    assert Curves in kinds and (plan is named or {Forest, Front} <= kinds)
    assert [fault for chart in charts for fault in faults(chart)] == []


def spot(number: int, of: int, cost: float = 0.0, gain: float = 0.0) -> tuple[Any, ...]:
    """A row of a front's frame."""
    cost = cost or 10.0 ** (number / of)
    return (f"cell {number}", f"value {number % 12} {LONG}", cost, 0.9 * cost, 1.2 * cost, number % 3 == 1,
            gain or 50.0 + number / of, 0.5, number % 3 == 0, "")  # fmt: skip


def frame(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns)


SPEED = ("setting", "colour", "flops_per_byte", "flops_per_s")
RUN = ("facet", "colour", "metric", "run", "epoch", "value")
LINE = ("colour", "at", "value")


def roofline(points: int) -> Roofline:
    rows = [(f"cpu, float32, batch size {n} {LONG}", f"v{n % 9} {LONG}", 2.0**n % 300 + 0.1, 1e9 * (n + 1))
            for n in range(points)]  # fmt: skip
    values = [*dict.fromkeys(value for _, value, *_ in rows)]
    return Roofline((0.9e12, 1e12), (0.5e10, 1e10), Colouring(LONG, values, values), frame(rows, SPEED))


VALUES = [f"value {n} {'x' * 60}" for n in range(12)]


def forest(bars: Sequence[Bar], scale: Scale, name: str = "") -> Forest:
    """A forest plot of some bars, their verdicts in turn."""
    words = ("better", "worse", "equivalent", "underpowered (both at chance)")
    rows = [
        ForestRow(f"{i} {name}", f"axis, against {name}", bar, (f"{bar.value:+.2f}", ""), words[i % len(words)])
        for i, bar in enumerate(bars)
    ]
    return Forest(f"difference in points {name}", tuple(rows), scale)


def of_each_kind() -> Iterator[Chart]:
    """Charts at the edges of what there is: one row, full pages, long names, near numbers, many letters."""
    for n, scale in itertools.product((1, 2, 12, 40), (Scale(0.0, (-0.5, 0.5)), Scale(1.0, (0.97, 1.03), True))):
        yield forest([Bar(1.0 + i / n, 0.9, 2.1, (1.2, 1.3)) for i in range(n)], scale, LONG * 2)
    for n in (2, 4, 48, 200):
        colours = Colouring(LONG, VALUES, VALUES)
        spots = frame([spot(i, n) for i in range(n)], SPOT)
        yield Front("throughput (images/s)", "test accuracy (%)", False, spots, colours, logarithmic=n > 4)
    places = random.Random(3)
    for n in (12, 24):
        cloud = frame([spot(i, n, places.uniform(1, 9), places.gauss(50, 1)) for i in range(n)], SPOT)
        yield Front("peak memory (MiB)", "test accuracy (%)", True, cloud, Colouring(), logarithmic=False)
    for n in (1, 4, 12, 40):
        yield roofline(n)
    for n, wide in itertools.product((3, 48, 200), (False, True)):
        colours = Colouring(LONG, VALUES[:8], VALUES[:8])
        numbers = [10.0 * (i + 1) for i in range(n)]
        lines = frame([(name, x, y) for name in VALUES[:8] for x in numbers[:: n // 3] for y in (1.0, 2.0)], LINE)
        yield Trends(LONG, "test accuracy (%)", numbers, lines, colours, logarithmic=wide)
    near = [1e4, 1.2e4, 1.25e4, 1e5, 1e7]
    ones = frame([("", n, 1.0) for n in near], LINE)
    yield Trends("train.images", "accuracy (%)", near, ones, Colouring(), logarithmic=False)


@pytest.mark.parametrize("chart", [*of_each_kind()], ids=lambda chart: type(chart).__name__)
def test_labels_of_each_kind_neither_touch_nor_are_cut_off(chart: Chart) -> None:
    assert faults(chart) == []


def test_the_measure_sees_what_touches_and_what_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = next(chart for chart in of_each_kind() if isinstance(chart, Forest) and len(chart.rows) == 40)
    monkeypatch.setattr(marks, "ROW", 0.05)
    assert any(" / " in fault for fault in faults(rows))
    monkeypatch.setattr(marks, "in_two", lambda label, room: 20 * label)
    assert any("is cut off" in fault for fault in faults(rows))


ROOM = 1.2
WORDS = st.sampled_from(["post", "pre", "depth=12", "warmup_epochs=2.0", "learning_rate=0.004", "a", "·", "x" * 40])
NAMES = st.lists(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=8, unique=True)


@settings(deadline=None, max_examples=60)
@given(NAMES)
def test_names_that_differ_are_never_cut_to_the_same_text(names: list[str]) -> None:
    for most in (1, 2):
        labels = fit(names, ROOM, 7.5, lines=most)
        assert len(set(labels)) == len(names)
        assert all(inches(line, 7.5) <= ROOM or len(line) <= 12 for label in labels for line in label.split("\n"))


def words_of(made: Figure) -> list[str]:
    """Every text of a figure that is not a number of an axis."""
    texts = [text.get_text() for ax in made.axes for text in (*ax.texts, *ax.get_yticklabels())]
    return texts + [text.get_text() for legend in made.legends for text in legend.get_texts()]


def test_a_name_of_45_letters_is_whole_in_forest_plots_and_in_legends() -> None:
    name = "4 heads + residual connection + pre-norm, MLP"
    assert len(name) == 45
    plot = forest([Bar(0.5, 0.4, 0.6)], Scale(), name)
    colouring = Colouring("cell", [name, "b"], [name, "b"])
    runs = frame([("", each, "loss", "1", epoch, epoch + 1.0) for each in (name, "b") for epoch in (1, 2)], RUN)
    lines = Curves(["loss"], "", [""], runs, colouring)
    with style():
        assert name in words_of(figure(lines))
        assert any(name in text.replace("\n", " ") for text in words_of(figure(plot)))


def test_a_roofline_has_no_word_on_its_line_and_every_mark_open_at_its_place() -> None:
    timed = reference("attention-timing-cpu")
    (picture,) = timing.rooflines(timed, list(timed.axes))
    ceilings = timed.time.loc[timed.time["state"] == "ok", "ceiling_bytes_per_s"]
    assert picture.chart.bytes_per_s == (ceilings.min(), ceilings.max())
    with style():
        made = figure(picture.chart)
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
        points = picture.chart.points
        true = {*zip(points["flops_per_byte"], points["flops_per_s"] / 1e9, strict=True)}
        assert {tuple(map(float, mark.get_offsets()[0])) for mark in marks} == true
        assert not [text for text in words_of(made) if "…" in text]


def front(spots: Sequence[tuple[Any, ...]]) -> Front:
    return Front("throughput (images/s)", "accuracy (%)", False, frame(spots, SPOT), Colouring(), logarithmic=False)


def test_a_front_shows_both_spreads_and_leaves_open_what_is_not_to_be_relied_on() -> None:
    chart = front([
        ("a", "", 100.0, 80.0, 110.0, False, 50.0, 1.0, True, ""),
        ("b", "", 101.0, math.nan, math.nan, False, 50.0, math.nan, False, ""),
        ("c", "", 300.0, 250.0, 340.0, False, 40.0, 2.0, True, ""),
        ("d", "", 200.0, 150.0, 350.0, True, 45.0, 2.0, False, ""),
    ])  # fmt: skip
    with style():
        made = figure(chart)
        ax = made.axes[0]
        bars = [tuple(map(tuple, path.vertices)) for c in ax.collections if isinstance(c, LineCollection)
                for path in c.get_paths()]  # fmt: skip
        assert ((80.0, 50.0), (110.0, 50.0)) in bars and ((100.0, 49.0), (100.0, 51.0)) in bars and len(bars) == 6
        marks = [c for c in ax.collections if isinstance(c, PathCollection)]
        opened = {tuple(mark.get_offsets()[0]): to_hex(mark.get_facecolor()[0]) == PAPER for mark in marks}
        assert opened == {(cost, gain): cost == 200 for cost, gain in ((100, 50), (101, 50), (300, 40), (200, 45))}
        (line,) = ax.lines
        assert sorted(line.get_xdata()) == [100.0, 300.0], "the cells that nothing surpasses, and no other"
    assert {(float(row["cost"]), float(row["gain"])) for row in chart.frame.to_dict("records")} == {*opened}


def pixels(ax: Axes, data: object) -> np.ndarray:
    return np.asarray(ax.transData.transform(data))


def test_a_value_has_one_colour_in_the_pictures_of_its_axis(tmp_path: Path) -> None:
    charts = charts_of(View(build(tmp_path, factorial({"heads": (1, 2, 4, 8), **SMALL}, seeds=(0, 1)))))
    colourings = [c.colouring for c in charts if isinstance(c, (Curves, Front, Trends)) and c.colouring.values]
    assert len(colourings) > 2
    for pair in itertools.combinations(colourings, 2):
        if pair[0].title == pair[1].title:
            first, second = map(colours.colours_of, pair)
            assert all(first[value] == second[value] for value in first.keys() & second.keys())


def test_marks_and_letters_stand_out_on_white_and_on_dark_paper() -> None:
    for colour in (*colours.PALETTE, *colours.SCALE):
        assert contrast(colour, colours.PAPER) >= LEAST_MARK, colour
        assert contrast(colours.DARK.get(colour, colour), colours.NIGHT) >= LEAST_MARK, colour
    for colour in (colours.INK, colours.GREY):
        assert min(contrast(colour, colours.PAPER), contrast(colours.DARK[colour], colours.NIGHT)) >= LEAST_TEXT
    assert 1.05 < contrast(colours.DARK[colours.RULE], colours.NIGHT) < 1.5
    assert len({*colours.DARK.values(), *colours.SCALE}) == len(colours.DARK) + len(colours.SCALE), "all are different"


def test_marks_of_a_forest_plot_are_where_the_numbers_of_the_csv_file_say() -> None:
    bars = [Bar(1.5, 1.0, 2.5, (1.4, 1.6)), Bar(-2.0, -3.0, -1.0, (-2.1,)), Bar(math.nan, math.nan, math.nan)]
    chart = forest(bars, Scale(0.0))
    numbers = {what: rows["value"].tolist() for what, rows in chart.frame.groupby("what")}
    with style():
        ax = figure(chart).axes[0]
    ends = [path.vertices for c in ax.collections if isinstance(c, LineCollection) for path in c.get_paths()]
    ends = [end for end in ends if len(end) and np.isfinite(end).all()]
    points = [xy for c in ax.collections if isinstance(c, PathCollection) for xy in c.get_offsets()]
    places = [(float(line.get_xdata()[0]), line.get_ydata()[0]) for line in ax.lines if line.get_marker() != "None"]
    assert [end[:, 0].tolist() for end in ends] == [*map(list, zip(numbers["low"], numbers["high"], strict=True))]
    assert [x for x, _ in points] == numbers["point"]
    assert places[:2] == [(value, row) for row, value in enumerate(numbers["estimate"])]


def test_a_chart_is_the_same_bytes_twice_and_its_text_is_text() -> None:
    hostile = "</svg><script>alert(1)</script> $x$ & {#} \N{RIGHT-TO-LEFT OVERRIDE}"
    rows = forest([Bar(1.5, 1.0, 2.0, (1.0, 2.0))], Scale(), hostile)
    drawn = draw(rows)
    assert drawn == draw(rows)
    assert "<script" not in drawn.svg and "$x$" in drawn.svg and "&lt;script" in drawn.svg
    svg = alone(drawn.svg)
    document = ElementTree.fromstring(svg)
    assert document.tag.endswith("svg") and "prefers-color-scheme" in svg and "var(" not in svg
    with Image.open(io.BytesIO(drawn.png)) as png:
        assert round(png.info["dpi"][0]) == 200 and png.width <= 1440
    box = [float(side) for side in document.attrib["viewBox"].split()]
    assert png.width == pytest.approx(box[2] / 72 * 200, abs=1), "one figure, as pixels and as shapes"


@pytest.mark.parametrize(
    "chart",
    [
        forest([], Scale()),
        forest([Bar(math.nan, math.nan, math.nan)], Scale(0.0, (-1.0, 1.0))),
        forest([Bar(1.0, math.nan, math.nan)], Scale(1.0, (0.9, 1.1), logarithmic=True)),
        Curves(["loss"], "", [""], frame([], RUN), Colouring()),
        Trends("depth", "accuracy", [1.0], frame([], LINE), Colouring(), logarithmic=False),
        Trends("layer", "pixels", [1.0], frame([], LINE), Colouring(), logarithmic=False, from_zero=True),
        front([]),
        Heat(np.zeros((1, 1)), "value", "row", "column"),
        Nested(np.zeros((1, 1)), (1, 1), [0], [0], "value"),
    ],
    ids=lambda chart: type(chart).__name__,
)
def test_an_empty_chart_and_one_of_one_row_are_drawn(chart: Chart) -> None:
    assert draw(chart).svg.endswith("</svg>")
    assert not [fault for fault in faults(chart) if fault]
