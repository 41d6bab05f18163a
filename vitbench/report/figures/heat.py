"""Heat maps: numbers as colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitbench.report.figures.charts import Heat, Nested, Numbers
from vitbench.report.figures.colours import INK, ON_PIXELS
from vitbench.report.figures.parts import NAME_POINTS, TEXT_POINTS, fit, inches

WIDTH = 3.6
"""Inches: two stand side by side in a page."""
LONGEST, ROOM = 14, 1.2
"""Letters and inches of a name beside a matrix."""
LINE = 0.14
"""Inches that a row or column takes at least to have its name."""
COUNT_POINTS = 7.0
FLATTEST, TALLEST = 0.25, 2.0
"""Height of a grid of maps over its width."""
BRIGHT = 45
"""Per cent from which dark numbers are read better on their colour than light ones."""
MOST_TICKS = 8
SEQUENTIAL, DIVERGING = "viridis", "PuOr"
"""Colour maps that the colour-blind can read, too; the second is white in the middle."""


def matrix(chart: Heat) -> Figure:
    """A matrix, its first row at the top."""
    rows, columns = chart.values.shape
    names = fit(chart.names, ROOM, NAME_POINTS, longest=LONGEST)
    beside = max((inches(name, NAME_POINTS) for name in names), default=0.3) + 0.5
    cell = (WIDTH - beside) / columns
    names = names if cell >= LINE else []  # they would touch
    tall = (WIDTH - beside) * (rows / columns if chart.shares else min(1.2, max(0.35, rows / columns)))
    made = Figure(figsize=(WIDTH, tall + (beside if names else 0.5) + 0.65), layout="constrained")
    ax, values = made.subplots(), chart.values.astype(np.float64)
    if chart.shares:
        values = 100.0 * values / np.maximum(values.sum(axis=1, keepdims=True), 1.0)
    top = float(np.abs(values).max()) or 1.0
    low, high = (-top, top) if chart.centred else (0.0, 100.0 if chart.shares else top)
    widest = inches(f"{int(chart.values.max()):,}", COUNT_POINTS) + 0.04 if chart.shares else 0.0
    _heatmap(ax, values, (low, high), chart.label, DIVERGING if chart.centred else SEQUENTIAL)
    if chart.shares and cell >= max(LINE, widest):
        for row, column in np.ndindex(rows, columns):
            ax.text(column + 0.5, row + 0.5, f"{chart.values[row, column]:,}", ha="center", va="center",
                    fontsize=COUNT_POINTS, color=ON_PIXELS[int(values[row, column] >= BRIGHT)])  # fmt: skip
    _ticks(ax.xaxis, names or range(columns), [n + 0.5 for n in range(columns)], most=columns if names else MOST_TICKS)
    _ticks(ax.yaxis, names or range(rows), [n + 0.5 for n in range(rows)], most=rows if names else MOST_TICKS)
    ax.tick_params(axis="x", rotation=90 if names else 0)
    numbered = " (number)" if chart.names and not names else ""
    ax.set(xlabel=f"{chart.column}{numbered}", ylabel=f"{chart.row}{numbered}")
    return made


def nested(chart: Nested) -> Figure:
    """A grid of maps with the paper between them."""
    (rows, columns), down, across = chart.grid, len(chart.rows), len(chart.columns)
    apart = np.full((down, across, rows + 1, columns + 1), np.nan)
    apart[:, :, :rows, :columns] = chart.values.reshape(down, across, rows, columns)
    whole = apart.transpose(0, 2, 1, 3).reshape(down * (rows + 1), across * (columns + 1))[:-1, :-1]
    tall = WIDTH * min(TALLEST, max(FLATTEST, whole.shape[0] / whole.shape[1]))
    made = Figure(figsize=(WIDTH, tall + 0.75), layout="constrained")
    ax = made.subplots()
    _heatmap(ax, whole, (-1.0, 1.0), chart.label, DIVERGING)
    for axis, numbers, of in ((ax.xaxis, chart.columns, columns), (ax.yaxis, chart.rows, rows)):
        _ticks(axis, [n + 1 for n in numbers], [n * (of + 1) + of / 2 for n in range(len(numbers))])
    ax.set(xlabel="column of the patch", ylabel="row of the patch")
    return made


def _heatmap(ax: Axes, values: Numbers, ends: tuple[float, float], label: str, colours: str) -> None:
    """A rectangle for each value, as pixels: shapes would be a million."""
    bar = {"orientation": "horizontal", "location": "top", "fraction": 0.06, "aspect": 30, "pad": 0.02}
    sns.heatmap(values, vmin=ends[0], vmax=ends[1], cmap=colours, mask=np.isnan(values), cbar_kws=bar, rasterized=True,
                xticklabels=False, yticklabels=False, ax=ax)  # fmt: skip
    scale = ax.collections[0].colorbar
    assert scale is not None and scale.solids is not None
    scale.set_label(label, fontsize=TEXT_POINTS, color=INK, loc="left")
    scale.locator = MaxNLocator(4)
    scale.update_ticks()
    scale.solids.set_rasterized(True)


def _ticks(axis: Axis, names: Sequence[object], places: Sequence[float], most: int = MOST_TICKS) -> None:
    step = -(-len(names) // most)
    axis.set_ticks(places[::step], [str(name) for name in names[::step]])
