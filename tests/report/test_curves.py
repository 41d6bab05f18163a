"""Learning curves and trends: what is drawn of which runs, and what is said beneath."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from tests.report.builders import SMALL, CellPlan, Plan, build, factorial, reference
from vitbench.report.figures.charts import MEAN, MOST_DASHED, Curves, Trends, drawn
from vitbench.report.figures.colours import colours_of
from vitbench.report.figures.draw import figure, style
from vitbench.report.figures.marks import DASHES, FEW_EPOCHS
from vitbench.report.figures.parts import tip
from vitbench.report.sections import curves
from vitbench.report.sections.curves import TEST_ACCURACY, THROUGHPUT, Quantity, trends
from vitbench.report.text import significant
from vitbench.report.view import View


def test_without_validation_learning_curves_show_the_accuracy_in_training(tmp_path: Path) -> None:
    for images, first in ((0, "training accuracy (%)"), (500, "validation accuracy (%)")):
        plan = Plan([CellPlan("base", {})], validation_images=images, time=False)
        (picture,) = curves.pictures(View(build(tmp_path / str(images), plan)))
        assert isinstance(picture.chart, Curves)
        accuracies = [metric for metric in picture.chart.metrics if "accuracy" in metric]
        assert accuracies == [first] and "training loss (nats)" in picture.chart.metrics
        assert ("Training accuracy is" in picture.caption) == (images == 0)


def test_lines_are_dashed_where_few_cross(tmp_path: Path) -> None:
    assert len(DASHES) == MOST_DASHED
    for number, epochs in itertools.product((2, MOST_DASHED, MOST_DASHED + 1), (1, 2)):
        cells = factorial({"depth": tuple(range(1, number + 1))}, epochs=epochs, time=False)
        (picture,) = curves.pictures(View(build(tmp_path / f"{number} {epochs}", cells)))
        with style():
            (legend,) = figure(picture.chart).legends
        patterns = {str(pattern(line)) for line in legend.get_lines()}
        assert (len(patterns) > 1) == (number <= MOST_DASHED and epochs > 1)


def test_what_a_claim_compares_stands_in_one_panel_and_a_mean_is_of_one_setting() -> None:
    view = reference("norm-placement-small")
    (picture,) = curves.pictures(view)
    chart = picture.chart
    assert isinstance(chart, Curves) and "whatever their" not in picture.caption
    assert chart.colouring.title == "norm, warmup_epochs" and len(chart.facets) == 4
    seeds = view.train["seed"].nunique()
    runs = chart.frame[chart.frame["run"] != MEAN].groupby(["metric", "facet"])
    assert {*runs["colour"].nunique()} == {4}
    assert {*chart.frame.groupby(["metric", "facet", "colour"])["run"].nunique()} == {seeds + 1}, "and the mean"
    assert {len(panel) for _, panel in runs} == {4 * seeds * chart.epochs}


def test_a_mean_over_several_settings_says_so(tmp_path: Path) -> None:
    axes = {"depth": (1, 2, 3, 4), "heads": (1, 2, 4, 8), "mlp_ratio": (1.0, 2.0, 4.0)}
    (picture,) = curves.pictures(View(build(tmp_path, factorial(axes, time=False))))
    chart = picture.chart
    assert isinstance(chart, Curves)
    (left,) = [axis for axis in axes if axis not in (chart.colouring.title, chart.facet_axis)]
    assert f"the mean of those of one colour, whatever their {left}" in picture.caption


def pattern(line: Line2D) -> Any:
    return line._unscaled_dash_pattern  # matplotlib tells it nowhere else


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("seeds", [2, 21])
def test_every_run_has_a_curve_and_of_one_epoch_a_point(tmp_path: Path, seeds: int, epochs: int) -> None:
    axes = {"norm": ("pre", "post"), "depth": (1, 2)}
    view = View(build(tmp_path, factorial(axes, seeds=tuple(range(seeds)), time=False, epochs=epochs)))
    (picture,) = curves.pictures(view)
    chart = picture.chart
    assert isinstance(chart, Curves)
    with style():
        ax = figure(chart).axes[0]
    tips = {line.get_gid(): line.get_color() for line in ax.lines if line.get_gid()}
    shades, data = colours_of(chart.colouring), chart.frame
    first = data[(data["metric"] == chart.metrics[0]) & (data["facet"] == chart.facets[0]) & (data["epoch"] == epochs)]
    mean = first[first["run"] != MEAN].groupby("colour")["value"].mean()
    ends = {name: significant(value) for name, value in mean.items()}
    assert tips == {tip("", f"{name}: {end} after epoch {epochs}"): shades[name] for name, end in ends.items()} != {}
    runs = [c for bundle in ax.collections if isinstance(bundle, LineCollection) for c in bundle.get_segments()]
    assert [len(run) for run in runs] == [epochs] * 2 * seeds, "two colours in a panel"
    marked = [len(line.get_xdata()) for line in ax.lines if line.get_marker() == "o"]
    assert bool(marked) == (epochs <= FEW_EPOCHS) and (epochs > 1 or marked[:2] == [seeds] * 2)
    low, high = ax.get_ylim()
    assert all(low < y < high for run in runs for y in np.asarray(run)[:, 1])


NUMBERS, NORM = {"heads": (1, 2, 4, 8)}, {"norm": ("pre", "post")}


def charts(tmp_path: Path, axes: dict[str, Any], quantity: Quantity = TEST_ACCURACY, **changes: Any) -> list[Trends]:
    view = View(build(tmp_path / "study", factorial(axes, time=False, seeds=(0, 1), **changes)))
    made = [picture.chart for picture in trends(view, quantity)]
    assert all(isinstance(chart, Trends) for chart in made)
    return made


@pytest.mark.parametrize(
    ("others", "quantity", "lines"),
    [
        ({}, TEST_ACCURACY, [""]),
        (NORM, TEST_ACCURACY, ["pre", "post"]),
        (SMALL, THROUGHPUT, ["pre, learned", "pre, none", "post, learned", "post, none"]),
    ],
)  # fmt: skip
def test_a_line_for_each_combination_of_the_other_axes(
    tmp_path: Path, others: dict[str, Any], quantity: Quantity, lines: list[str]
) -> None:
    (chart,) = charts(tmp_path, {**NUMBERS, **others}, quantity)
    assert (chart.axis, chart.numbers, chart.logarithmic) == ("heads", [1, 2, 4, 8], True)
    assert [*chart.points["colour"].unique()] == lines == list(chart.colouring.named or [""])
    counts = chart.points.groupby(["colour", "at"], sort=False).size()
    assert [*counts.items()] == [((name, number), 2) for name in lines for number in (1, 2, 4, 8)]
    first = f"{lines[0]} heads 1: {significant(chart.points['value'][:2].mean())}".strip()
    assert drawn(chart).svg.count("data-tip=") == 4 * len(lines) and f'data-tip="{first}"' in drawn(chart).svg
    assert ("images/s" in chart.label) == (quantity is THROUGHPUT)


def test_speeds_of_runs_that_shared_the_machine_are_not_drawn(tmp_path: Path) -> None:
    assert charts(tmp_path, NUMBERS, THROUGHPUT, apart=2) == [], "each takes 20 s"


@pytest.mark.parametrize(
    "axes",
    [
        {"heads": (1, 2), **NORM},
        SMALL,
        {**NUMBERS, **SMALL, "pooling": ("cls", "mean", "sequence")},
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
