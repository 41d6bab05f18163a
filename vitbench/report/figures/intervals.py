"""Intervals: a forest plot as a figure, for papers and slides; a page lays out its own."""

from __future__ import annotations

import math

import seaborn as sns
from matplotlib.figure import Figure

from vitbench.report.document import tone
from vitbench.report.figures.charts import ForestPlot
from vitbench.report.figures.colours import GREY, PALETTE, RULE
from vitbench.report.figures.data import frame
from vitbench.report.figures.names import fit, inches
from vitbench.report.figures.parts import NAME_POINTS, in_two, numbers

NAMED, BESIDE, ROW, NUMBERS = 2.9, 2.7, 0.3, 1.6
"""Inches: of the names of rows at the most, of the panel, of a row, and of the numbers at the right."""
MARKS = {"good": ("^", PALETTE[2]), "bad": ("v", PALETTE[1]), "same": ("s", PALETTE[0]), "open": ("o", GREY)}
"""Tone of a verdict → its mark and its colour."""


def forest(chart: ForestPlot) -> Figure:
    """A row for each effect: its seeds, its interval, its value and its verdict."""
    rows, scale, data = chart.plot.rows, chart.plot.scale, frame(chart)
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
        mark, shade = MARKS[tone(row.verdict)]
        ax.hlines(at, row.bar.low, row.bar.high, colors=[shade], linewidth=2.5, alpha=0.5, zorder=3)
        ax.plot(row.bar.value, at, mark, color=shade, markersize=6, zorder=5)
        ax.text(1.02, at, f"{row.number[0]}  {row.verdict}", transform=ax.get_yaxis_transform(), va="center",
                fontsize=NAME_POINTS)  # fmt: skip
    places = {(row.name, row.context): at for at, row in enumerate(rows)}
    points = data[data["what"] == "point"].assign(
        at=lambda rows: [places[key] + 0.25 for key in zip(rows["name"], rows["context"], strict=True)]
    )
    if len(points):
        sns.scatterplot(points, x="value", y="at", s=9, color=GREY, linewidth=0, zorder=4, legend=False, ax=ax)
    ax.set(ylabel="", ylim=(len(rows) - 0.4, -0.6))
    ax.set_xlabel(in_two(chart.plot.title, BESIDE))
    ax.set_yticks(range(len(rows)), names)
    ax.yaxis.grid(visible=False)
    low, high = ax.get_xlim()
    numbers(ax.xaxis, 6, math.log10(high / low) if scale.logarithmic else None)
    return made
