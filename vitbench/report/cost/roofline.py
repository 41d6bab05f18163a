"""Roofline: what each timing achieved, under what its device was seen to do at most."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from vitbench.analysis.grouped import finished
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.figures.charts import Colouring, Picture, Roofline
from vitbench.report.origins import of_origin
from vitbench.report.view import View
from vitbench.wording import plural

SETTING = ["level", "level_shape", "batch_size", "mode"]
CEILINGS = ["ceiling_flops_per_s", "ceiling_bytes_per_s"]
"""What the device was seen to do beside a timing: of operations, and of bytes."""
CAPTION = (
    "Roofline of {title}{common}. The slope is the measured copy ({copy} GB/s{over}), the level the measured matrix "
    "product ({product} GFLOP/s{over}){bands}. A point is one timing: operations and least necessary traffic over its "
    "latency."
)


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
            several = len(ceilings) > 1
            facts = {
                "title": f"{device}, {dtype}{on}", "common": f": {common}" if common else "",
                "copy": _span(of_bytes), "product": _span(flops),
                "over": f" over {plural(len(ceilings), 'measurement')}" if several else "",
                "bands": ", bands from the smallest to the largest" if several else "",
            }  # fmt: skip
            chart, alt = Roofline(flops, of_bytes, colour, points), f"Roofline plot: {facts['title']}"
            pictures.append(Picture(f"roofline-{device}-{dtype}{suffix}", chart, alt, CAPTION.format_map(facts)))
    return pictures


def _span(ends: tuple[float, float]) -> str:
    """Billions, from the smallest to the largest."""
    low, high = (f"{end / 1e9:,.0f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _points(view: View, rows: pd.DataFrame, colour_by: Sequence[str]) -> tuple[Colouring, pd.DataFrame, str]:
    """What the colours stand for (an axis of the suite, or the cell), the points, and what all of these share."""
    groups = {(g.level, g.shape, g.batch_size, g.mode): _parts(g) for g in view.time_groups}
    axis = next((a for a in colour_by if rows[a].nunique() > 1), None) if view.factorial else None
    present = {key: groups[key] for key in rows[SETTING].drop_duplicates().itertuples(index=False, name=None)}
    varied = [len(set(parts)) > 1 for parts in zip(*present.values(), strict=True)]
    points = []
    for row in rows.to_dict("records"):
        parts = present[row["level"], row["level_shape"], int(row["batch_size"]), row["mode"]]
        setting = ", ".join(part for part, varies in zip(parts, varied, strict=True) if varies and part)
        points.append((setting, str(row[axis] if axis else row["cell"]), row["intensity"], row["flops_per_s"]))
    first = next(iter(present.values()))
    common = ", ".join(part for part, varies in zip(first, varied, strict=True) if part and not varies)
    frame = pd.DataFrame(points, columns=["setting", "colour", "flops_per_byte", "flops_per_s"])
    shown = [*frame["colour"].unique()]
    # A value has the colour that it has in the other pictures of the axis, whatever else was timed.
    values = view.axes[axis] if axis else shown
    return Colouring(axis or "cell", values, [value for value in values if value in shown]), frame, common


def _parts(group: TimeGroup) -> tuple[str, ...]:
    """A setting in words, of which those that all settings share need not be said of each."""
    return group.level.replace("_", " "), group.shape, f"batch {group.batch_size}", group.mode_name
