"""Drawing of rooflines."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from vitbench.report.charts import Colouring, Roofline
from vitbench.report.drawing.parts import GREY, INK, colours_of, legend, shorten

MARKS = "osD^vP*X<>"
"""Markers of settings, in order; after the last they begin again."""


def figure(chart: Roofline) -> Figure:
    """Log-log axes: operations per byte, and GFLOP/s."""
    points = chart.points
    made = Figure(figsize=(7.6, 5.4 + 0.09 * len({p.setting for p in points})), layout="constrained")
    ax = made.subplots()
    ridge = chart.flops_per_s / chart.bytes_per_s
    low = min(*(p.intensity for p in points), ridge) / 2
    high = max(*(p.intensity for p in points), ridge) * 4
    corners = np.array([low, ridge, high])
    roof = np.minimum(chart.flops_per_s, corners * chart.bytes_per_s) / 1e9
    ax.plot(corners, roof, color=INK, linewidth=1.4, zorder=2)
    values = list(dict.fromkeys(p.value for p in points))
    colouring = Colouring(chart.title, values, values)
    shades = colours_of(colouring)
    marks = {s: MARKS[i % len(MARKS)] for i, s in enumerate(dict.fromkeys(p.setting for p in points))}
    for point in points:
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
                    fontsize=8, color=GREY)  # fmt: skip
    handles = [Line2D([], [], color=GREY, marker=m, linestyle="none", markersize=5) for m in marks.values()]
    made.legend(handles, [shorten(s, 70) for s in marks], loc="outside lower center", ncols=2, fontsize=7)
    legend(made, colouring)
    return made
