"""Plane charts: what a picture shows along two axes of numbers, as data.

See :mod:`vitbench.report.pictures.charts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vitbench.report.pictures.marks import Colouring

MOST_DASHED = 8
"""Colours whose lines each have dashes of their own."""


@dataclass(frozen=True)
class Bundle:
    """Curves of one colour in one panel, each of them (epochs, 2): epoch and value.

    Attributes:
        runs: single runs, not necessarily all.
        mean: over all runs; None where there is one run, or where the mean would be of unlike cells.
    """

    runs: Sequence[npt.NDArray[np.float64]]
    mean: npt.NDArray[np.float64] | None


@dataclass(frozen=True)
class Curves:
    """Learning curves: a row of panels for each metric, a column for each value of an axis.

    Attributes:
        metrics: labels of the rows, with units.
        facet_axis: name of the axis whose values have a column each; empty for a single column, and for columns whose
            names say it.
        facets: its values.
        panels: (metric, facet) → value of ``colouring`` → its curves.
        colouring: what the colours stand for.
    """

    metrics: Sequence[str]
    facet_axis: str
    facets: Sequence[str]
    panels: Mapping[tuple[str, str], Mapping[str, Bundle]]
    colouring: Colouring

    def epochs(self, metric: str | None = None) -> set[float]:
        """The epochs that are drawn, of a metric or of all. A mean has those of all its runs."""
        bundles = [b for (of, _), panel in self.panels.items() if metric in (None, of) for b in panel.values()]
        curves = [curve for b in bundles for curve in ([b.mean] if b.mean is not None else b.runs)]
        return {float(epoch) for curve in curves for epoch in curve[:, 0]}

    @property
    def dashed(self) -> bool:
        """Whether the line of each colour has dashes of its own. Of one epoch there are no lines, but points."""
        return 1 < len(self.colouring.values) <= MOST_DASHED and len(self.epochs()) > 1


@dataclass(frozen=True)
class Trends:
    """A measured quantity along an axis of numbers.

    Attributes:
        axis: its name.
        label: of the quantity, with the unit.
        numbers: of the axis, in ascending order.
        lines: value of ``colouring`` → (number, what each run measured there), the numbers in ascending order.
        colouring: what the colours stand for.
        logarithmic: whether the axis is.
        from_zero: whether the quantity begins at 0.
        levels: (name, value) of lines across, by which the quantity is judged.
    """

    axis: str
    label: str
    numbers: Sequence[float]
    lines: Mapping[str, Sequence[tuple[float, Sequence[float]]]]
    colouring: Colouring
    logarithmic: bool
    from_zero: bool = False
    levels: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Point:
    """One timing: operations per byte, operations per second, and the words that choose its mark and its colour."""

    intensity: float
    flops_per_s: float
    setting: str
    value: str


@dataclass(frozen=True)
class Roofline:
    """Two ceilings and the points under them.

    Attributes:
        flops_per_s: the level ceiling, the smallest and the largest that was measured.
        bytes_per_s: the sloping one, the same.
        colouring: what the colours stand for.
        points: the timings.
    """

    flops_per_s: tuple[float, float]
    bytes_per_s: tuple[float, float]
    colouring: Colouring
    points: Sequence[Point]


@dataclass(frozen=True)
class Spot:
    """One cell between what it costs and what it gives.

    Attributes:
        cost: along the x axis.
        low: where a bar through it begins, along the x axis; not a number for none.
        high: where that ends.
        gain: along the y axis.
        spread: half the length of a bar through it, along the y axis; not a number for none.
        value: of the colouring.
        letter: by which a table names it; empty for none.
        name: of the cell.
        best: whether it is on the line.
        marked: whether its cost is not to be relied on.
        standing: whether it is on the front, in a word; empty where it is not judged.
    """

    cost: float
    low: float
    high: float
    gain: float
    spread: float
    value: str
    letter: str
    name: str
    best: bool
    marked: bool = False
    standing: str = ""


@dataclass(frozen=True)
class Front:
    """Cells between cost and gain, and the line of those that no other surpasses in both.

    Attributes:
        cost: label of the x axis, with the unit.
        gain: label of the y axis, with the unit.
        cheap: whether less of the cost's quantity is better (memory), or more (throughput).
        spots: the cells.
        colouring: what the colours stand for.
        logarithmic: whether the x axis is.
    """

    cost: str
    gain: str
    cheap: bool
    spots: Sequence[Spot]
    colouring: Colouring
    logarithmic: bool
