"""Charts: what figures show, as data, each with the numbers of its CSV file.

A chart knows neither colours nor sizes: rows and lines name the value that colours them. Nothing here imports a
plotting library: :mod:`vitbench.report.figures.draw` draws charts. Frames of charts with marks have a row for each
number, those of pixels the shape of what is seen, since a million rows would be tens of megabytes.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.report.document import Forest

Pixels = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]
Ends = tuple[float, float]

OWN = "\ue000"
"""Begins the ids of a drawn figure, until a page gives it a name of its own. It is not printable: no text has it."""
DIGITS = 6  # Behind the point: more are not known of float32
MEAN = "mean"  # In place of the number of a run
MOST_DASHED = 8  # Colours whose lines each have dashes of their own


@dataclass(frozen=True)
class Colouring:
    """Values that colours stand for, and the legend that names them."""

    title: str = ""  # of the legend, e.g. an axis of the suite; may be empty
    # each has a colour, in this order; empty where everything has one colour and there is no legend
    values: Sequence[str] = ()
    named: Sequence[str] = ()  # those that the legend names
    others: str = ""  # a value that is grey, and the last in the legend; empty for none


@dataclass(frozen=True, eq=False)
class Curves:
    """Learning curves: a row of panels for each metric, a column for each value of an axis."""

    metrics: Sequence[str]  # labels of the rows, with units
    facet_axis: str  # name of the axis whose values have a column each; empty where their names say it
    facets: Sequence[str]  # its values
    frame: pd.DataFrame  # facet, colour, metric, run (a number as text, or :data:`MEAN`), epoch, value
    colouring: Colouring  # what the colours stand for

    @property
    def epochs(self) -> int:
        """How many epochs are drawn."""
        return self.frame["epoch"].nunique()

    @property
    def dashed(self) -> bool:
        """Whether the line of each colour has dashes of its own."""
        return 1 < len(self.colouring.values) <= MOST_DASHED and self.epochs > 1


@dataclass(frozen=True, eq=False)
class Trends:
    """A measured quantity along an axis of numbers."""

    axis: str
    label: str  # of the quantity, with the unit
    numbers: Sequence[float]  # of the axis, in ascending order
    points: pd.DataFrame  # colour, at (a number of the axis), value: what each run measured
    colouring: Colouring  # what the colours stand for
    logarithmic: bool  # whether the axis is
    from_zero: bool = False  # whether the quantity begins at 0
    levels: Sequence[tuple[str, float]] = ()  # (name, value) of lines across, by which the quantity is judged

    @property
    def frame(self) -> pd.DataFrame:
        """The points, and the levels below them."""
        lines = [(self.axis, *point[:2], "point", point[2]) for point in self.points.itertuples(index=False, name=None)]
        lines += [(self.axis, "", math.nan, name, value) for name, value in self.levels]
        return pd.DataFrame(lines, columns=["axis", "colour", "at", "what", "value"])


@dataclass(frozen=True, eq=False)
class Roofline:
    """Two ceilings, each the smallest and the largest that was measured, and the timings under them."""

    flops_per_s: Ends  # the ceilings
    bytes_per_s: Ends
    colouring: Colouring  # what the colours stand for
    points: pd.DataFrame  # setting (chooses the mark), colour, flops_per_byte, flops_per_s

    @property
    def frame(self) -> pd.DataFrame:
        """The ceilings, and the points below them."""
        lines = [
            ("", "", f"{which} ceiling of {of}", math.nan, ends[number])
            for number, which in enumerate(("smallest", "largest"))
            for of, ends in (("arithmetic", self.flops_per_s), ("memory, bytes per second", self.bytes_per_s))
        ]
        lines += [(*point[:2], "point", *point[2:]) for point in self.points.itertuples(index=False, name=None)]
        return pd.DataFrame(lines, columns=["setting", "colour", "what", "flops_per_byte", "flops_per_s"])


SPOT = ("cell", "colour", "cost", "cost_low", "cost_high", "marked", "gain", "spread", "on_the_line", "on_the_front")
"""Columns of :class:`Front`."""


@dataclass(frozen=True, eq=False)
class Front:
    """Cells between cost and gain, and the line of those that no other surpasses in both."""

    cost: str  # labels of the axes, with the unit
    gain: str
    cheap: bool  # whether less of the cost's quantity is better (memory), or more (throughput)
    # a row for each cell, with the columns of :data:`SPOT`: its name, its colour, its cost with the ends of an
    # interval, whether the cost is unreliable, its gain with half the length of an error bar, whether it is on the
    # line, and whether it is on the front, in a word. Where there is no interval or bar: not a number
    frame: pd.DataFrame
    colouring: Colouring  # what the colours stand for
    logarithmic: bool  # whether the x axis is


@dataclass(frozen=True)
class Heat:
    """A matrix of numbers as colours."""

    values: Numbers  # (rows, columns)
    label: str  # of the values, with the unit
    row: str  # labels of the axes
    column: str
    names: Sequence[str] = ()  # of both rows and columns; empty where they are numbered from 0
    centred: bool = False  # whether zero is the middle of the scale, and not its beginning
    shares: bool = False  # whether a colour stands for the value over the sum of its row, and the value is written

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each row of the matrix, under the names or numbers of its columns."""
        rows, columns = (list(self.names or range(count)) for count in self.values.shape)
        table = pd.DataFrame(_short(self.values), columns=[f"{self.column} {name}" for name in columns])
        table.insert(0, self.row, rows, allow_duplicates=True)
        return table


