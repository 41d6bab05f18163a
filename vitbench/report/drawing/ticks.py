"""Ticks: numbers along an axis that are written alike, and epochs whose last is among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import Formatter

FEW_EPOCHS = 6
"""Epochs each of which has a tick."""
CROWDED = 0.6
"""Share of the distance of two ticks: one that is nearer to the last epoch gives way to it."""


class Plain(Formatter):
    """Numbers with a comma between thousands, all of an axis with as many decimals as one of them needs."""

    def __init__(self) -> None:
        self._decimals = 0

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """The numbers of all ticks of an axis."""
        self._decimals = max((_decimals(float(value)) for value in values), default=0)
        return super().format_ticks(list(values))

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The number of one of them."""
        return f"{x:,.{max(self._decimals, _decimals(x))}f}"


def _decimals(value: float) -> int:
    """How many decimals a number has, as far as they are no rounding error."""
    return len(np.format_float_positional(float(f"{value:.10g}"), trim="-").partition(".")[2])


def epochs(last: int, most: int) -> list[int]:
    """Epochs to have a tick: every one of a few, else about so many round ones, and always the last.

    Args:
        last: the last epoch that is drawn, from 1.
        most: ticks that there is room for.
    """
    if last <= FEW_EPOCHS:
        return list(range(1, last + 1))
    step = next(s * 10**power for power in range(9) for s in (1, 2, 5) if s * 10**power * most >= last)
    return [*(epoch for epoch in range(step, last, step) if last - epoch >= CROWDED * step), last]
