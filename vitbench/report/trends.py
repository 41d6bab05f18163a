"""Trends: test accuracy along an axis of numbers, such as how many images there are to learn from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vitbench.analysis.summary import ACCURACY, finished, texts
from vitbench.report.charts import Colouring, Picture, Trends
from vitbench.report.figures import axis_slugs, place
from vitbench.report.view import View, of_origin

FEWEST = 3
"""Numbers of an axis along which there is a trend."""

MOST_LINES = 8
WIDE = 8.0
"""Largest over smallest number, from which the axis is logarithmic."""


def accuracy_along(view: View, device: str, axis: str) -> list[Picture]:
    """A picture of an axis of numbers for each origin; none in a grid of more than one other axis."""
    pictures: list[Picture] = []
    other = next((name for name in view.axes if name != axis), "")
    named = view.axes.get(other, ("",))
    numbers = _numbers(view.axes[axis])
    if not view.factorial or len(view.axes) > 2 or len(named) > MOST_LINES or numbers is None or len(numbers) < FEWEST:
        return pictures
    done = finished(view.train[view.train["device"] == device])
    done = done[done[ACCURACY].notna()]
    origins = view.origins(done)
    wide = min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE
    for origin in origins:
        on, suffix = place(view, origins, origin)
        runs = of_origin(done, origin)
        at, of = texts(runs[axis]), texts(runs[other]) if other else [""] * len(runs)
        lines: dict[str, dict[float, list[float]]] = {name: {} for name in named}
        for where, name, value in zip(at, of, runs[ACCURACY].tolist(), strict=True):
            lines[name].setdefault(float(where), []).append(value)
        chart = Trends(
            axis, "test accuracy (%)", numbers, {name: sorted(line.items()) for name, line in lines.items()},
            Colouring(other, named if other else (), named if other else ()), logarithmic=wide,
        )  # fmt: skip
        by = f", a line for each {other}" if other else ""
        said = f"Test accuracy along {axis} on {device}{on}{by}: points are single runs, lines join their means."
        alt = f"Test accuracy along {axis} on {device}{on}{by}"
        pictures.append(Picture(f"accuracy-along-{axis_slugs(view)[axis]}-{device}{suffix}", chart, alt, said))
    return pictures


def _numbers(values: Sequence[str]) -> list[float] | None:
    """The values of an axis in ascending order, where all are numbers."""
    try:
        found = sorted(float(value) for value in values)
    except ValueError:
        return None
    return found if all(map(math.isfinite, found)) else None
