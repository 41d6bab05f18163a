"""Drawing of numbers as colours: matrices, grids of maps; and of waves."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from vitbench.report.drawing.names import inches, labels_of
from vitbench.report.drawing.parts import INK, single
from vitbench.report.pictures.colours import ON_PIXELS, RULE
from vitbench.report.pictures.pixel_charts import Heat, Nested, Numbers, Waves

WIDTH = 3.6
"""Inches: of a phone."""
NAME_POINTS, COUNT_POINTS, WAVE_POINTS = 8.0, 6.6, 7.5
"""Letters of names beside a matrix, of numbers in it, and of names beside waves."""
LONGEST_NAME, LONGEST_WAVE = 14, 20
"""Letters of such names."""
LINE, BESIDE = 0.135, 0.55
"""Inches: of a line of names, the least that a row or column takes to have one; of what else stands beside a matrix."""
FLATTEST, TALLEST = 0.25, 2.0
"""Height of a grid of maps over its width."""
MOST_TICKS = 8
"""Numbers along an axis of maps."""
BRIGHT = 45
"""Per cent from which dark numbers are read better on their colour than light ones."""
SEQUENTIAL, DIVERGING = "viridis", "PuOr"
"""Colour maps that the colour-blind can read, too; the second is white in the middle."""


def matrix(chart: Heat) -> Figure:
    """A matrix, its first row at the top."""
    rows, columns = chart.values.shape
    names = labels_of(chart.names, WIDTH, NAME_POINTS, LONGEST_NAME)
    longest = max((inches(name, NAME_POINTS) for name in names), default=0.25)
    room = longest + BESIDE
    cell = (WIDTH - room) / columns
    if cell < LINE:
        names = []  # they would touch
    tall = (WIDTH - room) * (rows / columns if chart.shares else min(1.2, max(0.35, rows / columns)))
    made = Figure(figsize=(WIDTH, tall + (room if chart.shares else 0.5) + 0.65), layout="constrained")
    ax = made.subplots()
    values = chart.values.astype(np.float64)
    if chart.shares:
        values = 100.0 * values / np.maximum(values.sum(axis=1, keepdims=True), 1.0)
    most = float(np.abs(values).max()) or 1.0
    low, high = (-most, most) if chart.centred else (0.0, 100.0 if chart.shares else most)
    shown = ax.imshow(values, aspect="auto", interpolation="none", vmin=low, vmax=high,
                      cmap=DIVERGING if chart.centred else SEQUENTIAL)  # fmt: skip
    _named(ax, names)
    numbered = " (number)" if chart.names and not names else ""
    ax.set_ylabel(f"{chart.row}{numbered}")
    ax.set_xlabel(f"{chart.column}{numbered}")
    if chart.shares and cell >= LINE and _widest(chart.values) <= cell:
        for row, column in np.ndindex(rows, columns):
            ax.text(column, row, f"{chart.values[row, column]:,}", ha="center", va="center", fontsize=COUNT_POINTS,
                    color=ON_PIXELS[int(values[row, column] >= BRIGHT)])  # fmt: skip
    _bar(made, ax, shown, chart.label)
    return made


def _widest(counts: Numbers) -> float:
    """Inches of the longest number, with air beside it."""
    return inches(f"{int(counts.max()):,}", COUNT_POINTS) + 0.04


def nested(chart: Nested) -> Figure:
    """A grid of maps with the paper between them."""
    whole = spread(chart)
    tall = WIDTH * min(TALLEST, max(FLATTEST, whole.shape[0] / whole.shape[1]))
    made = Figure(figsize=(WIDTH, tall + 0.75), layout="constrained")
    ax = made.subplots()
    shown = ax.imshow(whole, aspect="auto", interpolation="none", vmin=-1, vmax=1, cmap=DIVERGING)
    for axis, numbers, of in ((ax.xaxis, chart.columns, chart.grid[1]), (ax.yaxis, chart.rows, chart.grid[0])):
        step = -(-len(numbers) // MOST_TICKS)
        axis.set_major_locator(FixedLocator([n * (of + 1) + (of - 1) / 2 for n in range(0, len(numbers), step)]))
        axis.set_ticklabels([str(number + 1) for number in numbers[::step]])
        axis.set_tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("column of the patch")
    ax.set_ylabel("row of the patch")
    _bar(made, ax, shown, chart.label)
    return made


def spread(chart: Nested) -> Numbers:
    """The maps, each at its place, with what is no number between them."""
    (rows, columns), down, across = chart.grid, len(chart.rows), len(chart.columns)
    apart = np.full((down, across, rows + 1, columns + 1), np.nan)
    apart[:, :, :rows, :columns] = chart.values.reshape(down, across, rows, columns)
    whole: Numbers = apart.transpose(0, 2, 1, 3).reshape(down * (rows + 1), across * (columns + 1))
    return whole[:-1, :-1]


def waves(chart: Waves) -> Figure:
    """A panel for each function."""
    count = len(chart.names)
    made = Figure(figsize=(WIDTH, 0.55 + 0.42 * count), layout="constrained")
    panels = made.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    names = labels_of(chart.names, WIDTH, WAVE_POINTS, LONGEST_WAVE)
    for ax, name, values in zip(panels, names, chart.values, strict=True):
        ax.axhline(0, color=RULE, linewidth=0.8)
        ax.plot(values, color=single(), linewidth=1.3)
        ax.set_ylim(-1.15, 1.15)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=WAVE_POINTS)
        ax.tick_params(axis="x", length=2)
    panels[-1].xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panels[-1].set_xlabel(chart.axis)
    return made


def _named(ax: Axes, names: list[str]) -> None:
    if not names:
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        return
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)


def _bar(made: Figure, ax: Axes, shown: mpl.cm.ScalarMappable, label: str) -> None:
    bar = made.colorbar(shown, ax=ax, orientation="horizontal", location="top", fraction=0.06, aspect=30, pad=0.02)
    bar.set_label(label, fontsize=8.5, color=INK, loc="left")
    bar.ax.tick_params(labelsize=7.5, length=2)
    bar.outline.set_visible(False)
