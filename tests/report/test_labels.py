"""Labels in pictures of every kind neither touch one another nor are cut off, however many cells, long names and gaps.

Texts are measured where matplotlib lays them out, without drawing a pixel. The page takes over places and lengths,
as ``test_page.py`` sees in a browser.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axis import Axis
from matplotlib.text import Text

from tests.report.builders import CPU, GPU, CellPlan, Plan, build, factorial
from vitbench.report.drawing import parts, trends
from vitbench.report.drawing.draw import figure, style
from vitbench.report.files import Files
from vitbench.report.pictures.charts import Chart, Drawn
from vitbench.report.pictures.marks import Colouring
from vitbench.report.pictures.plane_charts import Curves, Front, Point, Roofline, Spot, Trends
from vitbench.report.pictures.row_charts import Paired, Pairs, Panel, Rows
from vitbench.report.render import compose
from vitbench.report.studio import never
from vitbench.report.view import View
from vitbench.store.record import STATES

TOUCH = 1.0
"""Pixels by which boxes around two texts may meet: they have air in them."""
LONG = "of a long name " * 4


def texts(
    chart: Chart, *, narrow: bool
) -> tuple[list[tuple[str, tuple[float, float, float, float]]], tuple[float, float]]:
    """The texts of a chart, each with its box (left, bottom, right, top), and the size of the picture; in pixels."""
    with style():
        made = figure(chart, narrow=True) if narrow else figure(chart)
        made.draw_without_rendering()
        shown: list[Text] = [text for legend in made.legends for text in (*legend.get_texts(), legend.get_title())]
        for ax in made.axes:
            shown += [*ax.texts, ax.title, ax._left_title, ax._right_title]
            shown += [label for axis in (ax.xaxis, ax.yaxis) for label in _labels(axis)]
        boxes = [
            (t.get_text(), t.get_window_extent().extents) for t in shown if t.get_visible() and t.get_text().strip()
        ]
        width, height = made.bbox.width, made.bbox.height
    return [(text, (float(a), float(b), float(c), float(d))) for text, (a, b, c, d) in boxes], (width, height)


def _labels(axis: Axis) -> Iterator[Text]:
    yield axis.label
    low, high = sorted(axis.get_view_interval())
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if low <= tick.get_loc() <= high:
            yield tick.label1


def faults(chart: Chart, *, narrow: bool) -> list[str]:
    """Texts that touch, and texts that the picture's edge cuts off."""
    found, (width, height) = texts(chart, narrow=narrow)
    assert found
    bad = [f"{text} is cut off" for text, (left, bottom, right, top) in found
           if left < -TOUCH or bottom < -TOUCH or right > width + TOUCH or top > height + TOUCH]  # fmt: skip
    for (one, a), (other, b) in itertools.combinations(found, 2):
        if min(a[2], b[2]) - max(a[0], b[0]) > TOUCH and min(a[3], b[3]) - max(a[1], b[1]) > TOUCH:
            bad.append(f"{one} / {other}")
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
    axes = {
        "heads": (1, 2, 4, 8, 16),
        "depth": tuple(range(1, 11)),
        "positions": ("learned", "none"),
        "norm": ("pre", "post"),
    }
    return factorial({4: {"norm": axes["norm"], "positions": axes["positions"]}}.get(cells, axes), modes=("inference",))


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
    charts: list[Chart] = []

    def keep(chart: Chart) -> Callable[[], Drawn]:
        charts.append(chart)
        return never(chart)

    compose(View(build(tmp_path / "study", plan(cells))), Files(keep))
    kinds = {type(chart) for chart in charts}
    assert {Rows, Curves} <= kinds and (plan is named or {Pairs, Front} <= kinds)
    # Of numbers, and of more cells, a phone has the same rows again.
    forms = [False, True] if cells < 48 or (cells < 200 and plan is named) else [False]
    assert [fault for chart in charts for narrow in forms for fault in faults(chart, narrow=narrow)] == []


