"""Intervals by row: single values as points, what stands for them, its interval, and words where there is no result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitbench.report.figures.charts import Ends, Forest, Pairs, Rows
from vitbench.report.figures.colours import GREY, INK, PALETTE, RULE, colours_of
from vitbench.report.figures.data import intervals
from vitbench.report.figures.marks import MOST_BLOCKS, MOST_POINTS, limits
from vitbench.report.figures.names import fit, inches
from vitbench.report.figures.parts import (
    NAME_POINTS,
    TEXT_POINTS,
    WIDEST,
    colours,
    in_two,
    legend,
    numbers,
    place_legend,
)

NAMED, BESIDE_ONE, BESIDE_SEVERAL = 2.9, 3.9, 2.5
"""Inches: of the names of rows at the most, and of a panel alone or beside others."""
ROW, SECOND_LINE, ARM = 0.22, 0.13, 0.13
"""Inches: of a row, of the second line of its name, and of each mark beyond the first in a row."""
POINT = 3.8
"""Points: the width of a mark."""
STACK, ALL_TALLER = 0.45, 10.0
"""Inches up to which a row grows with the points at one value, and all rows together."""
MOST_BESIDE = 3
"""Panels side by side."""
MARKS = {"o": 5.5, "s": 5.2, "D": 4.8, "^": 6.0, "v": 6.0, "P": 6.2, "*": 8.0, "X": 6.2}
"""Mark of an arm, beside its colour → its width in points, with which all look equally large."""


def _stacked(chart: Rows) -> tuple[pd.DataFrame, float]:
    """The marks of a chart, points that would hide one another in lines, and how much taller its rows are for it."""
    data, wide = intervals(chart).assign(line=0.0), BESIDE_ONE if len(chart.panels) == 1 else BESIDE_SEVERAL
    for number, panel in enumerate(chart.panels):
        low, high = panel.limits or limits(np.concatenate([[0.0], *panel.points])) or (0.0, 1.0)
        points = data[(data["panel"] == number) & (data["what"] == "point")]
        for _, values in points.groupby("at", sort=False)["value"]:
            if len(values) <= MOST_POINTS:
                data.loc[values.index, "line"] = _lines(values.to_numpy(), POINT / 72 / wide * (high - low))
    most = float(data["line"].abs().max()) if len(data) else 0.0
    row = max(ROW, min((2 * most + 2) * POINT / 72, STACK, ALL_TALLER / max(len(chart.names), 1)))
    step = min(POINT / 72, (0.95 * row - POINT / 72) / (2 * most)) / row if most else 0.0
    return data.assign(y=data["at"] - step * data["line"]), row - ROW


def _lines(values: npt.NDArray[np.float64], apart: float) -> list[float]:
    """For each point the line on which it is: 0 is the middle of its row, above it are 1, 2, …, below it -1, -2, ….

    Points are on one line where they are so far apart that none hides another.
    """
    found, ends = [0.0] * len(values), list[float]()
    for place in np.argsort(values, kind="stable"):
        line = next((n for n, end in enumerate(ends) if values[place] - end >= apart), len(ends))
        ends[line : line + 1] = [values[place]]
        found[place] = math.copysign((line + 1) // 2, line % 2 - 0.5)
    return found


class _Sheet(NamedTuple):
    """Panels in lines, for each line the names of its rows as they are written, and the inches that a panel is wide."""

    figure: Figure
    panels: np.ndarray
    names: list[list[str]]
    room: float


def rows(chart: Rows) -> Figure:
    """A panel for each quantity, a row for each name."""
    (data, taller), several = _stacked(chart), len(chart.panels) > 1
    beside = min(len(chart.panels), MOST_BESIDE)
    every = list(enumerate(chart.panels))
    beneath = [every[start : start + beside] for start in range(0, len(every), beside)]
    made, grid, names, room = _grid([chart.names] * len(beneath), beside, labelled=len(beneath), taller=taller)
    for axes, panels in zip(grid, beneath, strict=True):
        for ax, (number, panel) in zip(axes, panels, strict=False):
            _panel(ax, data[data["panel"].isin((number, -1))], names[0], colours(chart.colouring))
            ax.set_xlabel(in_two(panel.label, room))
            if panel.limits is not None:
                ax.set_xlim(*panel.limits)
            numbers(ax.xaxis, 3 if several else 6)
        for ax in axes[len(panels) :]:
            ax.remove()
    legend(made, chart.colouring)
    return made


def pairs(chart: Pairs) -> Figure:
    """A panel for each axis and column, in one scale, its means written at the right."""
    data, columns = intervals(chart), chart.columns
    # A block keeps its height within the row over all rows, so that it can be followed.
    blocks = data[data["what"] == "point"].groupby(["block", "panel", "at"])["value"]
    share = blocks.cumcount() / (blocks.transform("size") - 1).clip(lower=1) - 0.5
    data["y"] = data["at"] + 0.56 * share.where(blocks.transform("size") > 1, 0.0)
    made, grid, names, room = _grid([axis.names for axis in columns[0][1]], len(columns), titled=True, right=0.6)
    ends = limits([*data["value"], chart.neutral - chart.band, chart.neutral + chart.band])
    for column, (title, axes) in enumerate(columns):
        for block, (ax, axis, labels) in enumerate(zip(grid[:, column], axes, names, strict=True)):
            if chart.band:
                ax.axvspan(chart.neutral - chart.band, chart.neutral + chart.band, color=RULE, linewidth=0, zorder=0)
                for end in (-chart.band, chart.band):
                    ax.axvline(chart.neutral + end, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
            ax.axvline(chart.neutral, color=GREY, linewidth=0.8, zorder=1)
            shown = data[(data["panel"] == column) & (data["block"] == block)]
            _panel(ax, shown, labels, {}, MOST_BLOCKS)
            for row, (mean, word) in enumerate(zip(axis.means, axis.words, strict=True)):
                if not word:
                    ax.text(1.02, row, mean, transform=ax.get_yaxis_transform(), va="center", fontsize=NAME_POINTS)
            heading = f"{title}: {axis.axis}" if title else axis.axis
            ax.set_title(fit([heading], (room + 0.5) * 0.87, TEXT_POINTS)[0], fontweight="bold")  # bold is wider
            ax.set_xlim(*(ends or (0.0, 1.0)))
            numbers(ax.xaxis, 6 if len(columns) == 1 else 4)
            ax.tick_params(labelbottom=ax is grid[-1, column])
        grid[-1, column].set_xlabel(in_two(chart.label, room))
    return made


def forest(chart: Forest) -> Figure:
    """A row for each thing that is estimated, the marks of its arms one below the other."""
    data, arms = intervals(chart), [*chart.arms]
    having = data[data["what"] == "estimate"].groupby("at", sort=False)["hue"].nunique()
    most = int(having.max()) if len(having) else 1
    made, grid, names, room = _grid([chart.names], 1, taller=ARM * (most - 1))
    ax, shades = grid[0, 0], [*colours_of([str(n) for n in range(max(chart.places, default=0) + 1)]).values()]
    marks = {arm: [*MARKS][place % len(MARKS)] for arm, place in zip(arms, chart.places, strict=True)}
    palette = {arm: shades[place] for arm, place in zip(arms, chart.places, strict=True)}
    if chart.band is not None:
        ax.axvspan(*chart.band, color=RULE, linewidth=0, zorder=0)
    if chart.neutral is not None:
        ax.axvline(chart.neutral, color=GREY, linewidth=1.0, zorder=1)
    # The arms that a row has are around its middle, as far apart as in the fullest row.
    apart, before = min(0.4, 0.7 / most), dict.fromkeys(range(len(chart.names)), 0)
    for arm in arms:
        mine = data[data["hue"] == arm]
        y = {at: at + (before[at] - (having.get(at, 1) - 1) / 2) * apart for at in mine["at"].unique()}
        before.update({at: before[at] + 1 for at in y})
        _arm(ax, mine.assign(y=mine["at"].map(y)), chart.arms[arm], palette[arm], marks[arm])
    _rows(ax, names[0])
    ax.set_xlabel(in_two(chart.label, room))
    _scale(ax, chart.ends, logarithmic=chart.logarithmic)
    handles = [
        Line2D([], [], color=palette[a], marker=marks[a], markersize=MARKS[marks[a]], linewidth=1.2) for a in arms
    ]
    place_legend(made, handles, arms)
    return made


def _arm(ax: Axes, data: pd.DataFrame, estimates: Sequence[object], shade: str, mark: str) -> None:
    by = {what: rows.set_index("at") for what, rows in data.groupby("what")}
    if "from" in by and "to" in by:
        spans = by["from"][["y", "value"]].join(by["to"]["value"].rename("end"), how="inner")
        ax.hlines(spans["y"], spans["value"], spans["end"], colors=[shade], linewidth=1.5, zorder=3)
    if "point" in by:
        sns.scatterplot(by["point"], x="value", y="y", s=10, color="white", edgecolor=shade, linewidth=0.8, zorder=4,
                        legend=False, ax=ax)  # fmt: skip
    for hollow in (True, False):
        shown = by.get("estimate", data.iloc[:0].set_index("at"))
        shown = shown[[getattr(estimates[at], "marked", False) == hollow for at in shown.index]]
        if len(shown):
            inside, edge = ("white", shade) if hollow else (shade, "white")
            sns.scatterplot(shown, x="value", y="y", marker=mark, s=MARKS[mark] ** 2, color=inside, edgecolor=edge,
                            linewidth=1.0 if hollow else 0.5, zorder=5, legend=False, ax=ax)  # fmt: skip
    ax.set_ylabel("")


def _scale(ax: Axes, ends: Ends | None, *, logarithmic: bool) -> None:
    low, high = ends or (1.0, 1.0)
    if logarithmic:
        ax.set_xscale("log")
        low, high = math.log10(low), math.log10(high)
    air = 0.05 * (high - low) or (0.01 if logarithmic else 0.5)
    ax.set_xlim(*((10 ** (low - air), 10 ** (high + air)) if logarithmic else (low - air, high + air)))
    numbers(ax.xaxis, 6, high - low if logarithmic else None)


def _grid(
    names: Sequence[Sequence[str]], columns: int, *, titled: bool = False, labelled: int = 1, taller: float = 0.0,
    right: float = 0.0,
) -> _Sheet:  # fmt: skip
    """Room for panels in lines.

    Args:
        names: for each line the names of its rows.
        columns: panels in a line.
        titled: whether panels have titles.
        labelled: lines that have numbers along their x axes.
        taller: inches that a row is taller than one mark takes.
        right: inches beside each panel, of a text.
    """
    labels = [fit(each, NAMED, NAME_POINTS, lines=2) for each in names]
    named = max((inches(text, NAME_POINTS) for each in labels for text in each), default=0.5)
    row = ROW + max(taller, SECOND_LINE if any("\n" in text for each in labels for text in each) else 0.0)
    each = min(BESIDE_ONE if columns == 1 else BESIDE_SEVERAL, (WIDEST - named - 0.3) / columns - right - 0.1)
    width = min(WIDEST, max(4.0, named + 0.3 + columns * (each + right + 0.1)))
    high = [row * max(len(each) + 0.3, 2.0) for each in labels]
    height = sum(high) + 0.3 * titled * len(labels) + 0.62 * labelled + 0.08 * len(labels)
    made = Figure(figsize=(width, height), layout="constrained")
    grid = made.subplots(len(labels), columns, squeeze=False, gridspec_kw={"height_ratios": high})
    return _Sheet(made, grid, labels, each)


def _rows(ax: Axes, names: Sequence[str]) -> None:
    """The rows of a panel, each on a line of its own; their names beside the first panel of a line."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    first = ax.get_subplotspec()
    named = names if first and first.is_first_col() else []
    ax.set_yticks(range(len(named)), named)
    ax.yaxis.grid(visible=False)  # as ticks they would take longer than all else
    ax.hlines(range(len(names)), 0, 1, transform=ax.get_yaxis_transform(), colors=RULE, linewidth=0.8, zorder=0)


