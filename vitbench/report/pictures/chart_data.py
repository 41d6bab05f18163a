"""Chart data: the numbers that a picture shows, as a table with one of them in each row, or of the picture's shape."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from vitbench.report.pictures.charts import Chart
from vitbench.report.pictures.matrix_data import DIGITS, of_heat, of_nested, of_tiles
from vitbench.report.pictures.pixel_charts import Heat, Nested, Tiles, Waves
from vitbench.report.pictures.plane_charts import Curves, Front, Roofline, Trends
from vitbench.report.pictures.row_charts import Forest, Pairs, Rows

Line = tuple[Any, ...]


@functools.singledispatch
def frame(chart: Chart) -> pd.DataFrame:
    """A row for each number of a chart, in the order in which it is drawn; ``what`` says which mark it is.

    Charts made of pixels have a row for each of theirs, see :mod:`vitbench.report.pictures.matrix_data`.
    """
    columns, lines = _COLUMNS[type(chart)], list(_lines(chart))
    return pd.DataFrame(lines, columns=list(columns))


frame.register(Heat, of_heat)
frame.register(Nested, of_nested)
frame.register(Tiles, of_tiles)


_COLUMNS: dict[type[Chart], tuple[str, ...]] = {
    Rows: ("row", "colour", "quantity", "what", "value", "word"),
    Pairs: ("column", "axis", "value", "what", "difference", "word"),
    Curves: ("facet", "colour", "metric", "run", "epoch", "value"),
    Trends: ("axis", "colour", "at", "what", "value"),
    Front: (
        "cell",
        "letter",
        "colour",
        "cost",
        "cost_low",
        "cost_high",
        "marked",
        "gain",
        "spread",
        "on_the_line",
        "on_the_front",
    ),
    Forest: ("row", "arm", "quantity", "what", "value"),
    Waves: ("function", "at", "value"),
    Roofline: ("setting", "colour", "what", "flops_per_byte", "flops_per_s"),
}


@functools.singledispatch
def _lines(chart: Chart) -> Iterator[Line]:
    raise TypeError(f"no chart: {type(chart).__name__}")


@_lines.register
def _(chart: Rows) -> Iterator[Line]:
    for number, (name, word) in enumerate(zip(chart.names, chart.words, strict=True)):
        colour = chart.values[number]
        if word:
            yield name, colour, "", "state", math.nan, word
            continue
        for panel in chart.panels:
            marks = [("point", value) for value in panel.points[number]]
            marks += [("middle", panel.middles[number])]
            marks += list(zip(("from", "to"), panel.spans[number], strict=True)) if panel.spans else []
            for what, value in marks:
                if math.isfinite(value):
                    yield name, colour, panel.label, what, float(value), ""


@_lines.register
def _(chart: Pairs) -> Iterator[Line]:
    for column, axes in chart.columns:
        for axis in axes:
            spans = axis.spans or [(math.nan, math.nan)] * len(axis.names)
            for name, points, middle, word, (low, high) in zip(
                axis.names, axis.points, axis.middles, axis.words, spans, strict=True
            ):
                for what, value in [
                    *(("point", each) for each in points),
                    ("mean", middle),
                    ("from", low),
                    ("to", high),
                ]:
                    if not word and math.isfinite(value):
                        yield column, axis.axis, name, what, float(value), ""
                if word:
                    yield column, axis.axis, name, "state", math.nan, word


@_lines.register
def _(chart: Curves) -> Iterator[Line]:
    for (metric, facet), bundles in chart.panels.items():
        for colour, bundle in bundles.items():
            curves = [(str(number), run) for number, run in enumerate(bundle.runs, 1)]
            curves += [("mean", bundle.mean)] if bundle.mean is not None else []
            for run, curve in curves:
                for epoch, value in curve:
                    yield facet, colour, metric, run, float(epoch), float(value)


@_lines.register
def _(chart: Trends) -> Iterator[Line]:
    for colour, line in chart.lines.items():
        for at, values in line:
            for value in values:
                yield chart.axis, colour, float(at), "point", float(value)
    for name, value in chart.levels:
        yield chart.axis, "", math.nan, name, float(value)


@_lines.register
def _(chart: Roofline) -> Iterator[Line]:
    for which, flops, of_bytes in zip(("smallest", "largest"), chart.flops_per_s, chart.bytes_per_s, strict=True):
        yield "", "", f"{which} ceiling of arithmetic", math.nan, flops
        yield "", "", f"{which} ceiling of memory, bytes per second", math.nan, of_bytes
    for point in chart.points:
        yield point.setting, point.value, "point", point.intensity, point.flops_per_s


@_lines.register
def _(chart: Front) -> Iterator[Line]:
    for spot in chart.spots:
        cost = spot.cost, spot.low, spot.high, spot.marked
        yield spot.name, spot.letter, spot.value, *cost, spot.gain, spot.spread, spot.best, spot.standing


@_lines.register
def _(chart: Forest) -> Iterator[Line]:
    for number, name in enumerate(chart.names):
        for arm, estimates in chart.arms.items():
            if (estimate := estimates[number]) is None:
                continue
            marks = [*(("point", each) for each in estimate.points), ("estimate", estimate.value)]
            for what, value in [*marks, ("from", estimate.low), ("to", estimate.high)]:
                if math.isfinite(value):
                    yield name, arm, chart.label, what, float(value)


@_lines.register
def _(chart: Waves) -> Iterator[Line]:
    for name, values in zip(chart.names, chart.values, strict=True):
        for at, value in enumerate(values):
            yield name, at, round(float(value), DIGITS)
