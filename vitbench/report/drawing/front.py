"""Drawing of fronts: every cell a point between cost and gain, and the line of those that none surpasses in both."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from vitbench.report.drawing.parts import GREY, INK, NARROW, colours_of, guide, legend, legend_inches, single
from vitbench.report.plane_charts import Front, Spot

NEAR = 0.03
"""Share of the axes' width and height within which two letters would touch: they become one label."""
MOST_LISTED = 4
"""Letters of one label; of more it has the first and the last."""


def figure(chart: Front, *, narrow: bool = False) -> Figure:
    """The figure: a single panel."""
    width, height = (NARROW, 2.8) if narrow else (6.6, 3.55)
    made = Figure(figsize=(width, height + legend_inches(chart.colouring, width)), layout="constrained")
    ax, shades = made.subplots(), colours_of(chart.colouring)
    guide(ax)
    if chart.logarithmic:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1,) if narrow else (1, 2, 5)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.xaxis.set_major_locator(MaxNLocator(3 if narrow else 6, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    spread = [spot for spot in chart.spots if math.isfinite(spot.spread)]
    low, high = ([spot.gain + sign * spot.spread for spot in spread] for sign in (-1, 1))
    bars = [shades.get(spot.value, single()) for spot in spread]
    ax.vlines([spot.cost for spot in spread], low, high, colors=bars, linewidth=0.8)
    places = [spot.cost for spot in chart.spots], [spot.gain for spot in chart.spots]
    dots = [shades.get(spot.value, single()) for spot in chart.spots]
    ax.scatter(*places, s=22, c=dots, linewidths=0.4, edgecolors="white", zorder=3)
    best = sorted((spot for spot in chart.spots if spot.letter), key=lambda spot: spot.cost)
    # Between two cells nothing was measured: for a cost there is what the last cell gives that it pays for.
    steps = "steps-post" if chart.cheap else "steps-pre"
    ax.plot([s.cost for s in best], [s.gain for s in best], color=GREY, linewidth=1.2, linestyle=(0, (4, 2)),
            drawstyle=steps, zorder=2)  # fmt: skip
    ax.margins(0.08)
    ax.autoscale_view()
    for label, spot in _labels(ax, best, 2 * NEAR if narrow else NEAR):
        ax.annotate(label, (spot.cost, spot.gain), xytext=(5, 5), textcoords="offset points", fontsize=8.5,
                    fontweight="bold", color=INK, zorder=4)  # fmt: skip
    ax.set_xlabel(chart.cost + (", less is better" if chart.cheap else ""))
    ax.set_ylabel(chart.gain)
    legend(made, chart.colouring)
    return made


def _labels(ax: Axes, best: list[Spot], within: float) -> list[tuple[str, Spot]]:
    """Letters of the front, those too near to one another as one label at the last of them."""
    groups: list[list[tuple[Spot, tuple[float, float]]]] = []
    for spot in best:
        x, y = ax.transAxes.inverted().transform(ax.transData.transform((spot.cost, spot.gain)))
        near = groups and abs(x - groups[-1][-1][1][0]) < within and abs(y - groups[-1][-1][1][1]) < 2 * within
        if near:
            groups[-1].append((spot, (x, y)))
        else:
            groups.append([(spot, (x, y))])
    return [(_together([spot.letter for spot, _ in group]), group[-1][0]) for group in groups]


def _together(letters: Sequence[str]) -> str:
    return ", ".join(letters) if len(letters) <= MOST_LISTED else f"{letters[0]}–{letters[-1]}"
