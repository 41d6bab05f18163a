"""Roofline: what each timing achieved, under what its device was seen to do at most."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from vitbench.analysis.summary import finished
from vitbench.report.charts import Picture
from vitbench.report.markdown import Md
from vitbench.report.marks import Colouring
from vitbench.report.origins import of_origin
from vitbench.report.plane_charts import Point, Roofline
from vitbench.report.view import View


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
            peak, band = mine["ceiling_flops_per_s"].max(), mine["ceiling_bytes_per_s"].max()
            colour, points = _points(view, mine, colour_by)
            several = len({point.value for point in points}) > 1
            chart = Roofline(float(peak), float(band), colour, points)
            title = f"{device}, {dtype}{on}"
            pictures.append(
                Picture(
                    f"roofline-{device}-{dtype}{suffix}",
                    chart,
                    f"Roofline plot: {title}",
                    f"Roofline of {title}. The slope is the measured copy ({band / 1e9:,.0f} GB/s), the level the "
                    f"measured matrix product ({peak / 1e9:,.0f} GFLOP/s); a point is one timing: the operations of "
                    "its function and the least traffic that it needs, over its latency. What stands on the line "
                    "cannot be faster on this device."
                    + (" Points of one intensity stand side by side, by colour." if several else ""),
                )
            )
    return pictures


def without(view: View) -> list[Md]:
    """Why there is no roofline, where timings finished; nothing where none did."""
    rows = finished(view.time)
    if rows.empty:
        return []
    ceilings = (rows["ceiling_flops_per_s"] > 0) & (rows["ceiling_bytes_per_s"] > 0)
    what = "the operations and the traffic of what was timed" if ceilings.any() else "what the device can do at most"
    return [Md(f"No roofline is drawn: {what} {'were not counted' if ceilings.any() else 'was not measured'}.")]


def _points(view: View, rows: pd.DataFrame, colour_by: Sequence[str]) -> tuple[Colouring, list[Point]]:
    """What the colours stand for (an axis of the suite, or the cell), and the points."""
    groups = {(g.level, g.shape, g.batch_size, g.mode): g for g in view.time_groups}
    axis = next((a for a in colour_by if rows[a].nunique() > 1), None) if view.factorial else None
    points = []
    for row in rows.to_dict("records"):
        group = groups[row["level"], row["level_shape"], int(row["batch_size"]), row["mode"]]
        setting = f"{group.what}batch {group.batch_size}, {group.mode_name}"
        points.append(Point(row["intensity"], row["flops_per_s"], setting, str(row[axis] if axis else row["cell"])))
    present = [*dict.fromkeys(point.value for point in points)]
    # A value has the colour that it has in the other pictures of the axis, whatever else was timed.
    values = view.axes[axis] if axis else present
    return Colouring(axis or "cell", values, [value for value in values if value in present]), points
