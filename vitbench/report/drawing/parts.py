"""Parts of pictures: colours, legends, names that fit, and rows of so many values that their spread is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path

from vitbench.report.charts import Colouring, Values

Colour = tuple[float, float, float]

ROW_INCHES = 0.185
GREY: Colour = (0.55, 0.55, 0.55)
INK: Colour = (0.1, 0.1, 0.1)
PALETTE = ("#0173B2", "#DE8F05", "#029E73", "#D55E00", "#CC78BC", "#CA9161", "#FBAFE4", "#949494")
"""Colours that the colour-blind tell apart, too. Source: the palette "colorblind" of seaborn, after Wong 2011, "Points
of view: Color blindness"."""
POINTS_PER_INCH = 72
LEGEND_POINTS = 8.0
BESIDE = 4.0
"""What a name in a legend has beside it, mark and air, in sizes of its letters."""
EDGE = 0.3
"""Inches of a legend's frame."""
MOST_NAMED = 12
"""Values in a legend; of more, evenly chosen ones."""


def colours(values: Sequence[str]) -> dict[str, Colour]:
    """Value → its colour; of more values than the palette has colours, shades from dark to light."""
    if len(values) <= len(PALETTE):
        return {value: to_rgb(colour) for value, colour in zip(values, PALETTE, strict=False)}
    shades = mpl.colormaps["viridis"](np.linspace(0, 1, len(values) + 2)[1:-1])
    return {value: (float(r), float(g), float(b)) for value, (r, g, b, _) in zip(values, shades, strict=True)}


def colours_of(colouring: Colouring) -> dict[str, Colour]:
    """Value → its colour, the others' last."""
    return {**colours(colouring.values), **({colouring.others: GREY} if colouring.others else {})}


def single() -> Colour:
    """The colour where there is but one."""
    return colours([""])[""]


def shorten(text: str, width: int = 60) -> str:
    """A name in at most so many characters: its middle gives way to an ellipsis. Control characters become spaces."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) <= width:
        return line
    head = math.ceil((width - 1) * 0.6)
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def legend(figure: Figure, colouring: Colouring) -> None:
    """A legend above the panels; none where no value is to be named."""
    if not colouring.shown:
        return
    chosen = colours_of(colouring)
    names = [*colouring.shown, *([colouring.others] if colouring.others else [])]
    if len(names) > MOST_NAMED:
        names = [names[round(i * (len(names) - 1) / (MOST_NAMED - 1))] for i in range(MOST_NAMED)]
    marks = [Line2D([], [], color=chosen[n], marker="o", linestyle="none", markersize=5) for n in names]
    labels = [shorten(n, 30) for n in names]
    width = max(inches(label, LEGEND_POINTS) for label in labels) + BESIDE * LEGEND_POINTS / POINTS_PER_INCH
    columns = max(1, min(len(names), int((figure.get_figwidth() - EDGE) / width)))
    figure.legend(marks, labels, title=shorten(colouring.title, 60), loc="outside upper center", ncols=columns,
                  handletextpad=0.2, columnspacing=1.2)  # fmt: skip


def inches(text: str, points: float) -> float:
    """How long a text is in the font of pictures, at a size."""
    return float(
        text_to_path.get_text_width_height_descent(text, FontProperties(size=points), ismath=False)[0] / POINTS_PER_INCH
    )


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
