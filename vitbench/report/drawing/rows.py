"""Drawing of rows: dots or spreads by row, a panel for each quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitbench.report.drawing.names import POINTS_PER_INCH, above_rows, in_two, labels_of, wrapped
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
from vitbench.report.drawing.stacks import lanes
from vitbench.report.drawing.ticks import Plain
from vitbench.report.pictures.marks import is_many, limits
from vitbench.report.pictures.row_charts import Rows

EDGE = 0.35
"""Inches beside the panels of a narrow picture: of its last number's half, and of air."""
MOST_STACKED = 16
"""Rows up to which the panels of a narrow picture stand one below the other; of more they share the names."""
MARKS_INCHES = 0.16
"""Of a row, beneath its name."""
LABEL_POINTS = 9.0
POINT_AREA, RIM = 16.0, 0.4
"""Of a point, in square points, and of the line around it, in points."""
POINT_INCHES = (math.sqrt(POINT_AREA) + RIM) / POINTS_PER_INCH
"""How wide a point is."""
APART = 0.8
"""Of a point's width: points this far from each other are seen as two."""
TALLEST_INCHES, ALL_TALLER_INCHES = 0.45, 5.0
"""Up to which a row grows with the points that stand one above the other in it, and all rows together."""


@dataclass(frozen=True)
class _Sheet:
    """Where the rows of a figure are.

    Attributes:
        figure: the figure.
        axes: a panel for each quantity.
        row: inches of a row, with its name where that stands above it.
        marks: inches of it that its marks have.
        lanes: for each panel and row the line on which each point stands, see :func:`stacks.lanes`.
    """

    figure: Figure
    axes: Sequence[Axes]
    row: float
    marks: float
    lanes: Sequence[Sequence[npt.NDArray[np.float64]]]


def figure(chart: Rows, *, narrow: bool = False) -> Figure:
    """The figure; its height grows with the rows. A narrow one has each row's name above it."""
    chosen = colours_of(chart.colouring)
    shades = [chosen.get(value, single()) for value in chart.values]
    sheet = _narrow(chart) if narrow else _wide(chart)
    for number in range(len(chart.panels)):
        _fill(sheet, chart, number, shades)
    legend(sheet.figure, chart.colouring)
    return sheet.figure


def _wide(chart: Rows) -> _Sheet:
    labels, count = labels_of(chart.names, WIDEST), len(chart.panels)
    room = 1.2 + 0.062 * max(map(len, labels), default=1)
    width = min(WIDEST, room + (5.0 if count == 1 else 2.6 * count))
    standing = _standing(chart, (width - room) / count)
    row = _tall(standing, ROW_INCHES)
    height = 0.75 + legend_inches(chart.colouring, width) + max(row * len(labels), 3 * ROW_INCHES)
    made = Figure(figsize=(width, height), layout="constrained")
    axes = [*made.subplots(1, count, squeeze=False)[0]]
    for ax, panel in zip(axes, chart.panels, strict=True):
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_yticks(range(len(labels)) if ax is axes[0] else [], labels if ax is axes[0] else [])
        ax.set_xlabel(in_two(panel.label, (width - room) / count, LABEL_POINTS))
        ax.xaxis.set_major_locator(MaxNLocator(5 if width < WIDEST else 3, steps=[1, 2, 2.5, 5, 10]))
    return _Sheet(made, axes, row, row, standing)


