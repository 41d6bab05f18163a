"""Scatter with error bars: cells between cost and accuracy, and timings under a roofline."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitbench.report.figures.charts import Front, Roofline
from vitbench.report.figures.colours import GREY, INK, PALETTE, PAPER, RULE
from vitbench.report.figures.data import frame
from vitbench.report.figures.parts import NAME_POINTS, colours, legend, numbers, place_legend, tip
from vitbench.report.text import significant

WIDTH = 6.6
"""Inches of a figure."""
MARKS = ("o", "s", "D", "^", "v", "<", ">", "*", "P", "h")
"""Marks of settings, in order, each with an inside that can be left open; after the last they begin again."""
AIR = 1.8
"""How many times as far as data and ridge the axis of intensity reaches."""


def front(chart: Front) -> Figure:
    """Every cell a point between cost and gain, and the line of those that none surpasses in both."""
    made = Figure(figsize=(WIDTH, 3.5), layout="constrained")
    ax, data, spots = made.subplots(), frame(chart), chart.spots
    shades = {value: colours(chart.colouring).get(value, PALETTE[0]) for value in data["colour"].unique()}
    data["shade"] = data["colour"].map(shades)
    if chart.logarithmic:
        ax.set_xscale("log")
    wide, tall = data.dropna(subset=["cost_low", "cost_high"]), data.dropna(subset=["spread"])
    ax.hlines(wide["gain"], wide["cost_low"], wide["cost_high"], colors=[*wide["shade"]], linewidth=0.8)
    ax.vlines(tall["cost"], tall["gain"] - tall["spread"], tall["gain"] + tall["spread"], colors=[*tall["shade"]],
              linewidth=0.8)  # fmt: skip
    for spot, shade in zip(spots, data["shade"], strict=True):
        ax.scatter(spot.cost, spot.gain, s=30, facecolors=PAPER if spot.marked else shade, zorder=3,
                   edgecolors=shade if spot.marked else PAPER, linewidths=1.1 if spot.marked else 0.4,
                   gid=tip(spot.name, f"{spot.gain:.1f} %, {significant(spot.cost)}"))  # fmt: skip
    best = sorted((spot for spot in spots if spot.best), key=lambda spot: spot.cost)
    # Between two cells nothing was measured: for a cost there is what the last cell gives that it pays for.
    ax.plot([s.cost for s in best], [s.gain for s in best], color=GREY, linewidth=1.2, linestyle=(0, (4, 2)), zorder=2,
            drawstyle="steps-post" if chart.cheap else "steps-pre")  # fmt: skip
    ax.margins(0.08)
    ax.autoscale_view()
    low, high = ax.get_xlim()
    numbers(ax.xaxis, 6, math.log10(high / low) if chart.logarithmic else None)
    numbers(ax.yaxis, 6)
    ax.set(xlabel=chart.cost + (", less is better" if chart.cheap else ""), ylabel=chart.gain)
    legend(made, chart.colouring)
    return made


def roofline(chart: Roofline) -> Figure:
    """Log-log axes: operations per byte, and GFLOP/s; ceilings as bands from the smallest to the largest."""
    made = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    ax, points = made.subplots(), chart.points
    ridges = [flops / of_bytes for flops in chart.flops_per_s for of_bytes in chart.bytes_per_s]
    low, high = (end(*(p.intensity for p in points), *ridges) for end in (min, max))
    low, high = low / AIR, high * AIR
    at = np.array(sorted({low, *ridges, high}))
    least, most = (np.minimum(flops, at * of_bytes) / 1e9
                   for flops, of_bytes in zip(chart.flops_per_s, chart.bytes_per_s, strict=True))  # fmt: skip
    ax.fill_between(at, least, most, color=RULE, alpha=0.5, linewidth=0, zorder=1)
    for roof in (least, most):
        ax.plot(at, roof, color=INK, linewidth=1.2, zorder=2)
    settings = [*dict.fromkeys(p.setting for p in points)]
    marks, shades = {s: MARKS[i % len(MARKS)] for i, s in enumerate(settings)}, colours(chart.colouring)
    for p in points:  # open, so that those at one place are seen as several
        setting = f", {p.setting}" if p.setting else ""
        ax.scatter(p.intensity, p.flops_per_s / 1e9, s=24, marker=marks[p.setting], facecolors="none", linewidths=1.1,
                   edgecolors=shades.get(p.value, PALETTE[0]), zorder=3,
                   gid=tip(f"{p.value}{setting}", f"{significant(p.flops_per_s / 1e9)} GFLOP/s"))  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylabel="achieved (GFLOP/s)",
           xlabel="operations per byte that must be moved (FLOP/B)")  # fmt: skip
    bottom, top = ax.get_ylim()
    numbers(ax.xaxis, 6, math.log10(high / low))
    numbers(ax.yaxis, 6, math.log10(top / bottom))
    # Each beside its line and not on it: the level one has air above it, the slope beneath its middle.
    ridge, level = min(ridges), chart.flops_per_s[0]
    foot, head = (min(level, x * chart.bytes_per_s[0]) / 1e9 for x in (low, ridge))
    slope = math.sqrt(low * ridge), math.sqrt(foot * head)
    for text, place, offset, side, edge in (
        ("copy", slope, (7, -5), "left", "top"), ("matrix product", (high, most[-1]), (-6, 4), "right", "bottom"),
    ):  # fmt: skip
        ax.annotate(text, place, xytext=offset, textcoords="offset points", ha=side, va=edge, fontsize=NAME_POINTS,
                    color=GREY)  # fmt: skip
    if any(settings):
        handles = [Line2D([], [], color=GREY, marker=m, linestyle="none", markersize=5, markerfacecolor="none")
                   for m in marks.values()]  # fmt: skip
        place_legend(made, handles, settings, below=True)
    legend(made, chart.colouring)
    return made
