"""Matrix data: the numbers of charts that are made of pixels, as tables that have the shape of what is seen.

A similarity of 1,024 positions is a million numbers, and so is a confusion matrix of 1,000 classes: with one of them in
each row they would be a file of tens of megabytes, in which most is the names of places.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from vitbench.report.pictures.pixel_charts import Heat, Nested, Numbers, Tiles

DIGITS = 6
"""Behind the point: of float32 more are not known."""


def of_heat(chart: Heat) -> pd.DataFrame:
    """A row for each row of the matrix, under the names or numbers of its columns."""
    rows, columns = chart.values.shape
    names = [list(chart.names)] * 2 if chart.names else [list(range(rows)), list(range(columns))]
    table = pd.DataFrame(_short(chart.values), columns=[f"{chart.column} {name}" for name in names[1]])
    table.insert(0, chart.row, names[0], allow_duplicates=True)
    return table


def of_nested(chart: Nested) -> pd.DataFrame:
    """A row for each place that has a map, a column for each place of the grid."""
    places = list(itertools.product(chart.rows, chart.columns))
    table = pd.DataFrame(_short(chart.values), columns=_places(chart.grid))
    table.insert(0, "column", [column + 1 for _, column in places])
    table.insert(0, "row", [row + 1 for row, _ in places])
    return table


def of_tiles(chart: Tiles) -> pd.DataFrame:
    """A row for each tile that has values laid over it, a column for each rectangle; none of images alone."""
    found = [
        (strip.title, number, " ".join(tile.title), tile.values)
        for strip in chart.strips
        for number, tile in enumerate(strip.tiles, 1)
        if tile.values is not None
    ]
    named = pd.DataFrame([each[:3] for each in found], columns=["strip", "tile", "title"])
    if not found:
        return named
    values = np.stack([each[3] for each in found])
    return pd.concat([named, pd.DataFrame(_short(values.reshape(len(found), -1)), columns=_places(values.shape[1:]))],
                     axis=1)  # fmt: skip


def _places(grid: tuple[int, ...]) -> list[str]:
    return [f"row {row + 1} column {column + 1}" for row, column in np.ndindex(*grid)]


def _short(values: Numbers) -> Numbers:
    return values if values.dtype.kind in "iu" else values.astype(np.float64).round(DIGITS)
