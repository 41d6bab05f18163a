"""Drawing of rows: dots or spreads by row, a panel for each quantity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitbench.report.drawing.names import above_rows, inches, labels_of, wrapped
from vitbench.report.drawing.parts import (
    GREY,
    INK,
    NARROW,
    ROW_INCHES,
    RULE,
    WIDEST,
    Colour,
    colours_of,
    guide,
    interval,
    legend,
    legend_inches,
    single,
    spreads,
)
from vitbench.report.marks import is_many
from vitbench.report.row_charts import Panel, Rows

EDGE = 0.35
"""Inches beside the panels of a narrow picture: of its last number's half, and of air."""
MOST_STACKED = 16
"""Rows up to which the panels of a narrow picture stand one below the other; of more they share the names."""
MARKS_INCHES = 0.16
"""Of a row, beneath its name."""
LABEL_POINTS = 9.0


def figure(chart: Rows, *, narrow: bool = False) -> Figure:
    """The figure; its height grows with the rows. A narrow one has each row's name above it."""
    chosen = colours_of(chart.colouring)
    shades = [chosen.get(value, single()) for value in chart.values]
    made, axes, row = _narrow(chart) if narrow else _wide(chart)
    for ax, panel in zip(axes, chart.panels, strict=True):
        _fill(ax, panel, chart.words, shades, ROW_INCHES / row)
    legend(made, chart.colouring)
    return made


def _wide(chart: Rows) -> tuple[Figure, list[Axes], float]:
    """Figure, panels, and inches of a row."""
    labels, count = labels_of(chart.names, WIDEST), len(chart.panels)
    room = 1.2 + 0.062 * max(map(len, labels), default=1)
    width = min(WIDEST, room + (5.0 if count == 1 else 2.6 * count))
    height = 0.75 + legend_inches(chart.colouring, width) + ROW_INCHES * max(len(labels), 3)
    made = Figure(figsize=(width, height), layout="constrained")
    axes = [*made.subplots(1, count, squeeze=False)[0]]
    for ax, panel in zip(axes, chart.panels, strict=True):
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_yticks(range(len(labels)) if ax is axes[0] else [], labels if ax is axes[0] else [])
        ax.set_xlabel(_wrapped(panel.label, (width - room) / count))
        ax.xaxis.set_major_locator(MaxNLocator(5 if width < WIDEST else 3, steps=[1, 2, 2.5, 5, 10]))
    return made, axes, ROW_INCHES


def _narrow(chart: Rows) -> tuple[Figure, list[Axes], float]:
    """The same."""
    (labels, named), count = wrapped(chart.names, NARROW - EDGE), len(chart.panels)
    row = named + MARKS_INCHES
    stacked = len(labels) <= MOST_STACKED
    shape = (count, 1) if stacked else (1, count)
    tall = row * (max(len(labels), 2) + 0.5)
    height = legend_inches(chart.colouring, NARROW) + (0.1 if stacked else 0.25) + (tall + 0.5) * shape[0]
    made = Figure(figsize=(NARROW, height), layout="constrained")
    axes = [*made.subplots(*shape, squeeze=False).ravel()]
    for ax, panel in zip(axes, chart.panels, strict=True):
        ax.set_ylim(len(labels) - 0.6, -0.9)
        ax.set_yticks([])
        if stacked or ax is axes[0]:
            above_rows(ax, labels, (MARKS_INCHES / 2 + named / 2 - 0.02) / row)
        ax.set_xlabel(_wrapped(panel.label, (NARROW - EDGE) / shape[1]))
        ax.xaxis.set_major_locator(MaxNLocator({1: 5, 2: 3}.get(shape[1], 2), steps=[1, 2, 2.5, 5, 10]))
    return made, axes, row


def _wrapped(label: str, room: float) -> str:
    """A label in two lines where one is longer than its panel: what is measured, and its unit."""
    before, mark, unit = label.partition(" (")
    return f"{before}\n({unit}" if mark and inches(label, LABEL_POINTS) > room else label


def _fill(ax: Axes, panel: Panel, words: Sequence[str], shades: Sequence[Colour], tall: float) -> None:
    """Draw a panel, its marks in so much of their height: the rest is their name's."""
    guide(ax, "x")
    ax.hlines(range(len(words)), 0, 1, transform=ax.get_yaxis_transform(), color=RULE, linewidth=0.8, zorder=0)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    for row, ends in enumerate(panel.spans):
        half = 0.32 if is_many(panel.points[row]) else 0.22  # to be seen behind points and behind a bar
        interval(ax, row, ends, shades[row], half * tall)
    places = [(value, row) for row, values in enumerate(panel.points) if not is_many(values) for value in values]
    if places:
        x, y = np.array(places).T
        ax.scatter(x, y, s=16, c=[shades[int(row)] for row in y], linewidths=0.4, edgecolors="white", zorder=3)
    many = [row for row, values in enumerate(panel.points) if is_many(values)]
    spreads(ax, many, [panel.points[row] for row in many], [shades[row] for row in many], width=4)
    several = [row for row, values in enumerate(panel.points) if len(values) != 1]
    ax.scatter([panel.middles[row] for row in several], several, marker="|", s=70, color=INK, linewidths=1.3, zorder=4)
    for row, word in enumerate(words):
        if word:
            ax.text(0.01, row, word, transform=ax.get_yaxis_transform(), va="center", fontsize=7.5, color=GREY,
                    style="italic")  # fmt: skip
    if panel.limits is not None:
        ax.set_xlim(*panel.limits)
