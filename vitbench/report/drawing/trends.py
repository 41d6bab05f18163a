"""Drawing of trends: points are single runs, lines join their means."""

from __future__ import annotations

import statistics

from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from vitbench.report.charts import Trends
from vitbench.report.drawing.parts import colours_of, legend, shorten, single

MOST_TICKS = 8


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
    if chart.logarithmic:
        ax.set_xscale("log")
    step = -(-len(chart.numbers) // MOST_TICKS)
    ticks = chart.numbers[::step]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FixedFormatter([f"{tick:,g}" if tick < 1e6 else f"{tick:g}" for tick in ticks]))
    ax.set_xlabel(shorten(chart.axis))
    ax.set_ylabel(chart.label)
    legend(made, chart.colouring)
    return made
