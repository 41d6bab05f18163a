"""Marks: what charts share: what colours stand for, how many values are points, where axes end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = Sequence[float] | npt.NDArray[np.float64]


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


def limits(values: Values, floor: float | None = None) -> tuple[float, float] | None:
    """Ends of an axis that holds all the values with some air; None where there are none."""
    every = np.asarray(values, dtype=np.float64)
    finite = every[np.isfinite(every)]
    if not finite.size:
        return None
    low, high = (float(finite.min()) if floor is None else floor), float(finite.max())
    air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return (low - air if floor is None else low), high + air
