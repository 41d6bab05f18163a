"""Pareto fronts: the cells that no other cell surpasses in both cost and accuracy, and how certain that is.

A cost is known as well as it is measured. Which of two is less is taken as shown where it is less in each of the
repetitions that both have (seeds ran one after another, and a slow hour slows all of a seed's cells alike), or, of
estimates with intervals, where the intervals lie apart. What each gives is taken as it is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

YES, PERHAPS, NO = "yes", "perhaps", "no"
"""On the front, or not, whichever of the costs that are not told apart is less; or perhaps."""
LEAST_SHARED = 2  # Repetitions that two must share: in a single one, one of them is always less


@dataclass(frozen=True)
class CostSamples:
    """Costs of several things, less being better."""

    low: Floats  # (C,), the lower ends of their intervals
    high: Floats  # (C,), the upper ends. An interval whose ends are NaN counts as unknown
    # (C, R), the cost in each repetition, not a number where there is none; None where intervals tell
    repeated: Floats | None = None

    def less(self, one: int, *, or_equal: bool = False) -> Flags:
        """(C,), which of them are shown to cost less than one of them, or no more than it."""
        return self._holds(np.less_equal if or_equal else np.less, self.high, self.low, one)

    def more(self, one: int, *, or_equal: bool = False) -> Flags:
        """(C,), which of them are shown to cost more than one of them, or no less than it."""
        return self._holds(np.greater_equal if or_equal else np.greater, self.low, self.high, one)

    def _holds(self, compare: np.ufunc, ends: Floats, opposite: Floats, one: int) -> Flags:
        """(C,), which of them compare so with one of them: in each repetition of both, or by the intervals' ends."""
        if self.repeated is None:
            return np.asarray(compare(ends, opposite[one]))
        shared = np.isfinite(self.repeated) & np.isfinite(self.repeated[one])
        in_each = (compare(self.repeated, self.repeated[one]) | ~shared).all(axis=1)
        return np.asarray((shared.sum(axis=1) >= LEAST_SHARED) & in_each)


def unsurpassed(cost: Mapping[str, float], gain: Mapping[str, float], *, cheap: bool) -> list[str]:
    """Cells than which none gives more for no greater cost, or as much for less; the cheapest first.

    Args:
        cost: cell → its cost, or its rate.
        gain: cell → what it gives; more is better.
        cheap: whether less of ``cost`` is better, or more.
    """
    sign = 1.0 if cheap else -1.0
    order = sorted(cost, key=lambda cell: (sign * cost[cell], -gain[cell]))
    best, reached = [], -math.inf
    for cell in order:
        if gain[cell] > reached:
            best.append(cell)
            reached = gain[cell]
    return best


def standings(cost: CostSamples, gain: Floats) -> list[str]:
    """For each thing whether it is on the front: :data:`YES`, :data:`PERHAPS` or :data:`NO`.

    Yes, where all that give as much are shown to cost more. No, where one that gives more is shown to cost no more, or
    one that gives as much to cost less. Of two of the same gain and cost neither surpasses the other.

    Args:
        cost: of C things.
        gain: (C,), what they give; more is better.
    """
    words = []
    for one, its_gain in enumerate(gain):
        rivals = (np.arange(len(gain)) != one) & (gain >= its_gain)
        equal = rivals & (gain == its_gain)
        surpassing = rivals & cost.less(one) | (rivals & ~equal & cost.less(one, or_equal=True))
        beaten = rivals & cost.more(one) | (equal & cost.more(one, or_equal=True))
        words.append(NO if surpassing.any() else YES if (beaten | ~rivals).all() else PERHAPS)
    return words


def distinguishable(cost: CostSamples) -> bool:
    """Whether of any two of the things one is shown to cost less."""
    return any(cost.less(one).any() for one in range(len(cost.low)))


def known(cost: CostSamples) -> bool:
    """Whether anything tells how far the costs can be relied on."""
    if cost.repeated is None:
        return bool(np.isfinite(cost.low).any())
    return bool((np.isfinite(cost.repeated).sum(axis=1) >= LEAST_SHARED).any())
