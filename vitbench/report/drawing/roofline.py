"""Drawing of rooflines."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from vitbench.report.drawing.names import POINTS_PER_INCH, labels_of
from vitbench.report.drawing.parts import GREY, INK, NARROW, Colour, colours_of, guide, legend, legend_inches
from vitbench.report.plane_charts import Roofline

MARKS = "osD^vP*X<>"
"""Markers of settings, in order; after the last they begin again."""
SETTING_POINTS = 7.0
LONGEST_SETTING = 80
"""Size of the letters of a setting, and how many there are at the most."""
BESIDE, MOST_BESIDE = 7.0, 42.0
"""Points between the marks of two colours at the same place of the axis, and between the first and the last."""


def figure(chart: Roofline, *, narrow: bool = False) -> Figure:
    """Log-log axes: operations per byte, and GFLOP/s. What is timed of one thing stands side by side, by colour."""
    points = chart.points
    settings = [*dict.fromkeys(p.setting for p in points)]
    width = NARROW if narrow else 7.6
    columns = 1 if narrow else 2
    height = (
        (3.1 if narrow else 4.6) + 0.15 * math.ceil(len(settings) / columns) + legend_inches(chart.colouring, width)
    )
    made = Figure(figsize=(width, height), layout="constrained")
    ax = made.subplots()
    ridge = chart.flops_per_s / chart.bytes_per_s
    low = min(*(p.intensity for p in points), ridge) / 2
    high = max(*(p.intensity for p in points), ridge) * 4
    corners = np.array([low, ridge, high])
    roof = np.minimum(chart.flops_per_s, corners * chart.bytes_per_s) / 1e9
    ax.plot(corners, roof, color=INK, linewidth=1.4, zorder=2)
    marks = {s: MARKS[i % len(MARKS)] for i, s in enumerate(settings)}
    _points(ax, chart, marks, colours_of(chart.colouring))
    for axis, set_scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
        set_scale("log")
        few = narrow and axis is ax.xaxis
        axis.set_major_locator(LogLocator(10, subs=(1.0,) if few else (1.0, 2.0, 5.0), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())
    ax.set_xlim(low, high)
    guide(ax)
    ax.set_xlabel("operations per byte that must be moved\n(FLOP/B)" if narrow else
                  "operations per byte that must be moved (FLOP/B)")  # fmt: skip
    ax.set_ylabel("achieved (GFLOP/s)")
    # Each beside its line and not on it: the level one has air above it, the slope beneath its middle.
    slope = (float(np.sqrt(low * ridge)), float(np.sqrt(roof[0] * roof[1])))
    for text, place, offset, side, edge in (
        ("copy", slope, (7, -5), "left", "top"), ("matrix product", (high, roof[2]), (-6, 4), "right", "bottom"),
    ):  # fmt: skip
        ax.annotate(text, place, xytext=offset, textcoords="offset points", ha=side, va=edge, fontsize=8, color=GREY)
    handles = [Line2D([], [], color=GREY, marker=m, linestyle="none", markersize=5) for m in marks.values()]
    named = labels_of(settings, (width - 0.2) / columns - 0.3, SETTING_POINTS, LONGEST_SETTING)
    made.legend(handles, named, loc="outside lower left", ncols=columns, fontsize=SETTING_POINTS)
    legend(made, chart.colouring)
    return made


def _points(ax: Axes, chart: Roofline, marks: dict[str, str], shades: dict[str, Colour]) -> None:
    step = min(BESIDE, MOST_BESIDE / max(1, len(chart.colouring.shown) - 1))
    scale = ax.figure.dpi_scale_trans
    shown = {value: shade for value, shade in shades.items() if value in chart.colouring.shown}
    for place, (value, shade) in enumerate(shown.items()):
        aside = (place - (len(shown) - 1) / 2) * step / POINTS_PER_INCH
        moved = ax.transData + ScaledTranslation(aside, 0, scale)
        for point in (p for p in chart.points if p.value == value):
            ax.scatter(point.intensity, point.flops_per_s / 1e9, s=26, marker=marks[point.setting], color=shade,
                       linewidths=0.4, edgecolors="white", transform=moved, zorder=3)  # fmt: skip
    ax.update_datalim([(p.intensity, p.flops_per_s / 1e9) for p in chart.points])
    ax.autoscale_view()
