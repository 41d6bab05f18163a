"""Marks: what charts share: what colours stand for, how many values are points, where axes end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = Sequence[float] | npt.NDArray[np.float64]

MOST_POINTS = 60
"""Values of one row that are drawn as points; more of them hide one another, and a box shows their spread."""
MOST_BLOCKS = 4 * MOST_POINTS
"""Limit for rows of matched blocks, whose points are smaller and at different heights."""


@dataclass(frozen=True)
class Colouring:
    """What the colours stand for.

    Attributes:
        title: of the legend, e.g. an axis of the suite; may be empty.
        values: each has a colour, in this order; empty where everything has one colour and there is no legend.
        shown: those that the legend names.
        others: a value that is grey, and the last in the legend; empty for none.
    """

    title: str = ""
    values: Sequence[str] = ()
    shown: Sequence[str] = ()
    others: str = ""


def is_many(values: Values, most: int = MOST_POINTS) -> bool:
    """Whether a row shows the spread of its values in place of points."""
    return len(values) > most


def limits(values: Values, floor: float | None = None) -> tuple[float, float] | None:
    """Ends of an axis that holds all the values with some air; None where there are none."""
    every = np.asarray(values, dtype=np.float64)
    finite = every[np.isfinite(every)]
    if not finite.size:
        return None
    low, high = (float(finite.min()) if floor is None else floor), float(finite.max())
    air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return (low - air if floor is None else low), high + air


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
        text, pause = point, ","
    elif False not in kinds:
        text, pause = f"{ends} {of}, {bar}", ","
    else:
        text, pause = f"{point}; of more than {most} in a row {ends}, {bar}", ";"
    return f"{text}{pause} {rest}" if rest else text