def _narrow(chart: Rows) -> _Sheet:
    (labels, named), count = wrapped(chart.names, NARROW - EDGE), len(chart.panels)
    stacked = len(labels) <= MOST_STACKED
    shape = (count, 1) if stacked else (1, count)
    standing = _standing(chart, (NARROW - EDGE) / shape[1])
    marks = _tall(standing, MARKS_INCHES)
    row = named + marks
    tall = row * (max(len(labels), 2) + 0.5)
    height = legend_inches(chart.colouring, NARROW) + (0.1 if stacked else 0.25) + (tall + 0.5) * shape[0]
    made = Figure(figsize=(NARROW, height), layout="constrained")
    axes = [*made.subplots(*shape, squeeze=False).ravel()]
    for ax, panel in zip(axes, chart.panels, strict=True):
        ax.set_ylim(len(labels) - 0.6, -0.9)
        ax.set_yticks([])
        if stacked or ax is axes[0]:
            above_rows(ax, labels, (marks / 2 + named / 2 - 0.02) / row)
        ax.set_xlabel(in_two(panel.label, (NARROW - EDGE) / shape[1], LABEL_POINTS))
        ax.xaxis.set_major_locator(MaxNLocator({1: 5, 2: 3}.get(shape[1], 2), steps=[1, 2, 2.5, 5, 10]))
    if not stacked:  # the names of the first reach into the others, whose lines are not to cross their letters
        axes[0].set_zorder(1)
        axes[0].patch.set_visible(False)
        for ax in axes[1:]:
            ax.spines["left"].set_visible(False)
    return _Sheet(made, axes, row, marks, standing)


def _standing(chart: Rows, wide: float) -> list[list[npt.NDArray[np.float64]]]:
    """For each panel and row the lines of its points, the panels so many inches wide."""
    found = []
    for panel in chart.panels:
        ends = panel.limits or limits(np.concatenate([np.zeros(0), *panel.points])) or (0.0, 1.0)
        apart = APART * POINT_INCHES * (ends[1] - ends[0]) / wide
        found.append([lanes([] if is_many(values) else values, apart) for values in panel.points])
    return found


def _tall(standing: Sequence[Sequence[npt.NDArray[np.float64]]], least: float) -> float:
    """Inches of the marks of each row: as many as the tallest stack takes, as far as there is room."""
    rows = max(map(len, standing), default=0)
    highest = [float(of_row.max()) for of_panel in standing for of_row in of_panel if len(of_row)]
    wanted = (2.0 * max(highest, default=0.0) + 2.0) * POINT_INCHES
    return max(least, min(wanted, TALLEST_INCHES, ALL_TALLER_INCHES / max(rows, 1)))


def _fill(sheet: _Sheet, chart: Rows, number: int, shades: Sequence[Colour]) -> None:
    """Draw a panel."""
    ax, panel, words, standing = sheet.axes[number], chart.panels[number], chart.words, sheet.lanes[number]
    guide(ax, "x")
    ax.hlines(range(len(words)), 0, 1, transform=ax.get_yaxis_transform(), color=RULE, linewidth=0.8, zorder=0)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter(Plain())
    for row, ends in enumerate(panel.spans):
        half = 0.32 if is_many(panel.points[row]) else 0.22  # to be seen behind points and behind a bar
        interval(ax, row, ends, shades[row], half * ROW_INCHES / sheet.row)
    few = [row for row, values in enumerate(panel.points) if len(values) and not is_many(values)]
    if few:
        x = np.concatenate([np.asarray(panel.points[row], dtype=np.float64) for row in few])
        y = np.concatenate([row - _offsets(standing[row], sheet) for row in few])
        colours = [shades[row] for row in few for _ in panel.points[row]]
        ax.scatter(x, y, s=POINT_AREA, c=colours, linewidths=RIM, edgecolors="white", zorder=3)
    many = [row for row, values in enumerate(panel.points) if is_many(values)]
    spreads(ax, many, [panel.points[row] for row in many], [shades[row] for row in many], width=4)
    several = [row for row, values in enumerate(panel.points) if len(values) != 1]  # one value is its own middle
    ax.scatter([panel.middles[row] for row in several], several, marker="|", s=70, color=INK, linewidths=1.3, zorder=4)
    for row, word in enumerate(words):
        if word:
            ax.text(0.01, row, word, transform=ax.get_yaxis_transform(), va="center", fontsize=7.5, color=GREY,
                    style="italic")  # fmt: skip
    if panel.limits is not None:
        ax.set_xlim(*panel.limits)


def _offsets(lines: npt.NDArray[np.float64], sheet: _Sheet) -> npt.NDArray[np.float64]:
    """How far above its row each point stands, in rows: a point's width from line to line, less where there is less."""
    most = 2 * float(lines.max())
    step = min(POINT_INCHES, (sheet.marks - 2 * POINT_INCHES) / most) if most else 0.0
    return lines * step / sheet.row
