"""Roofline: what each timing achieved, under what its device was seen to do at most."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from vitbench.analysis.grouped import finished
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.figures.charts import Colouring, Picture, Roofline
from vitbench.report.inline import Md
from vitbench.report.origins import of_origin
from vitbench.report.text import plural
from vitbench.report.view import View

SETTING = ["level", "level_shape", "batch_size", "mode"]
CEILINGS = ["ceiling_flops_per_s", "ceiling_bytes_per_s"]
"""What the device was seen to do beside a timing: of operations, and of bytes."""


def rooflines(view: View, colour_by: Sequence[str]) -> list[Picture]:
    """For each device, dtype and origin achieved operations per second over operations per byte; one point a timing.

    Args:
        view: the study.
        colour_by: its axes, of which the first that differs between timings colours them.

    Source: Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model".
    """
    rows = finished(view.time)
    measured = (rows["ceiling_flops_per_s"] > 0) & (rows["ceiling_bytes_per_s"] > 0)
    rows = rows[measured & (rows["flops_per_s"] > 0) & (rows["intensity"] > 0)]
    pictures = []
    for (device, dtype), of_device in rows.groupby(["device", "dtype"], sort=False):
        origins = view.origins.of(of_device)
        for origin in origins:
            on, suffix = view.origins.on(origin, origins)
            mine = of_origin(of_device, origin)
            colour, points, common = _points(view, mine, colour_by)
            ceilings = mine[[*SETTING, *CEILINGS]].drop_duplicates()
            flops, of_bytes = ((float(ceilings[c].min()), float(ceilings[c].max())) for c in CEILINGS)
            title = f"{device}, {dtype}{on}"
            several = len(ceilings) > 1
            over = f" over {plural(len(ceilings), 'measurement')}" if several else ""
            said = (
                f"Roofline of {title}{f': {common}' if common else ''}. The slope is the measured copy "
                f"({_span(of_bytes)} GB/s{over}), the level the measured matrix product ({_span(flops)} GFLOP/s{over})"
                + (", bands from the smallest to the largest" if several else "")
                + ". A point is one timing: operations and least necessary traffic over its latency."
            )
            pictures.append(
                Picture(
                    f"roofline-{device}-{dtype}{suffix}",
                    Roofline(flops, of_bytes, colour, points),
                    f"Roofline plot: {title}",
                    said,
                )
            )
    return pictures


def without(view: View) -> list[Md]:
    """Why there is no roofline, where timings finished; nothing where none did."""
    rows = finished(view.time)
    if rows.empty:
        return []
    ceilings = (rows["ceiling_flops_per_s"] > 0) & (rows["ceiling_bytes_per_s"] > 0)
    why = "operations and traffic were not counted" if ceilings.any() else "the device's ceilings were not measured"
    return [Md(f"No roofline: {why}.")]


def _span(ends: tuple[float, float]) -> str:
    """Billions, from the smallest to the largest."""
    low, high = (f"{end / 1e9:,.0f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _points(view: View, rows: pd.DataFrame, colour_by: Sequence[str]) -> tuple[Colouring, pd.DataFrame, str]:
    """What the colours stand for (an axis of the suite, or the cell), the points, and what all of these share."""
    groups = {(g.level, g.shape, g.batch_size, g.mode): g for g in view.time_groups}
    axis = next((a for a in colour_by if rows[a].nunique() > 1), None) if view.factorial else None
    present = [groups[key] for key in rows[SETTING].drop_duplicates().itertuples(index=False, name=None)]
    parts = {group: _parts(group) for group in present}
    told = [len({mine[n] for mine in parts.values()}) > 1 for n in range(len(parts[present[0]]))]
    points = []
    for row in rows.to_dict("records"):
        mine = parts[groups[row["level"], row["level_shape"], int(row["batch_size"]), row["mode"]]]
        setting = ", ".join(part for part, tells in zip(mine, told, strict=True) if tells and part)
        points.append((setting, str(row[axis] if axis else row["cell"]), row["intensity"], row["flops_per_s"]))
    common = ", ".join(part for part, tells in zip(parts[present[0]], told, strict=True) if part and not tells)
    frame = pd.DataFrame(points, columns=["setting", "colour", "flops_per_byte", "flops_per_s"])
    shown = [*frame["colour"].unique()]
    # A value has the colour that it has in the other pictures of the axis, whatever else was timed.
    values = view.axes[axis] if axis else shown
    return Colouring(axis or "cell", values, [value for value in values if value in shown]), frame, common


def _parts(group: TimeGroup) -> tuple[str, ...]:
    """A setting in words, of which those that all settings share need not be said of each."""
    return group.level.replace("_", " "), group.shape, f"batch {group.batch_size}", group.mode_name
