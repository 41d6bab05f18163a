"""Drawing of rows: dots or spreads by row, panels side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitbench.report.charts import Panel, Rows, is_many
from vitbench.report.drawing.parts import GREY, INK, ROW_INCHES, Colour, colours_of, legend, shorten, single, spreads


def figure(chart: Rows) -> Figure:
    """The figure; its height grows with the rows."""
    chosen = colours_of(chart.colouring)
    extra = 0.45 if chart.colouring.shown else 0.0
    labels = [shorten(name) for name in chart.names]
    panels = chart.panels
    width = 1.2 + 0.062 * max(map(len, labels), default=1) + (5.0 if len(panels) == 1 else 2.6 * len(panels))
    made = Figure(figsize=(width, 0.75 + extra + ROW_INCHES * max(len(labels), 3)), layout="constrained")
    axes = made.subplots(1, len(panels), squeeze=False)[0]
    shades = [chosen.get(value, single()) for value in chart.values]
    for ax, panel in zip(axes, panels, strict=True):
        _fill(ax, panel, chart.words, shades)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_yticks(range(len(labels)) if ax is axes[0] else [], labels if ax is axes[0] else [])
    legend(made, chart.colouring)
    return made


def _fill(ax: Axes, panel: Panel, words: Sequence[str], shades: Sequence[Colour]) -> None:
    ax.set_axisbelow(True)
    ax.grid(axis="x", color="0.93", linewidth=0.8)
    ax.hlines(range(len(words)), 0, 1, transform=ax.get_yaxis_transform(), color="0.93", linewidth=0.8, zorder=0)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    ax.set_xlabel(panel.label)
    for row, (low, high) in enumerate(panel.spans):
        width = 8 if is_many(panel.points[row]) else 4  # to be seen behind points and behind a bar
        ax.plot([low, high], [row, row], color=shades[row], linewidth=width, alpha=0.3, solid_capstyle="butt")
    places = [(value, row) for row, values in enumerate(panel.points) if not is_many(values) for value in values]
    if places:
        x, y = np.array(places).T
        ax.scatter(x, y, s=16, c=[shades[int(row)] for row in y], linewidths=0.4, edgecolors="white", zorder=3)
    many = [row for row, values in enumerate(panel.points) if is_many(values)]
    spreads(ax, many, [panel.points[row] for row in many], [shades[row] for row in many], width=4)
    several = [row for row, values in enumerate(panel.points) if len(values) != 1]
    ax.scatter([panel.middles[row] for row in several], several, marker="|", s=70, color=INK, linewidths=1.3, zorder=4)
    for row, word in enumerate(words):
        if word:
            ax.text(0.01, row, word, transform=ax.get_yaxis_transform(), va="center", fontsize=7.5, color=GREY,
                    style="italic")  # fmt: skip
    if panel.limits is not None:
        ax.set_xlim(*panel.limits)
