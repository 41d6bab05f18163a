"""Points with error bars: effects by row, cells between cost and accuracy, and timings under a roofline."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from vitbench.report.document import Forest, tone
from vitbench.report.figures.charts import Colouring, Front, Roofline
from vitbench.report.figures.colours import GREY, INK, PALETTE, PAPER, RULE
from vitbench.report.figures.parts import (
    NAME_POINTS,
    colours,
    fit,
    in_two,
    inches,
    legend,
    numbers,
    tip,
)
from vitbench.report.text import significant

NAMED, BESIDE, ROW, NUMBERS = 2.9, 2.7, 0.3, 1.6
"""Inches of a forest plot: of the names at the most, of the panel, of a row, and of the numbers at the right."""
TONES = {"good": ("^", PALETTE[2]), "bad": ("v", PALETTE[1]), "same": ("s", PALETTE[0]), "open": ("o", GREY)}
"""Tone of a verdict → its mark and its colour."""
WIDTH = 6.6
"""Inches of a front, and of a roofline."""
MARKS = ("o", "s", "D", "^", "v", "<", ">", "*", "P", "h")
"""Marks of settings, in order, each with an inside that can be left open; after the last they begin again."""
AIR = 1.8
"""How many times as far as data and ridge the axis of intensity reaches."""


def forest(chart: Forest) -> Figure:
    """A row for each effect: its seeds, its interval, its value and its verdict. A page lays out its own."""
    rows, scale = chart.rows, chart.scale
    names = fit([f"{row.name} ({row.context})" for row in rows], NAMED, NAME_POINTS, lines=2)
    named = max((inches(name, NAME_POINTS) for name in names), default=0.5)
    made = Figure(figsize=(named + BESIDE + NUMBERS, ROW * max(len(rows), 2) + 0.7), layout="constrained")
    ax = made.subplots()
    if scale.margin is not None:
        ax.axvspan(*scale.margin, color=RULE, linewidth=0, zorder=0)
    if scale.neutral is not None:
        ax.axvline(scale.neutral, color=GREY, linewidth=1.0, zorder=1)
    if scale.logarithmic:
        ax.set_xscale("log")
    for at, row in enumerate(rows):
        mark, shade = TONES[tone(row.verdict)]
        ax.hlines(at, row.bar.low, row.bar.high, colors=[shade], linewidth=2.5, alpha=0.5, zorder=3)
        ax.plot(row.bar.value, at, mark, color=shade, markersize=6, zorder=5)
        ax.text(1.02, at, f"{row.number[0]}  {row.verdict}", transform=ax.get_yaxis_transform(), va="center",
                fontsize=NAME_POINTS)  # fmt: skip
    points = [(point, at + 0.25) for at, row in enumerate(rows) for point in row.bar.points if math.isfinite(point)]
    if points:
        values, places = np.transpose(points)
        ax.scatter(values, places, s=9, color=GREY, linewidth=0, zorder=4)
    ax.set(ylabel="", ylim=(len(rows) - 0.4, -0.6), xlabel=in_two(chart.title, BESIDE))
    ax.set_yticks(range(len(rows)), names)
    ax.yaxis.grid(visible=False)
    numbers(ax.xaxis)
    return made


def front(chart: Front) -> Figure:
    """Every cell a point between cost and gain, and the line of those that none surpasses in both."""
    made = Figure(figsize=(WIDTH, 3.5), layout="constrained")
    ax, shades = made.subplots(), colours(chart.colouring)
    data = chart.frame.assign(shade=[shades.get(value, PALETTE[0]) for value in chart.frame["colour"]])
    if chart.logarithmic:
        ax.set_xscale("log")
    wide, tall = data.dropna(subset=["cost_low", "cost_high"]), data.dropna(subset=["spread"])
    ax.hlines(wide["gain"], wide["cost_low"], wide["cost_high"], colors=[*wide["shade"]], linewidth=0.8)
    ax.vlines(tall["cost"], tall["gain"] - tall["spread"], tall["gain"] + tall["spread"], colors=[*tall["shade"]],
              linewidth=0.8)  # fmt: skip
    for spot in data.to_dict("records"):
        colours_of_spot = (PAPER, spot["shade"]) if spot["marked"] else (spot["shade"], PAPER)
        ax.scatter(spot["cost"], spot["gain"], s=30, facecolors=colours_of_spot[0], edgecolors=colours_of_spot[1],
                   linewidths=1.1 if spot["marked"] else 0.4, zorder=3,
                   gid=tip(spot["cell"], f"{spot['gain']:.1f} %, {significant(spot['cost'])}"))  # fmt: skip
    best = data[data["on_the_line"].astype(bool)].sort_values("cost", kind="stable")
    # Between two cells nothing was measured: for a cost there is what the last cell gives that it pays for.
    ax.plot(best["cost"], best["gain"], color=GREY, linewidth=1.2, linestyle=(0, (4, 2)), zorder=2,
            drawstyle="steps-post" if chart.cheap else "steps-pre")  # fmt: skip
    ax.margins(0.08)
    ax.autoscale_view()
    numbers(ax.xaxis)
    numbers(ax.yaxis)
    ax.set(xlabel=chart.cost + (", less is better" if chart.cheap else ""), ylabel=chart.gain)
    legend(made, chart.colouring)
    return made


def roofline(chart: Roofline) -> Figure:
    """Log-log axes: operations per byte, and GFLOP/s; ceilings as bands from the smallest to the largest."""
    made = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    ax, points = made.subplots(), chart.points
    ridges = [flops / of_bytes for flops in chart.flops_per_s for of_bytes in chart.bytes_per_s]
    low, high = (end(*points["flops_per_byte"], *ridges) for end in (min, max))
    low, high = low / AIR, high * AIR
    at = np.array(sorted({low, *ridges, high}))
    least, most = (np.minimum(flops, at * of_bytes) / 1e9
                   for flops, of_bytes in zip(chart.flops_per_s, chart.bytes_per_s, strict=True))  # fmt: skip
    ax.fill_between(at, least, most, color=RULE, alpha=0.5, linewidth=0, zorder=1)
    for roof in (least, most):
        ax.plot(at, roof, color=INK, linewidth=1.2, zorder=2)
    settings = [*points["setting"].unique()]
    marks, shades = {s: MARKS[i % len(MARKS)] for i, s in enumerate(settings)}, colours(chart.colouring)
    for setting, value, intensity, flops in points.itertuples(index=False, name=None):
        name = f"{value}, {setting}" if setting else value
        ax.scatter(intensity, flops / 1e9, s=24, marker=marks[setting], facecolors="none", linewidths=1.1, zorder=3,
                   edgecolors=shades.get(value, PALETTE[0]),  # open, so that those at one place are seen as several
                   gid=tip(name, f"{significant(flops / 1e9)} GFLOP/s"))  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylabel="achieved (GFLOP/s)",
           xlabel="operations per byte that must be moved (FLOP/B)")  # fmt: skip
    numbers(ax.xaxis)
    numbers(ax.yaxis)
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
        look = {"color": GREY, "linestyle": "none", "markersize": 5, "markerfacecolor": "none"}
        looks = {setting: {**look, "marker": mark} for setting, mark in marks.items()}
        legend(made, Colouring("", settings, settings), looks, below=True)
    legend(made, chart.colouring)
    return made
