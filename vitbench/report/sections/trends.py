"""Trends: what training runs measured along an axis of numbers, such as how many images there are to learn from."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from vitbench.analysis.grouped import ACCURACY, finished, texts
from vitbench.report.figures.charts import Colouring, Picture, Trends
from vitbench.report.origins import of_origin
from vitbench.report.view import Group, View

FEWEST = 3
"""Numbers of an axis along which there is a trend."""

MOST_LINES = 8
WIDE = 8.0
"""Largest over smallest number, from which the axis is logarithmic."""


class Quantity(NamedTuple):
    """What is looked at along an axis: a column of the training runs, as a reader says it, and its unit."""

    column: str
    name: str
    unit: str
    from_zero: bool


TEST_ACCURACY = Quantity(ACCURACY, "test accuracy", "%", from_zero=False)
THROUGHPUT = Quantity("train_images_per_s", "training throughput", "images/s", from_zero=True)


def trends(view: View, quantity: Quantity) -> list[Picture]:
    """A picture of each axis of numbers for each group, a line for each combination of the others, if they are few."""
    return [
        picture
        for group in view.groups
        for axis in (view.axes if view.factorial else ())
        if (picture := _along(view, group, axis, quantity)) is not None
    ]


def _along(view: View, group: Group, axis: str, quantity: Quantity) -> Picture | None:
    others, numbers = [name for name in view.axes if name != axis], _numbers(view.axes[axis])
    planned = view.runs(group.device, judged=quantity is TEST_ACCURACY)
    named = list(dict.fromkeys(_combined(planned, others)))
    runs = of_origin(finished(planned), group.origin)
    runs = runs[runs[quantity.column].notna()]
    if numbers is None or len(numbers) < FEWEST or len(named) > MOST_LINES or runs.empty:
        return None
    at, of = np.array(texts(runs[axis]), dtype=np.float64), _combined(runs, others)
    points = pd.DataFrame({"colour": of, "at": at, "value": runs[quantity.column].to_numpy()})
    points = points.iloc[np.lexsort((at, np.array([named.index(name) for name in of])))]
    called, each = view.axis_names[axis], [view.axis_names[name] for name in others]
    legend = tuple(named if others else ())
    chart = Trends(
        called, f"{quantity.name} ({quantity.unit})", numbers, points, Colouring(", ".join(each), legend, legend),
        logarithmic=min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE, from_zero=quantity.from_zero,
    )  # fmt: skip
    by = f", a line for each {' and '.join(each)}" if others else ""
    alt = f"{quantity.name.capitalize()} along {called} on {group.label or group.device}{by}"
    name = f"{quantity.name.split()[-1]}-along-{_slugs(view)[axis]}-{group.device}{group.slug}"
    return Picture(name, chart, alt, f"{alt}: points are single runs, lines join their means.")


def _combined(rows: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The values of some axes of each row, as one text."""
    columns = [texts(rows[axis]) for axis in axes]
    return [", ".join(values) for values in zip(*columns, strict=True)] if columns else [""] * len(rows)


def _numbers(values: Sequence[str]) -> list[float] | None:
    """The values of an axis in ascending order, where all are numbers."""
    try:
        found = sorted(float(value) for value in values)
    except ValueError:
        return None
    return found if all(map(math.isfinite, found)) else None


def _slugs(view: View) -> dict[str, str]:
    """Axis → its name as part of a file's, none of them twice."""
    found: dict[str, str] = {}
    for axis in view.axes:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", axis).strip("-")
        found[axis] = slug if slug and slug not in found.values() else f"{slug}-{len(found) + 1}".strip("-")
    return found
