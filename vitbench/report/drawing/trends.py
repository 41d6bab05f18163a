"""Drawing of trends: points are single runs, lines join their means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from vitbench.report.drawing.names import inches, labels_of
from vitbench.report.drawing.parts import GREY, NARROW, colours_of, guide, legend, legend_inches, single
from vitbench.report.pictures.plane_charts import Trends

BESIDE_INCHES = 1.5
"""Of the figure's width, beside the first number of the axis and the last, at the most."""
TICK_POINTS = 8.0
AIR_INCHES = 0.05
"""On each side of a label."""


def figure(chart: Trends, *, narrow: bool = False) -> Figure:
    """The figure: a single panel."""
    width = NARROW if narrow else 6.3
    height = (2.6 if narrow else 3.2) + legend_inches(chart.colouring, width)
    made = Figure(figsize=(width, height), layout="constrained")
    ax, shades = made.subplots(), colours_of(chart.colouring)
    guide(ax)
    for name, line in chart.lines.items():
        shade = shades.get(name, single())
        for number, values in line:
            ax.plot([number] * len(values), values, color=shade, marker="o", markersize=3.5, markerfacecolor="white",
                    markeredgewidth=0.8, linestyle="none")  # fmt: skip
        means = [statistics.fmean(values) for _, values in line]
        ax.plot([number for number, _ in line], means, color=shade, linewidth=2, marker="o", markersize=5)
    ax.set_title("\n".join(f"dashed: {name}" for name, _ in chart.levels), fontsize=TICK_POINTS, color=GREY)
    for _, value in chart.levels:
        ax.axhline(value, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    if chart.from_zero:
        ax.set_ylim(bottom=0.0)
    if chart.logarithmic:
        ax.set_xscale("log")
    ticks = _apart(chart.numbers, width - BESIDE_INCHES, logarithmic=chart.logarithmic)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FixedFormatter([*map(_label, ticks)]))
    ax.set_xlabel(labels_of([chart.axis], width - 1.0, 9.0)[0])
    ax.set_ylabel(chart.label)
    legend(made, chart.colouring)
    return made


def _apart(numbers: Sequence[float], room: float, *, logarithmic: bool) -> list[float]:
    """Those of some numbers, in ascending order, whose labels do not touch that of the one before."""
    places = [math.log(number) if logarithmic else number for number in numbers]
    an_inch = (places[-1] - places[0]) / room
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
