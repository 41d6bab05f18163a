"""Row charts: what a picture shows whose rows are things with names, as data.

See :mod:`vitbench.report.pictures.charts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vitbench.report.pictures.marks import PLAIN, Colouring, Values


@dataclass(frozen=True)
class Panel:
    """One measured quantity over the rows of a figure.

    Attributes:
        label: of the x axis, with the unit.
        points: for each row every single value; a row of many shows their spread.
        middles: for each row the value that stands for it; not a number where there is none.
        spans: for each row the ends of a bar (low, high); empty for no bars.
        limits: of the x axis, shared by a figure's pages; None: from the points.
    """

    label: str
    points: Sequence[Values]
    middles: Sequence[float]
    spans: Sequence[tuple[float, float]] = ()
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Rows:
    """Rows of dots, or of spreads, in panels side by side.

    Attributes:
        names: of the rows, from the top.
        panels: one for each quantity.
        words: for each row what is written where there is nothing to plot; empty where there is something.
        values: for each row the value of ``colouring`` that colours it; any other: the colour of a row without.
        colouring: what the colours stand for.
    """

    names: Sequence[str]
    panels: Sequence[Panel]
    words: Sequence[str]
    values: Sequence[str]
    colouring: Colouring = PLAIN


@dataclass(frozen=True)
class Paired:
    """One axis in a figure of paired comparisons: for each of its values the comparisons with the reference.

    Attributes:
        axis: its name.
        names: its values.
        points: for each value one number a block; empty where there is none. Of many, their spread is shown.
        middles: for each value the mean of its points.
        means: for each value its mean in words, for the right margin.
        words: for each value what is written in place of points; empty where there are some.
        spans: for each value the ends of an interval of its mean (low, high), not numbers where it has none; empty for
            none at all.
    """

    axis: str
    names: Sequence[str]
    points: Sequence[Values]
    middles: Sequence[float]
    means: Sequence[str]
    words: Sequence[str]
    spans: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Pairs:
    """Paired comparisons, a panel for each axis and column, one x axis for all.

    Attributes:
        columns: (title, axes) for each column of panels; the axes are the same in all.
        label: of the x axis, with the unit.
        neutral: where the reference lies.
        band: half the width of the grey band around the reference; 0 for none.
    """

    columns: Sequence[tuple[str, Sequence[Paired]]]
    label: str
    neutral: float
    band: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; the ends are not numbers where there is none.

    Attributes:
        value: the estimate.
        low: lower end of the interval.
        high: upper end of it.
        points: single values that it is made of; empty where they are not to be seen.
        marked: whether it is not to be relied on; it is drawn hollow then.
    """

    value: float
    low: float
    high: float
    points: Sequence[float] = ()
    marked: bool = False


@dataclass(frozen=True)
class Forest:
    """Estimates with their intervals, a row for each thing that is estimated, and in it a mark for each arm.

    Attributes:
        names: of the rows, from the top.
        arms: name of an arm → its estimates, one for each row; None where it has none.
        label: of the x axis, with the unit.
        places: of each arm among the palette's colours, so that an arm has one colour in all pictures.
        ends: smallest and largest value that the axis holds, shared by a picture's pages; None: nothing is known.
        neutral: where nothing differs; None for no line.
        band: ends of what passes for no difference; None for no band.
        logarithmic: whether the axis is, as for ratios.
    """

    names: Sequence[str]
    arms: Mapping[str, Sequence[Estimate | None]]
    label: str
    places: Sequence[int]
    ends: tuple[float, float] | None
    neutral: float | None = None
    band: tuple[float, float] | None = None
    logarithmic: bool = False
