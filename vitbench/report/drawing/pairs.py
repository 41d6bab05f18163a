"""Drawing of paired comparisons."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitbench.report.charts import MOST_BLOCKS, Paired, Pairs, is_many, limits
from vitbench.report.drawing.parts import GREY, INK, ROW_INCHES, shorten, single, spreads


def figure(chart: Pairs) -> Figure:
    """The figure; its height grows with the values of the axes, its width with the columns."""
    axes_of = chart.columns[0][1]
    counts = [len(axis.names) for axis in axes_of]
    longest = max((len(shorten(n, 30)) for axis in axes_of for n in axis.names), default=1)
    height = 0.9 + sum(ROW_INCHES * 1.25 * n + 0.36 for n in counts)
    made = Figure(figsize=(1.4 + 0.065 * longest + 4.6 * len(chart.columns), height), layout="constrained")
    grid = made.subplots(len(counts), len(chart.columns), squeeze=False, sharex=True,
                         gridspec_kw={"height_ratios": [n + 0.4 for n in counts]})  # fmt: skip
    every = [axis for _, axes in chart.columns for axis in axes]
    values = [points for axis in every for points in (*axis.points, *axis.spans)]
    ends = limits(np.concatenate([*values, [chart.neutral - chart.band, chart.neutral + chart.band]]))
    for column, (title, axes) in enumerate(chart.columns):
        for row, axis in enumerate(axes):
            ax = grid[row, column]
            _compare(ax, axis, chart.neutral, chart.band)
            heading = shorten(axis.axis, 40)
            ax.set_title(f"{title}: {heading}" if title else heading, fontweight="bold", fontsize=8.5)
            ax.set_yticks(range(len(axis.names)), [shorten(n, 30) for n in axis.names] if column == 0 else [])
            if ends:
                ax.set_xlim(*ends)
        grid[-1, column].set_xlabel(chart.label)
    return made


def _compare(ax: Axes, axis: Paired, neutral: float, band: float) -> None:
    ax.set_ylim(len(axis.names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_axisbelow(True)
    ax.grid(axis="x", color="0.93", linewidth=0.8)
    if band:
        ax.axvspan(neutral - band, neutral + band, color="0.93", zorder=0)
    ax.axvline(neutral, color="0.6", linewidth=0.8)
    shade = single()
    for row, (low, high) in enumerate(axis.spans):
        ax.plot([low, high], [row, row], color=shade, linewidth=7, alpha=0.3, solid_capstyle="butt", zorder=2)
    for row, (points, middle, mean, word) in enumerate(
        zip(axis.points, axis.middles, axis.means, axis.words, strict=True)
    ):
        if word:
            place = ax.get_yaxis_transform()
            ax.text(0.01, row, word, transform=place, va="center", fontsize=7.5, color=GREY, style="italic")
            continue
        if is_many(points, MOST_BLOCKS):
            spreads(ax, [row], [points], [shade], width=6)
        else:
            # A block keeps its height within the row over all values, so that it can be followed.
            spots = row + (np.linspace(-0.28, 0.28, len(points)) if len(points) > 1 else np.zeros(1))
            ax.scatter(points, spots, s=9, color=shade, alpha=0.6, linewidths=0, zorder=3)
        ax.plot([middle, middle], [row - 0.36, row + 0.36], color=INK, linewidth=1.8, zorder=4)
        ax.text(1.01, row, mean, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