@dataclass(frozen=True)
class Nested:
    """For places in a grid a map over that grid."""

    values: Numbers  # (places that have a map, rows x columns of the grid), in [-1, 1], row by row
    grid: tuple[int, int]  # its rows and columns
    rows: Sequence[int]  # numbers, from 0, of those at whose crossings are the places that have a map
    columns: Sequence[int]
    label: str  # of the values

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each place that has a map, a column for each place of the grid."""
        places = pd.DataFrame([*itertools.product(self.rows, self.columns)], columns=["row", "column"]) + 1
        return places.join(pd.DataFrame(_short(self.values), columns=_places(self.grid)))


@dataclass(frozen=True)
class Tile:
    """One image of a sheet."""

    pixels: Pixels  # (height, width, 3)
    title: Sequence[str] = ()  # lines above it; may be empty
    # (rows, columns), over it, each in a rectangle of its own, as opaque as it is large; None for none
    values: Numbers | None = None


@dataclass(frozen=True)
class Strip:
    """Tiles side by side, under a title."""

    title: str  # above them; may be empty
    tiles: Sequence[Tile]  # as many as fit are in one line
    most: float = 1.0  # of the values over them, that which is most opaque; zero is clear
    scale: str = ""  # the same in words; empty where they have no values


@dataclass(frozen=True)
class Tiles:
    """A sheet of images."""

    strips: Sequence[Strip]  # from the top
    columns: int  # tiles in a line
    label: str = ""  # of the values over the tiles; empty where none has any

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each tile that has values over it, a column for each rectangle; none of images alone."""
        overlays = [
            ((strip.title, number, " ".join(tile.title)), tile.values)
            for strip in self.strips
            for number, tile in enumerate(strip.tiles, 1)
            if tile.values is not None
        ]
        named = pd.DataFrame([names for names, _ in overlays], columns=["strip", "tile", "title"])
        if not overlays:
            return named
        values = np.stack([overlay for _, overlay in overlays])
        return named.join(pd.DataFrame(_short(values.reshape(len(values), -1)), columns=_places(values.shape[1:])))


Chart = Curves | Trends | Roofline | Front | Forest | Tiles | Heat | Nested


def _places(grid: Iterable[int]) -> list[str]:
    return [f"row {row + 1} column {column + 1}" for row, column in np.ndindex(*grid)]


def _short(values: Numbers) -> Numbers:
    return values if values.dtype.kind in "iu" else values.astype(np.float64).round(DIGITS)


@dataclass(frozen=True)
class Drawn:
    """A drawn chart: the content of a PNG file, and an ``<svg>`` element whose ids begin with :data:`OWN`."""

    png: bytes = field(repr=False)
    svg: str = field(repr=False)

    def _repr_png_(self) -> bytes:
        """The PNG file, for a notebook."""
        return self.png


Draw = Callable[[Chart], Drawn]


def drawn(chart: Chart) -> Drawn:
    """A chart, drawn. The plotting library, which takes a second to import, is imported here and nowhere else."""
    from vitbench.report.figures.draw import draw

    return draw(chart)


@dataclass(frozen=True)
class Picture:
    """A figure in a report."""

    name: str  # of its files, without folder and ending
    chart: Chart  # what it shows
    alt: str  # the same in words, for those who do not see it; plain text
    caption: str  # how to read it; plain text
