"""Paired comparisons over matched blocks: what each axis does to latency, and to accuracy block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from vitbench.analysis.summary import Matched
from vitbench.report import accuracy
from vitbench.report.accuracy import absence_of
from vitbench.report.cost import speed
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.figures.charts import Paired, Pairs, Picture
from vitbench.report.figures.marks import MOST_BLOCKS, reading
from vitbench.report.numbers import signed
from vitbench.report.view import View


def by_block(view: View, found: Matched, rows: pd.DataFrame) -> Paired:
    """Paired differences of test accuracy over the matched blocks of an axis.

    Args:
        view: the study.
        found: the axis.
        rows: the trials of the grid on the device, whose states stand where there is no result.
    """
    decimals = accuracy.decimals_of(view) + 1
    return _paired(view, found, found.differences(), rows, mean=_mean, show=lambda mean: signed(mean, decimals))


def speed_by_axis(view: View, groups: Sequence[TimeGroup]) -> list[Picture]:
    """Latency ratios over matched blocks, a panel for each axis and a column for each group; for each origin.

    Args:
        view: the study.
        groups: timings on one device, in one dtype, with one batch size, that differ in mode.
    """
    rows = pd.concat([view.timings(g) for g in groups])
    pictures, origins = [], view.origins.of(rows[rows["factorial"].astype(bool)])
    where, name = groups[0].setting, groups[0].slug.removesuffix(f"-{groups[0].mode}")
    groups = [group for group in groups if len(speed.axes_of(view, group)) > 1]
    for origin in origins:
        on, suffix = view.origins.on(origin, origins)
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
                    f"faster. {blocks_read(every, 'all other axes equal', 'the geometric mean')}.",
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
    # A bar would hide a lone point under it.
    bars = [middle if len(each) > 1 else math.nan for middle, each in zip(middles, points, strict=True)]
    return Paired(view.axis_names[found.axis], names, points, bars, [show(middle) for middle in middles], words)


def _any_points(axes: Sequence[Paired]) -> bool:
    return any(len(points) for axis in axes for points in axis.points)


def blocks_read(axes: Sequence[Paired], alike: str, mean: str) -> str:
    """How the rows of some axes are to be read, where a block's results are alike in this and summed up by that."""
    rows = [points for axis in axes for points in axis.points]
    said = reading(rows, f"a point is one matched block ({alike})", f"of the matched blocks ({alike})",
                   f"the upright bar and the number are {mean}", MOST_BLOCKS)  # fmt: skip
    return f"{said[:1].upper()}{said[1:]}"


def _mean(column: pd.Series[float]) -> float:
    return float(column.mean())


def _times(ratio: float) -> str:
    return f"\N{MULTIPLICATION SIGN}{ratio:.2f}"
