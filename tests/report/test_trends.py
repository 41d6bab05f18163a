"""Trends: accuracy along an axis of numbers has a picture of its own."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.report.builders import build, factorial
from vitbench.report.figures.charts import Trends
from vitbench.report.figures.draw import draw
from vitbench.report.sections.trends import TEST_ACCURACY, THROUGHPUT, Quantity, along
from vitbench.report.view import View

NUMBERS = {"heads": (1, 2, 4, 8)}


def charts(tmp_path: Path, axes: dict[str, Any], quantity: Quantity = TEST_ACCURACY, **changes: Any) -> list[Trends]:
    view = View(build(tmp_path / "study", factorial(axes, time=False, seeds=(0, 1), **changes)))
    found = [picture.chart for axis in view.axes for picture in along(view, "cpu", axis, quantity)]
    assert all(isinstance(chart, Trends) for chart in found)
    return found


def test_a_line_for_each_value_of_the_other_axis(tmp_path: Path) -> None:
    (chart,) = charts(tmp_path, {**NUMBERS, "norm": ("pre", "post")})
    assert (chart.axis, chart.numbers, chart.logarithmic) == ("heads", [1, 2, 4, 8], True)
    assert list(chart.lines) == ["pre", "post"] == list(chart.colouring.shown)
    assert [(number, len(values)) for number, values in chart.lines["post"]] == [(1, 2), (2, 2), (4, 2), (8, 2)]


def test_of_two_other_axes_each_combination_has_a_line(tmp_path: Path) -> None:
    axes = {**NUMBERS, "norm": ("pre", "post"), "positions": ("learned", "none")}
    (chart,) = charts(tmp_path, axes, THROUGHPUT)
    assert list(chart.lines) == ["pre, learned", "pre, none", "post, learned", "post, none"]
    assert (chart.colouring.title, chart.label) == ("norm, positions", "training throughput (images/s)")
    assert all(value > 0 for line in chart.lines.values() for _, values in line for value in values)


def test_alone_it_is_one_line_without_a_legend(tmp_path: Path) -> None:
    (chart,) = charts(tmp_path, NUMBERS)
    assert list(chart.lines) == [""] and not chart.colouring.shown


@pytest.mark.parametrize(
    "axes",
    [
        {"heads": (1, 2), "norm": ("pre", "post")},
        {"norm": ("pre", "post"), "positions": ("learned", "none")},
        {**NUMBERS, "norm": ("pre", "post"), "positions": ("learned", "none"), "pooling": ("cls", "mean", "sequence")},
    ],
    ids=["two numbers", "no numbers", "more lines than can be told apart"],
)
def test_where_there_is_no_trend_there_is_no_picture(axes: dict[str, Any], tmp_path: Path) -> None:
    assert charts(tmp_path, axes) == []


def test_what_did_not_finish_is_left_out_of_its_line(tmp_path: Path) -> None:
    lost = {"heads": 2, "norm": "post"}
    (chart,) = charts(
        tmp_path, {**NUMBERS, "norm": ("pre", "post")},
        state=lambda cell, kind, seed: ("diverged", "") if cell.axes == lost else ("ok", ""),
    )  # fmt: skip
    assert [number for number, _ in chart.lines["post"]] == [1, 4, 8]
    with Image.open(io.BytesIO(draw(chart).png)) as picture:
        assert picture.format == "PNG" and min(picture.size) > 300
