"""Drawing of paired comparisons."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitbench.report.drawing.names import GROUND, above_rows, in_two, inches, labels_of, wrapped
from vitbench.report.drawing.parts import (
    GREY,
    INK,
    NARROW,
    ROW_INCHES,
    RULE,
    WIDEST,
    guide,
    interval,
    single,
    spreads,
)
from vitbench.report.pictures.marks import MOST_BLOCKS, is_many, limits
from vitbench.report.pictures.row_charts import Paired, Pairs

NAME_INCHES = 3.0
"""Of the longest name beside a row: some 45 letters."""
MARKS_INCHES = 0.22
"""Of a row, beneath its name."""
NOTE_INCHES = 0.75
"""Of a mean in words, and of air."""
TITLE_POINTS, MEAN_POINTS, LABEL_POINTS = 8.5, 8.0, 9.0
"""Of letters above a panel, of a mean beside it, and beneath all."""


def figure(chart: Pairs, *, narrow: bool = False) -> Figure:
    """The figure; its height grows with the values of the axes, its width with the columns.

    In a narrow one the columns follow one another, and each row's name stands above it.
    """
    made, panels, tall = _narrow(chart) if narrow else _wide(chart)
    every = [axis for _, axes in chart.columns for axis in axes]
    values = [points for axis in every for points in (*axis.points, *axis.spans)]
    ends = limits(np.concatenate([*values, [chart.neutral - chart.band, chart.neutral + chart.band]]))
    for ax, axis in panels:
        _compare(ax, axis, chart.neutral, chart.band, tall)
        if ends:
            ax.set_xlim(*ends)
    return made


def _wide(chart: Pairs) -> tuple[Figure, list[tuple[Axes, Paired]], float]:
    axes_of = chart.columns[0][1]
    counts = [len(axis.names) for axis in axes_of]
    labels = [labels_of(axis.names, NAME_INCHES) for axis in axes_of]
    room = 1.4 + 0.065 * max((len(each) for some in labels for each in some), default=1)
    width = min(WIDEST, room + 4.6 * len(chart.columns))
    height = 0.9 + sum(ROW_INCHES * 1.25 * n + 0.36 for n in counts)
    made = Figure(figsize=(width, height), layout="constrained")
    grid = made.subplots(len(counts), len(chart.columns), squeeze=False, sharex=True,
                         gridspec_kw={"height_ratios": [n + 0.4 for n in counts]})  # fmt: skip
    panels = []
    for column, (title, axes) in enumerate(chart.columns):
        for row, axis in enumerate(axes):
            ax = grid[row, column]
            ax.set_ylim(len(axis.names) - 0.4, -0.6)
            ax.set_title(_heading(title, axis, (width - room) / len(chart.columns), lines=1), fontweight="bold",
                         fontsize=TITLE_POINTS)  # fmt: skip
            ax.set_yticks(range(len(axis.names)), labels[row] if column == 0 else [])
            _means(ax, axis)
            ax.xaxis.set_major_locator(MaxNLocator(8 if len(chart.columns) == 1 else 5))
            panels.append((ax, axis))
        grid[-1, column].set_xlabel(chart.label)
    return made, panels, 1.0


def _narrow(chart: Pairs) -> tuple[Figure, list[tuple[Axes, Paired]], float]:
    stacked = [(title, axis) for title, axes in chart.columns for axis in axes]
    counts = [len(axis.names) for _, axis in stacked]
    labels = [wrapped(axis.names, NARROW - 0.3 - NOTE_INCHES) for _, axis in stacked]
    named = max(tall for _, tall in labels)
    row = named + MARKS_INCHES
    height = 0.85 + sum(row * (n + 0.3) + 0.36 for n in counts)
    made = Figure(figsize=(NARROW, height), layout="constrained")
    grid = made.subplots(len(counts), 1, squeeze=False, sharex=True,
                         gridspec_kw={"height_ratios": [n + 0.3 for n in counts]})[:, 0]  # fmt: skip
    for ax, (title, axis), (names, _) in zip(grid, stacked, labels, strict=True):
        ax.set_ylim(len(axis.names) - 0.6, -0.9)
        ax.set_title(_heading(title, axis, NARROW - 0.3, lines=2), fontweight="bold", fontsize=TITLE_POINTS)
        ax.set_yticks([])
        above_rows(ax, names, (MARKS_INCHES + named - 0.04) / 2 / row)
        _means(ax, axis)
        ax.xaxis.set_major_locator(MaxNLocator(5))
    grid[-1].set_xlabel(in_two(chart.label, NARROW - NOTE_INCHES, LABEL_POINTS))
    return made, [(ax, axis) for ax, (_, axis) in zip(grid, stacked, strict=True)], MARKS_INCHES / row


def _heading(title: str, axis: Paired, room: float, lines: int) -> str:
    """What a panel is of, in one line or in so many."""
    room *= 0.85  # bold letters are wider
    whole = f"{title}: {axis.axis}" if title else axis.axis
    if title and lines > 1 and inches(whole, TITLE_POINTS) > room:
        return f"{title}:\n{labels_of([axis.axis], room, TITLE_POINTS)[0]}"
    return labels_of([whole], room, TITLE_POINTS)[0]


def _means(ax: Axes, axis: Paired) -> None:
    """Write the mean of each row beside it; nothing where there is a word in place of points."""
    for place, (mean, word) in enumerate(zip(axis.means, axis.words, strict=True)):
        if not word:
            ax.text(1.01, place, mean, transform=ax.get_yaxis_transform(), va="center", fontsize=MEAN_POINTS)


def _compare(ax: Axes, axis: Paired, neutral: float, band: float, tall: float) -> None:
    """Draw a panel, its marks in so much of their height: the rest is their name's."""
    ax.tick_params(axis="y", length=0)
    guide(ax, "x")
    if band:
        ax.axvspan(neutral - band, neutral + band, color=RULE, linewidth=0, zorder=0)
        for end in (neutral - band, neutral + band):
            ax.axvline(end, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    ax.axvline(neutral, color=GREY, linewidth=0.8, zorder=1)
    shade = single()
    for row, ends in enumerate(axis.spans):
        interval(ax, row, ends, shade, 0.2 * tall)
    for row, (points, middle, word) in enumerate(zip(axis.points, axis.middles, axis.words, strict=True)):
        if word:
            place = ax.get_yaxis_transform()
            ax.text(0.01, row, word, transform=place, va="center", fontsize=7.5, color=GREY, style="italic",
                    bbox=GROUND)  # fmt: skip
            continue
        if is_many(points, MOST_BLOCKS):
            spreads(ax, [row], [points], [shade], width=6)
        else:
            # A block keeps its height within the row over all values, so that it can be followed.
            spots = row + tall * (np.linspace(-0.28, 0.28, len(points)) if len(points) > 1 else np.zeros(1))
            ax.scatter(points, spots, s=12, color=shade, edgecolors="white", linewidths=0.3, zorder=3)
        if len(points) == 1:
            continue  # one point is its own mean, which would hide it
        ax.plot([middle, middle], [row - 0.36 * tall, row + 0.36 * tall], color=INK, linewidth=1.8, zorder=4)
