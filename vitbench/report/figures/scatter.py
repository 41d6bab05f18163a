"""Scatter with error bars: cells between cost and accuracy, and timings under a roofline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitbench.report.figures.charts import Front, Roofline, Spot
from vitbench.report.figures.colours import GREY, INK, PALETTE, PAPER, RULE
from vitbench.report.figures.data import frame
from vitbench.report.figures.names import inches
from vitbench.report.figures.parts import NAME_POINTS, colours, legend, numbers, place_legend

WIDTH = 6.6
"""Inches of a figure."""
MARKS = ("o", "s", "D", "^", "v", "<", ">", "*", "P", "h")
"""Marks of settings, in order, each with an inside that can be left open; after the last they begin again."""
AIR = 1.8
"""How many times as far as data and ridge the axis of intensity reaches."""
NEAR = 10.0, 8.0
"""Points, across and upright, within which two cells share a label: their letters would touch."""
MOST_LISTED = 4
"""Letters of one label; of more it has the first ones."""
Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""


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
    for hollow, mine in data.groupby("marked"):
        inside, edges = (dict.fromkeys(shades, PAPER), [*mine["shade"]]) if hollow else (shades, PAPER)
        sns.scatterplot(mine, x="cost", y="gain", hue="colour", palette=inside, edgecolor=edges, s=30, zorder=3,
                        linewidth=1.1 if hollow else 0.4, legend=False, ax=ax)  # fmt: skip
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
    made.draw_without_rendering()  # so that the panel has its size, and labels their room
    _letters(ax, spots)
    return made


def _letters(ax: Axes, spots: Sequence[Spot]) -> None:
    """Write letters beside points, bold for the line; those too near to one another share a label."""
    scale = 72 / ax.figure.dpi
    places = ax.transData.transform([(s.cost, s.gain) for s in spots]) * scale
    left, bottom, right, top = (end * scale for end in ax.get_window_extent().extents)
    taken = list[Box]()
    for group in _groups(spots, places):
        bold = spots[group[0]].best
        text = ", ".join(spots[n].letter for n in group[:MOST_LISTED]) + ", …" * (len(group) > MOST_LISTED)
        wide, high = inches(text, NAME_POINTS) * 72 * (1.15 if bold else 1.0) + 1.0, NAME_POINTS + 1.5
        offsets = [(dx, dy) for dx in (4.0, -4.0 - wide) for dy in (3.0, -3.0 - high)]
        offsets += [(-wide / 2, 5.0), (-wide / 2, -5.0 - high), (5.0, -high / 2), (-5.0 - wide, -high / 2)]
        tried = [
            (n, dx, dy, (places[n][0] + dx, places[n][1] + dy, places[n][0] + dx + wide, places[n][1] + dy + high))
            for n in group
            for dx, dy in offsets
        ]
        free = [
            each
            for each in tried
            if left < each[3][0] and each[3][2] < right and bottom < each[3][1] and each[3][3] < top
            and not any(_meet(each[3], other) for other in taken)
        ]  # fmt: skip
        if free:
            hidden = [sum(_meet(each[3], (x - 3, y - 3, x + 3, y + 3)) for x, y in places) for each in free]
            n, dx, dy, box = free[int(np.argmin(hidden))]
            taken.append(box)
            ax.annotate(text, (spots[n].cost, spots[n].gain), xytext=(dx, dy), textcoords="offset points", va="bottom",
                        fontsize=NAME_POINTS, fontweight="bold" if bold else "normal", color=INK if bold else GREY,
                        zorder=4, in_layout=False)  # fmt: skip


def _groups(spots: Sequence[Spot], places: np.ndarray) -> Iterator[list[int]]:
    """Cells with letters, each with those near to it, and to these; those of the line first, then by letter."""
    left = sorted((n for n, s in enumerate(spots) if s.letter), key=lambda n: (not spots[n].best, n))
    while left:
        group = [left.pop(0)]
        for n in group:  # it grows
            near = [other for other in left if (np.abs(places[other] - places[n]) < NEAR).all()]
            group += near
            left = [other for other in left if other not in near]
        yield sorted(group, key=lambda n: (not spots[n].best, len(spots[n].letter), spots[n].letter))


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


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
        ax.scatter(p.intensity, p.flops_per_s / 1e9, s=24, marker=marks[p.setting], facecolors="none", linewidths=1.1,
                   edgecolors=shades.get(p.value, PALETTE[0]), zorder=3)  # fmt: skip
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
