"""Drawing of numbers as colours: matrices, grids of maps; and of waves."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from vitbench.report.drawing.parts import INK, shorten, single
from vitbench.report.pixel_charts import Heat, Nested, Numbers, Waves

WIDTH = 4.3
"""Inches: of a phone."""
MOST_NAMED, MOST_WRITTEN = 30, 12
"""Rows that have a name beside them, and whose numbers are written; of more the letters would touch."""
SEQUENTIAL, DIVERGING = "viridis", "PuOr"
"""Colour maps that the colour-blind can read, too; the second is white in the middle."""


def matrix(chart: Heat) -> Figure:
    """A matrix, its first row at the top."""
    rows, columns = chart.values.shape
    names = [shorten(name, 14) for name in chart.names]
    room = 0.075 * max(map(len, names), default=3) + 0.5
    square = chart.shares
    tall = (WIDTH - room) * (rows / columns if square else min(1.2, max(0.35, rows / columns)))
    made = Figure(figsize=(WIDTH, tall + (room if square else 0.5) + 0.65), layout="constrained")
    ax = made.subplots()
    values = chart.values.astype(np.float64)
    if chart.shares:
        values = 100.0 * values / np.maximum(values.sum(axis=1, keepdims=True), 1.0)
    most = float(np.abs(values).max()) or 1.0
    low, high = (-most, most) if chart.centred else (0.0, 100.0 if chart.shares else most)
    shown = ax.imshow(values, aspect="auto", interpolation="none", vmin=low, vmax=high,
                      cmap=DIVERGING if chart.centred else SEQUENTIAL)  # fmt: skip
    _named(ax, names)
    ax.set_ylabel(chart.row)
    ax.set_xlabel(chart.column)
    if chart.shares and rows <= MOST_WRITTEN:
        for row, column in np.ndindex(rows, columns):
            ax.text(column, row, f"{chart.values[row, column]:,}", ha="center", va="center", fontsize=6.5,
                    color="white" if values[row, column] < 60 else "black")  # fmt: skip
    _bar(made, ax, shown, chart.label)
    return made


def nested(chart: Nested) -> Figure:
    """A grid of maps with white between them."""
    rows, columns = chart.grid
    whole = spread(chart.values, chart.grid)
    tall = WIDTH * min(2.0, whole.shape[0] / whole.shape[1])
    made = Figure(figsize=(WIDTH, tall + 0.75), layout="constrained")
    ax = made.subplots()
    shown = ax.imshow(whole, aspect="auto", interpolation="none", vmin=-1, vmax=1, cmap=DIVERGING)
    for axis, count, of in ((ax.xaxis, columns, columns), (ax.yaxis, rows, rows)):
        step = -(-count // 8)
        places = np.arange(0, count, step)
        axis.set_major_locator(FixedLocator(list(places * (of + 1) + (of - 1) / 2)))
        axis.set_ticklabels([str(place + 1) for place in places])
        axis.set_tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("column of the patch")
    ax.set_ylabel("row of the patch")
    _bar(made, ax, shown, chart.label)
    return made


def spread(values: Numbers, grid: tuple[int, int]) -> Numbers:
    """(P, P) → a grid of maps, with what is no number between them."""
    rows, columns = grid
    maps = values.reshape(rows, columns, rows, columns)
    apart = np.full((rows, columns, rows + 1, columns + 1), np.nan)
    apart[:, :, :rows, :columns] = maps
    whole: Numbers = apart.transpose(0, 2, 1, 3).reshape(rows * (rows + 1), columns * (columns + 1))
    return whole[:-1, :-1]


def waves(chart: Waves) -> Figure:
    """A panel for each function."""
    count = len(chart.names)
    made = Figure(figsize=(WIDTH, 0.55 + 0.42 * count), layout="constrained")
    panels = made.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for ax, name, values in zip(panels, chart.names, chart.values, strict=True):
        ax.axhline(0, color="0.9", linewidth=0.8)
        ax.plot(values, color=single(), linewidth=1.3)
        ax.set_ylim(-1.15, 1.15)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylabel(shorten(name, 20), rotation=0, ha="right", va="center", fontsize=7.5)
        ax.tick_params(axis="x", length=2)
    panels[-1].xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panels[-1].set_xlabel(chart.axis)
    return made


def _named(ax: Axes, names: list[str]) -> None:
    if not names or len(names) > MOST_NAMED:
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
