"""Rows of points: none hides another, and exact twins that agree have one row."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, build, charts_of, factorial
from vitbench.report.figures import cells
from vitbench.report.figures.charts import Rows
from vitbench.report.figures.draw import figure, style
from vitbench.report.view import View
from vitbench.store import Study

REFERENCE = REPOSITORY / "results" / "reference"
TWINS = {"attention": ("per_head", "batched"), "norm": ("pre", "post")}


@pytest.mark.parametrize("study", ["attention-ladder", "pooling-small", "norm-placement-small"])
def test_no_seed_hides_another(study: str) -> None:
    """Six of the seven seeds without attention end at the same accuracy."""
    view = View(Study.read(REFERENCE / study))
    (picture,) = cells.accuracy_by_cell(view, "cpu")
    with style():
        made = figure(picture.chart)
        FigureCanvasAgg(made).draw()
        swarms = [c for c in made.axes[0].collections if isinstance(c, PathCollection) and c.get_zorder() == 3]
        found = [each for each in swarms if len(each.get_offsets())]
        places = np.concatenate([made.axes[0].transData.transform(c.get_offsets()) for c in found]) * 72 / made.dpi
    assert len(places) == len(view.train)
    wide = np.sqrt(found[0].get_sizes()[0])
    apart = [np.hypot(*(a - b)) for a, b in itertools.combinations(places, 2)]
    assert min(apart) > 0.5 * wide


def picture_of(path: Path, broken: str = "") -> Rows:
    """The accuracy of two exact attentions under two norms, the same but for one cell."""

    def accuracy(cell: CellPlan, seed: int) -> float:
        return 40.0 + 2 * (cell.axes["norm"] == "pre") + seed + (cell.label == broken)

    view = View(build(path, factorial(TWINS, seeds=(0, 1), accuracy=accuracy, time=False)))
    (picture,) = cells.accuracy_by_cell(view, "cpu")
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
    (picture,) = cells.accuracy_by_cell(view, "cpu")
    assert isinstance(picture.chart, Rows)
    assert sorted(picture.chart.names) == sorted(
        f"{norm} · {positions} (× 6 twins)" for norm in ("pre", "post") for positions in view.axes["positions"]
    )


def test_a_colour_means_one_thing_in_accuracy_and_in_training() -> None:
    view = View(Study.read(REFERENCE / "norm-placement-small"))
    charts = [chart for chart in charts_of(view) if isinstance(chart, Rows)]
    assert len(charts) == 2 and {chart.colouring.title for chart in charts} == {"norm"}