def _panel(
    ax: Axes, data: pd.DataFrame, names: Sequence[str], palette: Mapping[str, str], most: int = MOST_POINTS
) -> None:
    """Draw the rows of a panel.

    Args:
        ax: the panel, with its rows.
        data: their marks, see :func:`intervals`, with ``y``, where each point is.
        names: of its rows.
        palette: what colours them → its colour.
        most: values of a row that are drawn as points; of more their spread is.
    """
    shades = {hue: palette.get(hue, PALETTE[0]) for hue in data["hue"].unique()}
    points = data[data["what"] == "point"]
    size = points.groupby("at")["value"].transform("size")
    few = points[size <= most]
    if len(few):
        sns.scatterplot(few, x="value", y="y", hue="hue", palette=shades, s=POINT**2, linewidth=0.3, edgecolor="white",
                        zorder=3, legend=False, ax=ax)  # fmt: skip
    for _, row in points[size > most].groupby("at", sort=False):
        (low, first, third, high), shade = np.quantile(row["value"], (0, 0.25, 0.75, 1)), shades[row["hue"].iloc[0]]
        ax.hlines(row["at"].iloc[:2], [low, first], [high, third], colors=[shade], linewidths=[1.2, 5.0], zorder=3)
    ends = data[data["what"].isin(("from", "to"))].pivot_table(index=["at", "hue"], columns="what", values="value")
    if len(ends.columns) == 2:
        edges = [shades[hue] for hue in ends.index.get_level_values("hue")]
        ax.barh(ends.index.get_level_values("at"), ends["to"] - ends["from"], 0.62, ends["from"], edgecolor=edges,
                color=[(shade, 0.15) for shade in edges], linewidth=0.9, zorder=2)  # fmt: skip
    middles = data[data["what"].isin(("middle", "mean")) & (data["at"].map(points["at"].value_counts()) != 1)]
    ax.scatter(middles["value"], middles["at"], marker="|", s=90, color=INK, linewidths=1.5, zorder=4)
    for at, word in data.loc[data["what"] == "state", ["at", "word"]].itertuples(index=False):
        ax.text(0.01, at, word, transform=ax.get_yaxis_transform(), va="center", fontsize=NAME_POINTS, color=GREY,
                style="italic", bbox={"facecolor": "white", "linewidth": 0, "pad": 0.5}, zorder=5)  # fmt: skip
    ax.set(xlabel="", ylabel="")
    _rows(ax, names)
