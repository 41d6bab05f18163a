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
from vitbench.report.drawing.parts import GREY, INK, NARROW, RULE, Colour, colours_of, guide, legend, legend_inches
from vitbench.report.pictures.plane_charts import Roofline

MARKS = "osD^v<>*Ph"
"""Markers of settings, in order, with an inside that is left open; after the last they begin again."""
SETTING_POINTS = 7.0
LONGEST_SETTING = 80
"""Size of the letters of a setting, and how many there are at the most."""
ASIDE = 2.5
"""Points to each side of its place at which a mark stands at the most: less than its width, so that what is read off
the axis is right, and marks at one place are seen as several."""
AIR = 1.8
"""How many times as far as data and ridge the axis of intensity reaches."""


def figure(chart: Roofline, *, narrow: bool = False) -> Figure:
    """Log-log axes: operations per byte, and GFLOP/s."""
    points = chart.points
    settings = [*dict.fromkeys(p.setting for p in points)]
    width = NARROW if narrow else 7.6
    columns = 1 if narrow else 2
    height = (
        (3.1 if narrow else 4.6) + 0.15 * math.ceil(len(settings) / columns) + legend_inches(chart.colouring, width)
    )
    made = Figure(figsize=(width, height), layout="constrained")
    ax = made.subplots()
    ridges = [flops / of_bytes for flops in chart.flops_per_s for of_bytes in chart.bytes_per_s]
    low = min(*(p.intensity for p in points), *ridges) / AIR
    high = max(*(p.intensity for p in points), *ridges) * AIR
    at = np.array(sorted({low, *ridges, high}))
    least, most = (
        np.minimum(flops, at * of_bytes) / 1e9
        for flops, of_bytes in zip(chart.flops_per_s, chart.bytes_per_s, strict=True)
    )
    ax.fill_between(at, least, most, color=RULE, alpha=0.5, linewidth=0, zorder=1)
    for roof in (least, most):
        ax.plot(at, roof, color=INK, linewidth=1.2, zorder=2)
    marks = {s: MARKS[i % len(MARKS)] for i, s in enumerate(settings)}
    _points(ax, chart, marks, colours_of(chart.colouring))
    for axis, set_scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
        set_scale("log")
        few = narrow and axis is ax.xaxis and high / low > 100
        axis.set_major_locator(LogLocator(10, subs=(1.0,) if few else (1.0, 2.0, 5.0), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())
    ax.set_xlim(low, high)
    guide(ax)
    ax.set_xlabel("operations per byte that must be moved\n(FLOP/B)" if narrow else
                  "operations per byte that must be moved (FLOP/B)")  # fmt: skip
    ax.set_ylabel("achieved (GFLOP/s)")
    # Each beside its line and not on it: the level one has air above it, the slope beneath its middle.
    ridge = min(ridges)
    foot = (
        min(chart.flops_per_s[0], low * chart.bytes_per_s[0]),
        min(chart.flops_per_s[0], ridge * chart.bytes_per_s[0]),
    )
    slope = math.sqrt(low * ridge), math.sqrt(foot[0] * foot[1]) / 1e9
    for text, place, offset, side, edge in (
        ("copy", slope, (7, -5), "left", "top"), ("matrix product", (high, most[-1]), (-6, 4), "right", "bottom"),
    ):  # fmt: skip
        ax.annotate(text, place, xytext=offset, textcoords="offset points", ha=side, va=edge, fontsize=8, color=GREY)
    if any(settings):
        handles = [
            Line2D([], [], color=GREY, marker=m, linestyle="none", markersize=5, markerfacecolor="none")
            for m in marks.values()
        ]
        named = labels_of(settings, (width - 0.2) / columns - 0.3, SETTING_POINTS, LONGEST_SETTING)
        made.legend(handles, named, loc="outside lower left", ncols=columns, fontsize=SETTING_POINTS)
    legend(made, chart.colouring)
    return made


def _points(ax: Axes, chart: Roofline, marks: dict[str, str], shades: dict[str, Colour]) -> None:
    """Open marks, all but at their place: of one colour beside another's by no more than half a mark's width."""
    scale = ax.figure.dpi_scale_trans
    shown = {value: shade for value, shade in shades.items() if value in chart.colouring.shown}
    for place, (value, shade) in enumerate(shown.items()):
        aside = ASIDE * (2 * place / (len(shown) - 1) - 1) if len(shown) > 1 else 0.0
        moved = ax.transData + ScaledTranslation(aside / POINTS_PER_INCH, 0, scale)
        for point in (p for p in chart.points if p.value == value):
            ax.scatter(point.intensity, point.flops_per_s / 1e9, s=20, marker=marks[point.setting], facecolors="none",
                       edgecolors=shade, linewidths=1.1, transform=moved, zorder=3)  # fmt: skip
    ax.update_datalim([(p.intensity, p.flops_per_s / 1e9) for p in chart.points])
    ax.autoscale_view()
