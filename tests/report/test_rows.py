"""Rows of points: none hides another, and exact twins that agree have one row."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PathCollection

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, build, factorial
from vitbench.report import figures
from vitbench.report.drawing.draw import figure, style
from vitbench.report.drawing.stacks import lanes
from vitbench.report.files import Files
from vitbench.report.pictures.charts import Chart, Drawn
from vitbench.report.pictures.row_charts import Rows
from vitbench.report.render import compose
from vitbench.report.studio import never
from vitbench.report.view import View
from vitbench.store import Study

REFERENCE = REPOSITORY / "results" / "reference"
TWINS = {"attention": ("per_head", "batched"), "norm": ("pre", "post")}
POINTS = st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0, 2.0, 7.5, 7.9]), max_size=20)


@given(POINTS)
def test_points_that_touch_stand_on_lines_of_their_own(values: list[float]) -> None:
    found = lanes(values, 1.0)
    assert len(found) == len(values)
    for (a, line), (b, other) in itertools.combinations(zip(values, found, strict=True), 2):
        assert abs(a - b) >= 1.0 or abs(line - other) >= 1
    for value, line in zip(values, found, strict=True):
        alone = sum(abs(value - other) < 1.0 for other in values) == 1
        assert line == 0 or not alone
    assert sorted(lanes([9.0] * len(values), 1.0)) == [n - (len(values) - 1) / 2 for n in range(len(values))]


@pytest.mark.parametrize("narrow", [False, True], ids=["page", "phone"])
@pytest.mark.parametrize("study", ["attention-ladder", "pooling-small", "norm-placement-small"])
def test_no_seed_hides_another(study: str, narrow: bool) -> None:
    """Six of the seven seeds without attention end at the same accuracy."""
    view = View(Study.read(REFERENCE / study))
    (picture,) = figures.accuracy_by_cell(view, "cpu")
    assert "stand one above the other" in picture.caption
    with style():
        made = figure(picture.chart, narrow=narrow)
        made.draw_without_rendering()
        (points,) = [c for c in made.axes[0].collections if isinstance(c, PathCollection) and len(c.get_sizes()) == 1
                     and c.get_zorder() == 3]  # fmt: skip
        places = np.asarray(made.axes[0].transData.transform(points.get_offsets())) * 72 / made.dpi
    assert len(places) == len(view.train)
    wide = np.sqrt(points.get_sizes()[0])
    apart = [np.hypot(*(a - b)) for a, b in itertools.combinations(places, 2)]
    assert min(apart) > 0.5 * wide


def picture_of(path: Path, broken: str = "") -> Rows:
    """The accuracy of two exact attentions under two norms, the same but for one cell."""

    def accuracy(cell: CellPlan, seed: int) -> float:
        return 40.0 + 2 * (cell.axes["norm"] == "pre") + seed + (cell.label == broken)

    view = View(build(path, factorial(TWINS, seeds=(0, 1), accuracy=accuracy, time=False)))
    (picture,) = figures.accuracy_by_cell(view, "cpu")
    assert "Exact twins that agree to the last digit have one row" in picture.caption
    assert isinstance(picture.chart, Rows)
    return picture.chart


def test_exact_twins_that_agree_to_the_last_digit_have_one_row(tmp_path: Path) -> None:
    chart = picture_of(tmp_path)
    assert chart.names == ["pre (× 2 twins)", "post (× 2 twins)"] and chart.values == ["pre", "post"]
    assert [list(points) for points in chart.panels[0].points] == [[42, 43], [40, 41]]


def test_twins_that_differ_have_rows_of_their_own(tmp_path: Path) -> None:
    chart = picture_of(tmp_path, "batched · post")
    assert chart.names == ["pre (× 2 twins)", "batched · post", "per_head · post"]


def test_the_36_cells_of_the_reference_study_are_six_rows_and_all_are_in_the_table() -> None:
    view = View(Study.read(REFERENCE / "components-cpu"))
    (picture,) = figures.accuracy_by_cell(view, "cpu")
    assert isinstance(picture.chart, Rows)
    assert sorted(picture.chart.names) == sorted(
        f"{norm} · {positions} (× 6 twins)" for norm in ("pre", "post") for positions in view.axes["positions"]
    )


def test_a_colour_means_one_thing_in_accuracy_and_in_training() -> None:
    view = View(Study.read(REFERENCE / "norm-placement-small"))
    charts: list[Rows] = []

    def keep(chart: Chart) -> Callable[[], Drawn]:
        charts.extend([chart] if isinstance(chart, Rows) else [])
        return never(chart)

    compose(view, Files(keep))
    assert len(charts) == 2 and {chart.colouring.title for chart in charts} == {"norm"}
