"""Parts of pictures: colours, legends, and rows of so many values that their spread is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from vitbench.report.drawing.names import POINTS_PER_INCH, inches, labels_of
from vitbench.report.pictures.colours import GREY, INK, PALETTE, RULE, scale
from vitbench.report.pictures.marks import Colouring, Values

__all__ = ["GREY", "INK", "RULE"]

Colour = str
Dash = Literal["solid"] | tuple[int, tuple[float, ...]]
"""Of a line, as matplotlib takes it."""

ROW_INCHES = 0.185
WIDEST, NARROW = 10.0, 3.3
"""Inches: what a page has room for beside its contents, with letters of a size to be read, and what a phone has."""
LEGEND_POINTS = 8.0
BESIDE = 4.0
"""What a name in a legend has beside it, mark and air, in sizes of its letters."""
HANDLE = 2.6
"""Length of a line in a legend, in sizes of its letters."""
EDGE = 0.3
"""Inches of a legend's frame."""
LONGEST_NAMED = 3.4
"""Inches of a name in a legend: some 45 letters."""
LEGEND_LINE = 0.165
"""Inches of a line of a legend."""
MOST_NAMED = 12
"""Values in a legend; of more, evenly chosen ones."""


def colours(values: Sequence[str]) -> dict[str, Colour]:
    """Value → its colour; of more values than the palette has colours, shades from dark to light."""
    return dict(zip(values, PALETTE if len(values) <= len(PALETTE) else scale(len(values)), strict=False))


def colours_of(colouring: Colouring) -> dict[str, Colour]:
    """Value → its colour, the others' last."""
    return {**colours(colouring.values), **({colouring.others: GREY} if colouring.others else {})}


def single() -> Colour:
    """The colour where there is but one."""
    return PALETTE[0]


def legend_inches(colouring: Colouring, width: float, *, lines: bool = False) -> float:
    """Height of the legend above a figure of this width; 0 where there is none.

    Args:
        colouring: what the colours stand for.
        width: of the figure, inches.
        lines: whether it shows lines, and not dots.
    """
    if not colouring.shown:
        return 0.0
    names, columns = _named(colouring, width, lines=lines)
    return LEGEND_LINE * (math.ceil(len(names) / columns) + bool(colouring.title)) + 0.1


def legend(figure: Figure, colouring: Colouring, dashes: Sequence[Dash] = ()) -> None:
    """A legend above the panels; none where no value is to be named.

    Args:
        figure: with its width.
        colouring: what the colours stand for.
        dashes: of the lines of its values, in their order; empty where these are dots.
    """
    if not colouring.shown:
        return
    chosen = colours_of(colouring)
    dash_of: dict[str, Dash] = dict.fromkeys(chosen, "solid") if dashes else {}
    dash_of.update(zip(colouring.values, dashes, strict=False))
    named, columns = _named(colouring, figure.get_figwidth(), lines=bool(dashes))
    marks = [
        Line2D([], [], color=chosen[n], linewidth=2, linestyle=dash_of[n])
        if n in dash_of
        else Line2D([], [], color=chosen[n], marker="o", linestyle="none", markersize=5)
        for n in named
    ]
    title = labels_of([colouring.title], figure.get_figwidth() - EDGE, LEGEND_POINTS)[0]
    made = figure.legend(marks, [*named.values()], title=title, loc="outside upper left", ncols=columns,
                         alignment="left", handlelength=HANDLE if dashes else 1.2, handletextpad=0.4,
                         columnspacing=1.2)  # fmt: skip
    made.get_title().set_color(GREY)


def _named(colouring: Colouring, width: float, *, lines: bool) -> tuple[dict[str, str], int]:
    """Value → its name in a legend, and in how many columns these stand."""
    names = [*colouring.shown, *([colouring.others] if colouring.others else [])]
    if len(names) > MOST_NAMED:
        names = [names[round(i * (len(names) - 1) / (MOST_NAMED - 1))] for i in range(MOST_NAMED)]
    room = width - EDGE
    beside = (BESIDE + HANDLE * lines) * LEGEND_POINTS / POINTS_PER_INCH
    labels = labels_of(names, min(LONGEST_NAMED, room - beside), LEGEND_POINTS)
    longest = max(inches(label, LEGEND_POINTS) for label in labels) + beside
    return dict(zip(names, labels, strict=True)), max(1, min(len(names), int(room / longest)))


def guide(ax: Axes, axis: Literal["both", "x", "y"] = "both") -> None:
    """Lines behind everything that lead the eye to the axes."""
    ax.grid(which="major", axis=axis, color=RULE, linewidth=0.8)
    ax.set_axisbelow(True)


def interval(ax: Axes, row: float, ends: tuple[float, float], shade: Colour, half: float) -> None:
    """A box from one end to the other, so much above and below its row.

    It is pale, so that points are seen in it, with an edge that is not.
    """
    low, high = ends
    if low <= high:
        ax.add_patch(Rectangle((low, row - half), high - low, 2 * half, facecolor=(shade, 0.15), edgecolor=shade,
                               linewidth=0.9, zorder=2))  # fmt: skip


def spreads(ax: Axes, rows: Sequence[int], values: Sequence[Values], shades: Sequence[Colour], *, width: float) -> None:
    """A line from the lowest to the highest value of each row, a bar of this width from quartile to quartile."""
    if not rows:
        return
    y = np.asarray(rows)
    low, first, third, high = np.array([np.quantile(row, (0, 0.25, 0.75, 1)) for row in values]).T
    ax.hlines(y, low, high, colors=shades, linewidth=width / 4, zorder=3)
    ax.hlines(y, first, third, colors=shades, linewidth=width, zorder=3)
    alike = first == third  # a bar of no length would not be seen, and the row would have no colour
    if alike.any():
        marked = [shade for shade, one in zip(shades, alike, strict=True) if one]
        ax.scatter(first[alike], y[alike], s=width**2, c=marked, linewidths=0, zorder=3)
