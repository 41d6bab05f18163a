"""Rows of many values show their spread, and captions say what is drawn: points, spreads, or both."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, build, factorial
from vitbench.report.figures import cells, intervals, marks
from vitbench.report.figures.charts import Picture, Rows
from vitbench.report.figures.draw import figure
from vitbench.report.findings import axis, effects
from vitbench.report.view import View
from vitbench.store import Study

SPREAD = "ine from the lowest to the highest"
MANY = marks.MOST_POINTS + 1
GRID = {"norm": ("pre", "post"), "depth": (1, 2)}


def view_of(path: Path, seeds: int, of_the_second: int | None = None, epochs: int = 2) -> View:
    """A view of a study with so many finished seeds of each cell, of the cells of depth 2 fewer."""

    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        few = of_the_second is not None and cell.axes["depth"] == 2 and seed >= of_the_second
        return ("pending" if few else "ok"), ""

    return View(build(path, factorial(GRID, seeds=tuple(range(seeds)), state=state, time=False, epochs=epochs)))


def lines_of(ax: Axes) -> list[LineCollection]:
    return [c for c in ax.collections if isinstance(c, LineCollection) and c.get_zorder() == 3]


def drawn(picture: Picture) -> tuple[int, int]:
    """How many points and how many rows with a spread a picture has."""
    axes = figure(picture.chart).axes
    points = [c for ax in axes for c in ax.collections if isinstance(c, PathCollection) and c.get_zorder() == 3]
    lines = [line for ax in axes for line in lines_of(ax)]
    return sum(len(c.get_offsets()) for c in points), sum(len(line.get_segments()) for line in lines) // 2


def by_cell(view: View) -> list[Picture]:
    return [*cells.accuracy_by_cell(view, "cpu"), *cells.training_speed(view, "cpu", list(view.axes))]


@pytest.mark.parametrize(
    ("seeds", "of_the_second", "points", "spreads"),
    [(MANY - 1, None, 4 * (MANY - 1), 0), (MANY, None, 0, 4), (MANY, 3, 6, 2)],
    ids=["points", "spreads", "both"],
)
def test_captions_of_cells_say_what_is_drawn(
    tmp_path: Path, seeds: int, of_the_second: int | None, points: int, spreads: int
) -> None:
    for picture in by_cell(view_of(tmp_path, seeds, of_the_second)):
        found = drawn(picture)
        # The panel of memory shows the same rows beside those of throughput.
        assert found in [(points, spreads), (2 * points, 2 * spreads)], picture.name
        assert (SPREAD in picture.caption) == (spreads > 0)
        assert ("point" in picture.caption) == (points > 0)
        assert (f"more than {marks.MOST_POINTS}" in picture.caption) == (points > 0 and spreads > 0)
        assert picture.alt.startswith("Dot plot" if points else "Range plot")


def test_captions_of_axes_say_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (intervals, effects, axis):
        monkeypatch.setattr(module, "MOST_BLOCKS", 9)
    # Of the axis norm the blocks of both depths are matched; of depth those of both norms. Of each there is one value
    # beside the reference: a row of seeds, and one of blocks.
    for name, seeds, of_the_second, points, spreads in [
        ("points", 4, None, 4 + 8, 0),
        ("points and spreads", 5, None, 5, 1),
        ("spreads", 10, None, 0, 2),
        ("points of few blocks", 9, 2, 9, 1),
    ]:
        view = view_of(tmp_path / name, seeds, of_the_second)
        (picture,) = axis.pictures(view, view.places[0], "norm")
        assert drawn(picture) == (points, spreads), name
        assert (SPREAD in picture.caption) == (spreads > 0)
        assert ("point is" in picture.caption) == (points > 0)
        assert "one seed" in picture.caption or "of the seeds" in picture.caption
        assert "one matched block" in picture.caption or "of the matched blocks" in picture.caption


def test_each_page_says_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "ROWS_A_PAGE", 1)
    pages = cells.accuracy_by_cell(view_of(tmp_path, MANY, 3), "cpu")
    said = [(SPREAD in page.caption, "as a point" in page.caption) for page in pages]
    assert sorted(said) == [(False, True)] * 2 + [(True, False)] * 2
    assert said == [(drawn(page)[1] > 0, drawn(page)[0] > 0) for page in pages]


def test_limits_hold_all_that_is_finite() -> None:
    assert marks.limits(np.array([1.0, np.nan, 3.0, np.inf])) == marks.limits([1.0, 3.0]) == (0.9, 3.1)
    assert marks.limits([4.0], floor=0.0) == (0.0, 4.2)
    assert marks.limits([]) is None


def test_no_bar_leaves_its_panel() -> None:
    view = View(Study.read(REPOSITORY / "results" / "reference" / "attention-timing-cpu"))
    wide = 0
    for picture in (p for group in view.time_groups for p in cells.timings(view, group, list(view.axes))):
        chart = picture.chart
        assert isinstance(chart, Rows)
        for ax, panel in zip(figure(chart).axes, chart.panels, strict=False):
            low, high = ax.get_xlim()
            spans = [end for span in panel.spans for end in span if not math.isnan(end)]
            assert all(low <= end <= high for end in spans), picture.name
            wide += any(end > max(map(max, filter(len, panel.points))) for end in spans)
    assert wide, "a bar that goes beyond every point"
