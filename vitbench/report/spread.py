"""Spread: rows of so many values that their points would hide one another show their range and quartiles instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.typing import ColorType

Values = Sequence[float] | npt.NDArray[np.float64]

MOST_POINTS = 60
"""Values of one row that are drawn as points. A point is 6 of the some 300 pixels over which a row's values lie: more
of them hide one another, and 500 look like 100."""
MOST_BLOCKS = 4 * MOST_POINTS
"""The same for rows of matched blocks, whose points are smaller and lie at different heights."""


def is_many(values: Values, most: int = MOST_POINTS) -> bool:
    """Whether a row shows the spread of its values in place of points."""
    return len(values) > most


def bars(ax: Axes, rows: Sequence[int], values: Sequence[Values], shades: Sequence[ColorType], *, width: float) -> None:
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


def reading(rows: Iterable[Values], point: str, of: str, rest: str = "", most: int = MOST_POINTS) -> str:
    """How rows of values are to be read.

    Args:
        rows: the values of each row.
        point: what a point is, said where there are points.
        of: of what the spread is, said where no row has points: "of the seeds of a cell".
        rest: of the sentence.
        most: values of a row that are drawn as points.
    """
    kinds = {is_many(values, most) for values in rows if len(values)}
    ends, bar = "a line from the lowest to the highest", "a thick bar from quartile to quartile"
    if True not in kinds:
        said, pause = point, ","
    elif False not in kinds:
        said, pause = f"{ends} {of}, {bar}", ","
    else:
        said, pause = f"{point}; of more than {most} in a row {ends}, {bar}", ";"
    return f"{said}{pause} {rest}" if rest else said
