"""Roofline: what each timing achieved, under what its device was seen to do at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from vitbench.analysis.summary import finished
from vitbench.report import canvas
from vitbench.report.figures import Picture, place
from vitbench.report.view import View, of_origin

MARKS = "osD^vP*X<>"
"""Markers of settings, in order; after the last they begin again."""


def rooflines(view: View) -> list[Picture]:
    """For each device, dtype and origin achieved operations per second over operations per byte; one point a timing.

    Source: Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model".
    """
    rows = finished(view.time)
    rows = rows[rows["ceiling_flops_per_s"].notna() & rows["flops_per_s"].notna() & (rows["flops"] > 0)]
    pictures = []
    for (device, dtype), of_device in rows.groupby(["device", "dtype"], sort=False):
        origins = view.origins(of_device)
        for origin in origins:
            on, suffix = place(view, origins, origin)
            mine = of_origin(of_device, origin)
            peak, band = mine["ceiling_flops_per_s"].max(), mine["ceiling_bytes_per_s"].max()
            plot = Roofline(float(peak), float(band), *_points(view, mine))
            title = f"{device}, {dtype}{on}"
            pictures.append(
                Picture(
                    f"roofline-{device}-{dtype}{suffix}",
                    plot.figure,
                    f"Roofline plot: {title}",
                    f"Roofline of {title}. The slope is the measured copy ({band / 1e9:,.0f} GB/s), the level the "
                    f"measured matrix product ({peak / 1e9:,.0f} GFLOP/s); a point is one timing: the operations of "
                    "its function and the least traffic that it needs, over its latency. What stands on the line "
                    "cannot be faster on this device.",
                )
            )
    return pictures


@dataclass(frozen=True)
class Point:
    """One timing: operations per byte, operations per second, and the words that choose its mark and its colour."""

    intensity: float
    flops_per_s: float
    setting: str
    value: str


def _points(view: View, rows: pd.DataFrame) -> tuple[str, list[Point]]:
    """What the colours stand for (an axis of the suite, or the cell), and the points."""
    groups = {(g.level, g.shape, g.batch_size, g.mode): g for g in view.time_groups}
    axis = next((a for a in view.axes if rows[a].nunique() > 1), None) if view.factorial else None
    points = []
    for row in rows.to_dict("records"):
        group = groups[row["level"], row["level_shape"], int(row["batch_size"]), row["mode"]]
        setting = f"{group.what}batch {group.batch_size}, {group.mode_name}"
        points.append(Point(row["intensity"], row["flops_per_s"], setting, str(row[axis] if axis else row["cell"])))
    return axis or "cell", points


@dataclass(frozen=True)
class Roofline:
    """A figure: two ceilings and the points under them.

    Attributes:
        flops_per_s: the level ceiling.
        bytes_per_s: the sloping one.
        title: what the colours stand for.
        points: the timings.
    """

    flops_per_s: float
    bytes_per_s: float
    title: str
    points: Sequence[Point]

    def figure(self) -> Figure:
        """Log-log axes: operations per byte, and GFLOP/s."""
        figure = Figure(figsize=(7.6, 5.4 + 0.09 * len({p.setting for p in self.points})), layout="constrained")
        ax = figure.subplots()
        ridge = self.flops_per_s / self.bytes_per_s
        low = min(*(p.intensity for p in self.points), ridge) / 2
        high = max(*(p.intensity for p in self.points), ridge) * 4
        corners = np.array([low, ridge, high])
        roof = np.minimum(self.flops_per_s, corners * self.bytes_per_s) / 1e9
        ax.plot(corners, roof, color=canvas.INK, linewidth=1.4, zorder=2)
        shades = canvas.colours(list(dict.fromkeys(p.value for p in self.points)))
        marks = {s: MARKS[i % len(MARKS)] for i, s in enumerate(dict.fromkeys(p.setting for p in self.points))}
        for point in self.points:
            ax.scatter(point.intensity, point.flops_per_s / 1e9, s=30, marker=marks[point.setting], alpha=0.85,
                       color=shades[point.value], linewidths=0.4, edgecolors="white", zorder=3)  # fmt: skip
        for axis, set_scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
            set_scale("log")
            axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0), numticks=12))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
        ax.set_xlim(low, high)
        ax.grid(which="major", color="0.93", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_xlabel("operations per byte that must be moved (FLOP/B)")
        ax.set_ylabel("achieved (GFLOP/s)")
        for text, x, y, side in (("copy", low, roof[0], "left"), ("matrix product", high, roof[2], "right")):
            ax.annotate(text, (x, y), xytext=(6 if side == "left" else -6, 4), textcoords="offset points", ha=side,
                        fontsize=8, color=canvas.GREY)  # fmt: skip
        handles = [Line2D([], [], color=canvas.GREY, marker=m, linestyle="none", markersize=5) for m in marks.values()]
        figure.legend(handles, [canvas.shorten(s, 70) for s in marks], loc="outside lower center", ncols=2, fontsize=7)
        canvas.legend(figure, self.title, shades)
        return figure
