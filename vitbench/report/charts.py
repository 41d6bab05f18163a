"""Charts: what a picture shows, as data. :mod:`vitbench.report.drawing` draws them.

A chart knows neither colours nor sizes: rows and curves name the value that colours them. Importing this draws in no
plotting library, so that a chart can be drawn by another process than the one that made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vitbench.report.pixel_charts import Heat, Nested, Tiles, Waves

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
    colouring: Colouring = Colouring()


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
        facet_axis: name of the axis whose values have a column each; empty for a single column.
        facets: its values.
        panels: (metric, facet) → value of ``colouring`` → its curves.
        colouring: what the colours stand for.
    """

    metrics: Sequence[str]
    facet_axis: str
    facets: Sequence[str]
    panels: Mapping[tuple[str, str], Mapping[str, Bundle]]
    colouring: Colouring


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
    """

    axis: str
    label: str
    numbers: Sequence[float]
    lines: Mapping[str, Sequence[tuple[float, Sequence[float]]]]
    colouring: Colouring
    logarithmic: bool
    from_zero: bool = False


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
        flops_per_s: the level ceiling.
        bytes_per_s: the sloping one.
        title: what the colours stand for.
        points: the timings.
    """

    flops_per_s: float
    bytes_per_s: float
    title: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Spot:
    """One cell between what it costs and what it gives.

    Attributes:
        cost: along the x axis.
        gain: along the y axis.
        spread: half the length of a bar through it, along the y axis; not a number for none.
        value: of the colouring.
        letter: by which a table names it; empty where another cell gives as much for no more.
        name: of the cell.
    """

    cost: float
    gain: float
    spread: float
    value: str
    letter: str
    name: str


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


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; the ends are not numbers where there is none.

    Attributes:
        value: the estimate.
        low: lower end of the interval.
        high: upper end of it.
        points: single values that it is made of; empty where they are not to be seen.
    """

    value: float
    low: float
    high: float
    points: Sequence[float] = ()


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
        logarithmic: whether the axis is, as for ratios.
    """

    names: Sequence[str]
    arms: Mapping[str, Sequence[Estimate | None]]
    label: str
    places: Sequence[int]
    ends: tuple[float, float] | None
    neutral: float | None = None
    logarithmic: bool = False


Chart = Rows | Pairs | Curves | Trends | Roofline | Front | Forest | Tiles | Heat | Nested | Waves


OWN = "\ue000"
"""Begins the ids of a drawn picture, until a page gives it a name of its own. No text of a picture has this letter: it
is not printable."""


@dataclass(frozen=True)
class Drawn:
    """A chart that has been drawn.

    Attributes:
        png: its pixels, a file's content.
        svg: its shapes, an element; see :func:`vitbench.report.drawing.vector.svg`. Ids in it begin with :data:`OWN`.
    """

    png: bytes
    svg: str


@dataclass(frozen=True)
class Picture:
    """A picture in a report.

    Attributes:
        name: of its file, without folder and ending.
        chart: what it shows.
        alt: the same in words, for those who do not see it; plain text.
        caption: how to read it; plain text.
    """

    name: str
    chart: Chart
    alt: str
    caption: str


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
