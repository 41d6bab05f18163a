"""Drawing of trends: points are single runs, lines join their means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from vitbench.report.charts import Trends
from vitbench.report.drawing.parts import colours_of, inches, legend, shorten, single

AXIS_INCHES = 4.8
"""Between the first number of the axis and the last, at the least."""
TICK_POINTS = 8.0
AIR_INCHES = 0.05
"""On each side of a label."""


def figure(chart: Trends) -> Figure:
    """The figure: a single panel."""
    made = Figure(figsize=(6.3, 3.6), layout="constrained")
    ax, shades = made.subplots(), colours_of(chart.colouring)
    ax.grid(color="0.93", linewidth=0.8)
    ax.set_axisbelow(True)
    for name, line in chart.lines.items():
        shade = shades.get(name, single())
        for number, values in line:
            ax.plot(
                [number] * len(values), values, color=shade, marker="o", markersize=3.5, alpha=0.5, linestyle="none"
            )
        means = [statistics.fmean(values) for _, values in line]
        ax.plot([number for number, _ in line], means, color=shade, linewidth=2, marker="o", markersize=5)
    if chart.from_zero:
        ax.set_ylim(bottom=0.0)
    if chart.logarithmic:
        ax.set_xscale("log")
    ticks = _apart(chart.numbers, chart.logarithmic)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FixedFormatter([*map(_label, ticks)]))
    ax.set_xlabel(shorten(chart.axis))
    ax.set_ylabel(chart.label)
    legend(made, chart.colouring)
    return made


def _apart(numbers: Sequence[float], logarithmic: bool) -> list[float]:
    """Those of some numbers, in ascending order, whose labels do not touch that of the one before."""
    places = [math.log(number) if logarithmic else number for number in numbers]
    an_inch = (places[-1] - places[0]) / AXIS_INCHES
    chosen: list[float] = []
    free = -math.inf
    for number, place in zip(numbers, places, strict=True):
        half = (inches(_label(number), TICK_POINTS) / 2 + AIR_INCHES) * an_inch
        if place - half >= free:
            chosen.append(number)
            free = place + half
    return chosen


def _label(number: float) -> str:
    return f"{number:,g}" if number < 1e6 else f"{number:g}"
