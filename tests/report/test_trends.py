"""Trends: accuracy along an axis of numbers has a picture of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.report.builders import build, factorial
from vitbench.report.figures.charts import Trends, drawn
from vitbench.report.sections.curves import TEST_ACCURACY, THROUGHPUT, Quantity, trends
from vitbench.report.text import significant
from vitbench.report.view import View

NUMBERS, NORM = {"heads": (1, 2, 4, 8)}, {"norm": ("pre", "post")}


def charts(tmp_path: Path, axes: dict[str, Any], quantity: Quantity = TEST_ACCURACY, **changes: Any) -> list[Trends]:
    view = View(build(tmp_path / "study", factorial(axes, time=False, seeds=(0, 1), **changes)))
    found = [picture.chart for picture in trends(view, quantity)]
    assert all(isinstance(chart, Trends) for chart in found)
    return found


@pytest.mark.parametrize(
    ("others", "quantity", "lines"),
    [
        ({}, TEST_ACCURACY, [""]),
        (NORM, TEST_ACCURACY, ["pre", "post"]),
        ({**NORM, "positions": ("learned", "none")}, THROUGHPUT,
         ["pre, learned", "pre, none", "post, learned", "post, none"]),
    ],
)  # fmt: skip
def test_a_line_for_each_combination_of_the_other_axes(
    tmp_path: Path, others: dict[str, Any], quantity: Quantity, lines: list[str]
) -> None:
    (chart,) = charts(tmp_path, {**NUMBERS, **others}, quantity)
    assert (chart.axis, chart.numbers, chart.logarithmic) == ("heads", [1, 2, 4, 8], True)
    assert [*chart.points["colour"].unique()] == lines == list(chart.colouring.shown or [""])
    counts = chart.points.groupby(["colour", "at"], sort=False).size()
    assert [*counts.items()] == [((name, number), 2) for name in lines for number in (1, 2, 4, 8)]
    first = f"{lines[0]} heads 1: {significant(chart.points['value'][:2].mean())}".strip()
    assert drawn(chart).svg.count("data-tip=") == 4 * len(lines) and f'data-tip="{first}"' in drawn(chart).svg
    assert ("images/s" in chart.label) == (quantity is THROUGHPUT)


@pytest.mark.parametrize(
    "axes",
    [
        {"heads": (1, 2), **NORM},
        {**NORM, "positions": ("learned", "none")},
        {**NUMBERS, **NORM, "positions": ("learned", "none"), "pooling": ("cls", "mean", "sequence")},
    ],
    ids=["two numbers", "no numbers", "more lines than can be told apart"],
)
def test_where_there_is_no_trend_there_is_no_picture(axes: dict[str, Any], tmp_path: Path) -> None:
    assert charts(tmp_path, axes) == []


def test_what_did_not_finish_is_left_out_of_its_line(tmp_path: Path) -> None:
    lost = {"heads": 2, "norm": "post"}
    (chart,) = charts(
        tmp_path, {**NUMBERS, **NORM},
        state=lambda cell, kind, seed: ("diverged", "") if cell.axes == lost else ("ok", ""),
    )  # fmt: skip
    assert [*chart.points.loc[chart.points["colour"] == "post", "at"].unique()] == [1, 4, 8]
