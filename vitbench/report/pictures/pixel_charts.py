"""Pixel charts: what a picture shows that is itself made of pixels, as data.

See :mod:`vitbench.report.pictures.charts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Tile:
    """One image of a sheet.

    Attributes:
        pixels: (height, width, 3).
        title: lines above it; may be empty.
        values: (rows, columns), laid over it, each in a rectangle of its own, as opaque as it is large; None for none.
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
        most: of the values that are laid over them, that which is most opaque; zero is clear.
        scale: the same in words; empty where nothing is laid over them.
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
        label: of the values that are laid over the tiles; empty where none has any.
        corner: (height, width, 3), an image in the corner of a table of tiles, in which each strip is a row with its
            title at the left, and the titles of the first strip's tiles stand above all; None where it is no table.
    """

    strips: Sequence[Strip]
    columns: int
    label: str = ""
    corner: Pixels | None = None


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
    """Of places in a grid a map over the same grid.

    Attributes:
        values: (places that have a map, P), in [-1, 1], P = rows x columns of the grid, row by row.
        grid: its rows and columns.
        rows, columns: numbers, from 0, of those of them at whose crossings are the places that have a map.
        label: of the values.
    """

    values: Numbers
    grid: tuple[int, int]
    rows: Sequence[int]
    columns: Sequence[int]
    label: str


@dataclass(frozen=True)
class Waves:
    """Some functions of a whole number, one above another.

    Attributes:
        axis: label of the number.
        names: of the functions.
        values: (functions, numbers), in [-1, 1].
    """

    axis: str
    names: Sequence[str]
    values: Numbers
