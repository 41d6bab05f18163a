"""Trends: what training runs measured along an axis of numbers, such as how many images there are to learn from."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from vitbench.analysis.grouped import ACCURACY, finished, texts
from vitbench.report.figures.charts import Colouring, Picture, Trends
from vitbench.report.origins import of_origin
from vitbench.report.view import View

FEWEST = 3
"""Numbers of an axis along which there is a trend."""

MOST_LINES = 8
WIDE = 8.0
"""Largest over smallest number, from which the axis is logarithmic."""


@dataclass(frozen=True)
class Quantity:
    """What is looked at along an axis: a column of the training runs, as a reader says it, and its unit."""

    column: str
    name: str
    unit: str
    from_zero: bool

    @property
    def slug(self) -> str:
        """As part of a file's name."""
        return self.name.split()[-1]


TEST_ACCURACY = Quantity(ACCURACY, "test accuracy", "%", from_zero=False)
THROUGHPUT = Quantity("train_images_per_s", "training throughput", "images/s", from_zero=True)


def along(view: View, device: str, axis: str, quantity: Quantity) -> list[Picture]:
    """A picture of an axis of numbers for each origin, a line for each combination of the others, if they are few."""
    pictures: list[Picture] = []
    others = [name for name in view.axes if name != axis]
    numbers = _numbers(view.axes[axis])
    if not view.factorial or numbers is None or len(numbers) < FEWEST:
        return pictures
    planned = (view.judged if quantity is TEST_ACCURACY else view.train).loc[lambda rows: rows["device"] == device]
    named = list(dict.fromkeys(_combined(planned, others)))
    if len(named) > MOST_LINES:
        return pictures
    done = finished(planned)
    done = done[done[quantity.column].notna()]
    origins = view.origins.of(done)
    wide = min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE
    for origin in origins:
        on, suffix = view.origins.on(origin, origins)
        runs = of_origin(done, origin)
        at, of = np.array(texts(runs[axis]), dtype=np.float64), _combined(runs, others)
        points = pd.DataFrame({"colour": of, "at": at, "value": runs[quantity.column].to_numpy()})
        points = points.iloc[np.lexsort((at, np.array([named.index(name) for name in of])))]
        called, each = view.axis_names[axis], [view.axis_names[name] for name in others]
        together, legend = ", ".join(each), tuple(named if others else ())
        chart = Trends(
            called, f"{quantity.name} ({quantity.unit})", numbers, points,
            Colouring(together, legend, legend), logarithmic=wide, from_zero=quantity.from_zero,
        )  # fmt: skip
        by = f", a line for each {' and '.join(each)}" if others else ""
        alt = f"{quantity.name.capitalize()} along {called} on {device}{on}{by}"
        said = f"{alt}: points are single runs, lines join their means."
        pictures.append(Picture(f"{quantity.slug}-along-{_slugs(view)[axis]}-{device}{suffix}", chart, alt, said))
    return pictures


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
