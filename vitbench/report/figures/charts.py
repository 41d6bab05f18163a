"""Charts: what figures show, as data. :mod:`vitbench.report.figures.draw` draws them.

A chart knows neither colours nor sizes: rows and lines name the value that colours them. Nothing here imports a
plotting library, so that a report's text is made without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vitbench.report import document
from vitbench.report.figures.marks import Colouring

Pixels = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]
Ends = tuple[float, float]

PLAIN = Colouring()
OWN = "\ue000"
"""Begins the ids of a drawn figure, until a page gives it a name of its own. It is not printable: no text has it."""


@dataclass(frozen=True)
class ForestPlot:
    """A forest plot, as a page has it."""

    plot: document.Forest


@dataclass(frozen=True)
class Bundle:
    """Curves of one colour in one panel, each of them (epochs, 2): single runs, and their mean where it has a sense."""

    runs: Sequence[npt.NDArray[np.float64]]
    mean: npt.NDArray[np.float64] | None


@dataclass(frozen=True)
class Curves:
    """Learning curves: a row of panels for each metric, a column for each value of an axis.

    Attributes:
        metrics: labels of the rows, with units.
        facet_axis: name of the axis whose values have a column each; empty where their names say it.
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
        """Whether the line of each colour has dashes of its own."""
        return 1 < len(self.colouring.values) <= MOST_DASHED and len(self.epochs()) > 1


MOST_DASHED = 8
"""Colours whose lines each have dashes of their own."""


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
class Waves:
    """Some functions of a whole number, one above another; ``values``: (functions, numbers), in [-1, 1]."""

    axis: str
    names: Sequence[str]
    values: Numbers


@dataclass(frozen=True)
class Point:
    """One timing: operations per byte, operations per second, and the words that choose its mark and its colour."""

    intensity: float
    flops_per_s: float
    setting: str
    value: str


@dataclass(frozen=True)
class Roofline:
    """Two ceilings, each the smallest and the largest that was measured, and the timings under them."""

    flops_per_s: Ends
    bytes_per_s: Ends
    colouring: Colouring
    points: Sequence[Point]


@dataclass(frozen=True)
class Spot:
    """One cell between what it costs and what it gives.

    Attributes:
        cost, low, high: along the x axis, with the ends of an interval, not numbers for none.
        gain, spread: along the y axis, with half the length of a bar through it, not a number for none.
        value: of the colouring.
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
    name: str
    best: bool
    marked: bool = False
    standing: str = ""


@dataclass(frozen=True)
class Front:
    """Cells between cost and gain, and the line of those that no other surpasses in both.

    Attributes:
        cost, gain: labels of the axes, with the unit.
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
class Heat:
    """A matrix of numbers as colours.

    Attributes:
        values: (rows, columns).
        label: of the values, with the unit.
        row, column: labels of the axes.
        names: of both rows and columns; empty where they are numbered from 0.
        centred: whether zero is the middle of the scale, and not its beginning.
        shares: whether a colour stands for the value over the sum of its row, and the value is written.
    """

    values: Numbers
    label: str
    row: str
    column: str
    names: Sequence[str] = ()
    centred: bool = False
    shares: bool = False


@dataclass(frozen=True)
class Nested:
    """For places in a grid a map over that grid.

    Attributes:
        values: (places that have a map, rows x columns of the grid), in [-1, 1], row by row.
        grid: its rows and columns.
        rows, columns: numbers, from 0, of those at whose crossings are the places that have a map.
        label: of the values.
    """

    values: Numbers
    grid: tuple[int, int]
    rows: Sequence[int]
    columns: Sequence[int]
    label: str


@dataclass(frozen=True)
class Tile:
    """One image of a sheet.

    Attributes:
        pixels: (height, width, 3).
        title: lines above it; may be empty.
        values: (rows, columns), over it, each in a rectangle of its own, as opaque as it is large; None for none.
        grid: rows and columns between which lines are drawn; None for none.
    """

    pixels: Pixels
    title: Sequence[str] = ()
    values: Numbers | None = None
    grid: tuple[int, int] | None = None


@dataclass(frozen=True)
class Strip:
    """Tiles side by side.

    Attributes:
        title: above them, or, in a table, beside them; may be empty.
        tiles: as many as fit are in one line.
        most: of the values over them, that which is most opaque; zero is clear.
        scale: the same in words; empty where they have no values.
    """

    title: str
    tiles: Sequence[Tile]
    most: float = 1.0
    scale: str = ""


@dataclass(frozen=True)
class Tiles:
    """A sheet of images.

    Attributes:
        strips: from the top.
        columns: tiles in a line.
        label: of the values over the tiles; empty where none has any.
        corner: (height, width, 3), an image in the corner of a table of tiles, in which each strip is a row with its
            title at the left, and the titles of the first strip's tiles are above all; None where it is no table.
    """

    strips: Sequence[Strip]
    columns: int
    label: str = ""
    corner: Pixels | None = None


Chart = Curves | Trends | Roofline | Front | ForestPlot | Tiles | Heat | Nested | Waves


@dataclass(frozen=True)
class Drawn:
    """A drawn chart: the content of a PNG file, and an ``<svg>`` element whose ids begin with :data:`OWN`."""

    png: bytes
    svg: str


Draw = Callable[[Chart], Drawn]


def drawn(chart: Chart) -> Drawn:
    """A chart, drawn. The plotting library, which takes a second to import, is imported here and nowhere else."""
    from vitbench.report.figures.draw import draw

    return draw(chart)


@dataclass(frozen=True)
class Picture:
    """A figure in a report.

    Attributes:
        name: of its files, without folder and ending.
        chart: what it shows.
        alt: the same in words, for those who do not see it; plain text.
        caption: how to read it; plain text.
    """

    name: str
    chart: Chart
    alt: str
    caption: str