def spot(number: int, of: int) -> Spot:
    cost = 10.0 ** (number / of)
    return Spot(
        cost, 0.9 * cost, 1.2 * cost, 50.0 + number / of, 0.5, f"value {number % 12} {LONG}", f"{number}",
        f"cell {number}", best=number % 3 == 0, marked=number % 3 == 1,
    )  # fmt: skip


def roofline(points: int) -> Roofline:
    made = [
        Point(2.0**n % 300 + 0.1, 1e9 * (n + 1), f"cpu, float32, batch size {n} {LONG}", f"v{n % 9} {LONG}")
        for n in range(points)
    ]
    values = [*dict.fromkeys(point.value for point in made)]
    return Roofline((0.9e12, 1e12), (0.5e10, 1e10), Colouring(LONG, values, values), made)


VALUES = [f"value {n} {'x' * 60}" for n in range(12)]


def of_each_kind() -> Iterator[Chart]:
    """Charts at the edges of what there is: one row, full pages, long names, near numbers, many letters."""
    for rows, panels in itertools.product((1, 4, 48, 60), (1, 3)):
        places = [float(i) for i in range(rows)]
        panel = Panel("accuracy (%)", [[place] for place in places], places)
        names = [f"{i} {LONG * 2}" for i in range(rows)]
        yield Rows(names, [panel] * panels, [""] * rows, ["a"] * rows, Colouring("axis", "abc", "abc"))
    for n in (2, 12):
        axis = Paired("a" * 80, VALUES[:n], [[0.1]] * n, [0.1] * n, ["+0.10"] * n, [""] * n, [(0.0, 0.2)] * n)
        yield Pairs([("one", [axis] * 3), ("two", [axis] * 3)], "points", 0.0, 0.3)
    for n in (2, 4, 48, 200):
        colours = Colouring(LONG, VALUES, VALUES)
        spots = [spot(i, n) for i in range(n)]
        yield Front("throughput (images/s)", "test accuracy (%)", False, spots, colours, logarithmic=n > 4)
    places = random.Random(3)
    for n in (12, 24):
        cloud = [replace(spot(i, n), cost=places.uniform(1, 9), gain=places.gauss(50, 1)) for i in range(n)]
        yield Front("peak memory (MiB)", "test accuracy (%)", True, cloud, Colouring(), logarithmic=False)
    for n in (1, 4, 12, 40):
        yield roofline(n)
    for n, wide in itertools.product((3, 48, 200), (False, True)):
        colours = Colouring(LONG, VALUES[:8], VALUES[:8])
        at = [10.0 * (i + 1) for i in range(n)]
        lines = {name: [(x, [1.0, 2.0]) for x in at[:: n // 3]] for name in VALUES[:8]}
        yield Trends(LONG, "test accuracy (%)", at, lines, colours, logarithmic=wide)
    near = [1e4, 1.2e4, 1.25e4, 1e5, 1e7]
    yield Trends("train.images", "accuracy (%)", near, {"": [(n, [1.0]) for n in near]}, Colouring(), logarithmic=False)


@pytest.mark.parametrize("narrow", [False, True], ids=["page", "phone"])
@pytest.mark.parametrize("chart", [*of_each_kind()], ids=lambda chart: type(chart).__name__)
def test_labels_of_each_kind_neither_touch_nor_are_cut_off(chart: Chart, narrow: bool) -> None:
    assert faults(chart, narrow=narrow) == []


def test_the_measure_sees_what_touches_and_what_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "AIR_INCHES", -1.0)
    (near,) = [chart for chart in of_each_kind() if isinstance(chart, Trends) and chart.numbers[0] == 1e4]
    assert "10,000 / 12,000" in faults(near, narrow=False)
    monkeypatch.setattr(parts, "EDGE", -6.0)
    assert any(
        "is cut off" in fault for fault in faults(next(c for c in of_each_kind() if isinstance(c, Front)), narrow=False)
    )
