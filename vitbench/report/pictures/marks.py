"""Marks: what the charts of a report share: what colours stand for, how many values are points, where axes end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = Sequence[float] | npt.NDArray[np.float64]

MOST_POINTS = 60
"""Values of one row that are drawn as points. A point is 6 of the some 300 pixels over which a row's values lie: more
of them hide one another, and 500 look like 100."""
MOST_BLOCKS = 4 * MOST_POINTS
"""The same for rows of matched blocks, whose points are smaller and lie at different heights."""


@dataclass(frozen=True)
class Colouring:
    """What the colours stand for.

    Attributes:
        title: of the legend, e.g. an axis of the suite; may be empty.
        values: each has a colour, in this order; empty where everything has the same colour and no legend is drawn.
        shown: those that the legend names.
        others: a value that is grey, and the last in the legend; empty for none.
    """

    title: str = ""
    values: Sequence[str] = ()
    shown: Sequence[str] = ()
    others: str = ""


PLAIN = Colouring()
"""Everything has the same colour."""


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
