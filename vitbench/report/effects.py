"""Figures of paired comparisons: what each axis does to accuracy and to latency, over matched blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from vitbench.analysis.summary import Matched
from vitbench.report import accuracy, speed
from vitbench.report.accuracy import absence_of
from vitbench.report.charts import MOST_BLOCKS, Paired, Pairs, Picture
from vitbench.report.figures import place
from vitbench.report.numbers import signed
from vitbench.report.spread import reading
from vitbench.report.view import TimeGroup, View


def accuracy_by_axis(view: View, device: str) -> list[Picture]:
    """Paired differences of test accuracy, a panel for each axis; one picture for each origin."""
    rows = view.train[(view.train["device"] == device) & view.train["factorial"].astype(bool)]
    pictures, origins = [], view.origins(rows)
    decimals = accuracy.decimals_of(view) + 1
    band = view.noise.largest if view.noise else 0.0
    grey = " The grey band is the noise floor: the largest difference between exact twins." if band else ""

    def show(mean: float) -> str:
        return signed(mean, decimals)

    for origin in origins:
        on, suffix = place(view, origins, origin)
        found = [view.accuracy_over(axis, origin, device) for axis in view.axes]
        axes = [_paired(view, m, m.differences(), rows, mean=_mean, show=show) for m in found]
        label = "difference in test accuracy from the axis's reference (percentage points)"
        if _any_points(axes):
            pictures.append(
                Picture(
                    f"accuracy-by-axis-{device}{suffix}",
                    Pairs([("", axes)], label, 0.0, band),
                    f"Paired differences of test accuracy by axis on {device}{on}",
                    f"Differences in test accuracy from the reference value of each axis{on}. "
                    f"{_reading(axes, 'all other axes and the seed equal', 'the mean')}.{grey}",
                )
            )
    return pictures


def speed_by_axis(view: View, groups: Sequence[TimeGroup]) -> list[Picture]:
    """Latency ratios over matched blocks, a panel for each axis and a column for each group; for each origin.

    Args:
        view: the study.
        groups: timings on one device, in one dtype, with one batch size, that differ in mode.
    """
    rows = pd.concat([view.timings(g) for g in groups])
    pictures, origins = [], view.origins(rows[rows["factorial"].astype(bool)])
    where, name = groups[0].setting, groups[0].slug.removesuffix(f"-{groups[0].mode}")
    groups = [group for group in groups if len(speed.axes_of(view, group)) > 1]
    for origin in origins:
        on, suffix = place(view, origins, origin)
        columns = []
        for group in groups:
            found = [view.timing_over(axis, origin, group, "latency_ms_p50") for axis in speed.axes_of(view, group)]
            axes = [
                _paired(view, m, m.ratios(), view.timings(group), mean=speed.geometric_mean, show=_times) for m in found
            ]
            columns += [(group.mode_name, axes)] if _any_points(axes) else []
        every = [axis for _, axes in columns for axis in axes]
        if columns:
            pictures.append(
                Picture(
                    f"speed-by-axis-{name}{suffix}",
                    Pairs(columns, "latency, ratio to the axis's reference", 1.0),
                    f"Latency ratios by axis: {where}{on}",
                    f"Latency as a ratio to the reference value of each axis ({where}{on}); left of the line is "
                    f"faster. {_reading(every, 'all other axes equal', 'the geometric mean')}.",
                )
            )
    return pictures


def _paired(
    view: View, found: Matched, compared: pd.DataFrame, rows: pd.DataFrame, *,
    mean: Callable[[pd.Series[float]], float], show: Callable[[float], str],
) -> Paired:  # fmt: skip
    names, points, middles, words = [], [], [], []
    for value in view.axes[found.axis]:
        has = value in compared and len(compared) > 0
        reference = has and value == found.reference
        word = "not matched" if value in compared else absence_of(view, rows, found.axis, value)
        names.append(value)
        points.append(np.zeros(0) if reference or not has else compared[value].to_numpy(np.float64))
        middles.append(mean(compared[value]) if has and not reference else math.nan)
        words.append("reference" if reference else "" if has else word)
    return Paired(found.axis, names, points, middles, [show(middle) for middle in middles], words)


def _any_points(axes: Sequence[Paired]) -> bool:
    return any(len(points) for axis in axes for points in axis.points)


def _reading(axes: Sequence[Paired], alike: str, mean: str) -> str:
    """How the rows of some axes are to be read, where a block's results are alike in this and summed up by that."""
    rows = [points for axis in axes for points in axis.points]
    said = reading(rows, f"a point is one matched block ({alike})", f"of the matched blocks ({alike})",
                   f"the upright bar and the number are {mean}", MOST_BLOCKS)  # fmt: skip
    return f"{said[:1].upper()}{said[1:]}"


def _mean(column: pd.Series[float]) -> float:
    return float(column.mean())


def _times(ratio: float) -> str:
    return f"\N{MULTIPLICATION SIGN}{ratio:.2f}"
