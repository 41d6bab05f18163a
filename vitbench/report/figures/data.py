"""Chart data: the numbers that a figure shows, as a table.

Charts with marks have a row for each number, in the order in which they are drawn; ``what`` says which mark it is.
Those made of pixels have the shape of what is seen: a similarity of 1,024 positions is a million numbers, and with a
row for each it would be a file of tens of megabytes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from vitbench.report.figures.charts import (
    Chart,
    Curves,
    ForestPlot,
    Front,
    Heat,
    Nested,
    Numbers,
    Roofline,
    Tiles,
    Trends,
    Waves,
)

DIGITS = 6
"""Behind the point: more are not known of float32."""
MEAN = "mean"
"""In place of the number of a run."""


@functools.singledispatch
def frame(chart: Chart) -> pd.DataFrame:
    """The numbers of a chart as its CSV file has them."""
    raise TypeError(f"no chart: {type(chart).__name__}")


@frame.register
def _(chart: ForestPlot) -> pd.DataFrame:
    lines = [
        (row.name, row.context, what, value, row.verdict)
        for row in chart.plot.rows
        for what, value in (
            ("estimate", row.bar.value), ("low", row.bar.low), ("high", row.bar.high),
            *(("point", point) for point in row.bar.points),
        )
        if math.isfinite(value)
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=["name", "context", "what", "value", "verdict"])


@frame.register
def _(chart: Curves) -> pd.DataFrame:
    lines = (
        (facet, colour, metric, run, float(epoch), float(value))
        for (metric, facet), bundles in chart.panels.items()
        for colour, bundle in bundles.items()
        for run, curve in itertools.chain(
            ((str(number), run) for number, run in enumerate(bundle.runs, 1)),
            [(MEAN, bundle.mean)] if bundle.mean is not None else [],
        )
        for epoch, value in curve
    )
    return pd.DataFrame(list(lines), columns=["facet", "colour", "metric", "run", "epoch", "value"])


@frame.register
def _(chart: Trends) -> pd.DataFrame:
    lines = [
        (chart.axis, colour, float(at), "point", float(value))
        for colour, line in chart.lines.items()
        for at, values in line
        for value in values
    ]
    lines += [(chart.axis, "", math.nan, name, float(value)) for name, value in chart.levels]
    return pd.DataFrame(lines, columns=["axis", "colour", "at", "what", "value"])


@frame.register
def _(chart: Roofline) -> pd.DataFrame:
    lines = []
    for which, flops, of_bytes in zip(("smallest", "largest"), chart.flops_per_s, chart.bytes_per_s, strict=True):
        lines.append(("", "", f"{which} ceiling of arithmetic", math.nan, flops))
        lines.append(("", "", f"{which} ceiling of memory, bytes per second", math.nan, of_bytes))
    lines += [(p.setting, p.value, "point", p.intensity, p.flops_per_s) for p in chart.points]
    return pd.DataFrame(lines, columns=["setting", "colour", "what", "flops_per_byte", "flops_per_s"])


@frame.register
def _(chart: Front) -> pd.DataFrame:
    columns = ["cell", "colour", "cost", "cost_low", "cost_high", "marked", "gain", "spread", "on_the_line",
               "on_the_front"]  # fmt: skip
    lines = [(s.name, s.value, s.cost, s.low, s.high, s.marked, s.gain, s.spread, s.best, s.standing)
             for s in chart.spots]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)


@frame.register
def _(chart: Waves) -> pd.DataFrame:
    lines = [(name, at, round(float(value), DIGITS)) for name, values in zip(chart.names, chart.values, strict=True)
             for at, value in enumerate(values)]  # fmt: skip
    return pd.DataFrame(lines, columns=["function", "at", "value"])


@frame.register
def _(chart: Heat) -> pd.DataFrame:
    """A row for each row of the matrix, under the names or numbers of its columns."""
    rows, columns = chart.values.shape
    names = [list(chart.names)] * 2 if chart.names else [list(range(rows)), list(range(columns))]
    table = pd.DataFrame(_short(chart.values), columns=[f"{chart.column} {name}" for name in names[1]])
    table.insert(0, chart.row, names[0], allow_duplicates=True)
    return table


@frame.register
def _(chart: Nested) -> pd.DataFrame:
    """A row for each place that has a map, a column for each place of the grid."""
    places = list(itertools.product(chart.rows, chart.columns))
    table = pd.DataFrame(_short(chart.values), columns=_places(chart.grid))
    table.insert(0, "column", [column + 1 for _, column in places])
    table.insert(0, "row", [row + 1 for row, _ in places])
    return table


@frame.register
def _(chart: Tiles) -> pd.DataFrame:
    """A row for each tile that has values over it, a column for each rectangle; none of images alone."""
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
    numbers = pd.DataFrame(_short(values.reshape(len(found), -1)), columns=_places(values.shape[1:]))
    return pd.concat([named, numbers], axis=1)


def _places(grid: Iterable[int]) -> list[str]:
    return [f"row {row + 1} column {column + 1}" for row, column in np.ndindex(*grid)]


def _short(values: Numbers) -> Numbers:
    return values if values.dtype.kind in "iu" else values.astype(np.float64).round(DIGITS)
