"""Stacks: points of a row that would hide one another stand one above the other, each at its own value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vitbench.report.pictures.marks import Values


def lanes(values: Values, apart: float) -> npt.NDArray[np.float64]:
    """For each point the line on which it stands: 0 is the row's middle, above it are +1, +2, …, below it -1, -2, ….

    A point by itself is on the middle line. Of points that touch, those that are next to one another stand on different
    lines, in as few as it takes; lines of an even number are halves: -0.5, +0.5.

    Args:
        values: of the points, in any order.
        apart: difference of two values from which their points do not hide each other.
    """
    found = np.zeros(len(values))
    together: list[int] = []
    last: list[float] = []  # the rightmost value on each line of the points that touch
    for place in np.argsort(values, kind="stable"):
        value = float(values[place])
        if last and value - max(last) >= apart:
            found[together] = _about_the_middle(found[together], len(last))
            together, last = [], []
        line = next((n for n, end in enumerate(last) if value - end >= apart), len(last))
        last[line : line + 1] = [value]
        found[place] = line
        together.append(int(place))
    found[together] = _about_the_middle(found[together], len(last))
    return found


def _about_the_middle(numbers: npt.NDArray[np.float64], lines: int) -> npt.NDArray[np.float64]:
    """Lines numbered from 0 as they stand: the first in the middle, the next above it, below it, above these, …"""
    out = np.ceil(numbers / 2) * np.where(numbers % 2 == 1, 1.0, -1.0)
    return out - (0.5 if lines % 2 == 0 else 0.0)
