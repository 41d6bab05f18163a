"""Drawing of a forest plot: estimates with their intervals, row by row, the arms of a row one below the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from vitbench.report.drawing.names import above_rows, inches, labels_of, wrapped
from vitbench.report.drawing.parts import GREY, LEGEND_POINTS, NARROW, ROW_INCHES, RULE, WIDEST, Colour, colours, guide
from vitbench.report.pictures.row_charts import Estimate, Forest

MARKS = {"o": 30.0, "s": 28.0, "D": 24.0, "^": 36.0, "v": 36.0, "P": 38.0, "*": 62.0, "X": 38.0}
"""Of the arms, beside their colours: so that they are told apart without these, too. Mark → its area in square points,
with which all look equally large."""
ARM_INCHES = 0.13
"""Of the height of a row, for each arm beyond the first."""
LABEL_POINTS = 9.0
FEW_DECADES = 2.5
"""Powers of ten above which only they are labelled on a logarithmic axis."""


def figure(chart: Forest, *, narrow: bool = False) -> Figure:
    """The figure; its height grows with the rows and with the arms of each. A narrow one has names above the rows."""
    arms = max((sum(map(bool, of_row)) for of_row in zip(*chart.arms.values(), strict=True)), default=1)
    labels, named = wrapped(chart.names, NARROW - 0.35) if narrow else (labels_of(chart.names, WIDEST), 0.0)
    row_inches = ROW_INCHES + ARM_INCHES * max(arms - 1, 0) + (0.06 if arms > 1 else 0.0)
    marked = row_inches / (row_inches + named)  # share of a row's height that its marks have
    height = 1.2 + row_inches / marked * max(len(labels), 2) + (0.15 * len(chart.arms) if narrow else 0.0)
    width = NARROW if narrow else min(WIDEST, 6.2 + 0.062 * max(map(len, labels), default=1))
    made = Figure(figsize=(width, height), layout="constrained")
    ax = made.subplots()
    guide(ax, "x")
    ax.tick_params(axis="y", length=0)
    for row in range(len(labels) - 1):
        ax.axhline(row + marked / 2, color=RULE, linewidth=0.8, zorder=0)
    if chart.band is not None:
        ax.axvspan(*chart.band, color=RULE, linewidth=0, alpha=0.7, zorder=0)
    if chart.neutral is not None:
        ax.axvline(chart.neutral, color=GREY, linewidth=1.0, zorder=1)
    shades = [*colours([str(n) for n in range(max(chart.places, default=0) + 1)]).values()]
    marks = [*MARKS]
    for (estimates, offsets), place in zip(_placed(chart, arms), chart.places, strict=True):
        _mark(ax, estimates, [offset * marked for offset in offsets], shades[place], marks[place % len(marks)])
    if narrow:
        ax.set_yticks([])
        above_rows(ax, labels, 0.5)
    else:
        ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.9 + marked / 2, marked / 2 - 1.1)
    ax.set_xlabel(_broken(chart.label, width - 0.4))
    _scale(ax, chart, 4 if narrow else 6)
    handles = [
        Line2D(
            [],
            [],
            color=shades[p],
            marker=marks[p % len(marks)],
            linestyle="-",
            markersize=math.sqrt(MARKS[marks[p % len(marks)]]) - 0.5,
            linewidth=1.2,
        )
        for p in chart.places
    ]
    room = width - 0.6
    names = labels_of([*chart.arms], room, LEGEND_POINTS)
    each = max((inches(name, LEGEND_POINTS) for name in names), default=1.0) + 0.6
    made.legend(handles, names, loc="outside upper left", ncols=max(1, min(len(names), 3, int(width / each))))
    return made


def _placed(chart: Forest, most: int) -> Iterator[tuple[Sequence[Estimate | None], list[float]]]:
    """Of each arm its estimates, and how far below the middle of its row each is, of a row's height.

    The arms that a row has stand around its middle, as far apart as in the fullest row: none is left room for that
    it does not have.
    """
    apart = 0.66 / (most - 1) if most > 2 else 0.4
    before = [0] * len(chart.names)
    having = [sum(map(bool, of_row)) for of_row in zip(*chart.arms.values(), strict=True)]
    for estimates in chart.arms.values():
        yield estimates, [(before[row] - (having[row] - 1) / 2) * apart for row in range(len(estimates))]
        before = [n + bool(each) for n, each in zip(before, estimates, strict=True)]


def _mark(
    ax: Axes, estimates: Sequence[Estimate | None], offsets: Sequence[float], shade: Colour, mark: str
) -> None:  # fmt: skip
    places = zip(range(len(estimates)), offsets, estimates, strict=True)
    there = [(row + offset, each) for row, offset, each in places if each and math.isfinite(each.value)]
    if not there:
        return
    rows, known = np.array([row for row, _ in there]), [each for _, each in there]
    spans = [(row, e.low, e.high) for row, e in there if math.isfinite(e.low) and math.isfinite(e.high)]
    if spans:
        y, low, high = np.array(spans).T
        ax.hlines(y, low, high, colors=[shade], linewidth=1.4, zorder=3)
    points = [(row, value) for row, each in there for value in each.points]
    if points:
        y, x = np.array(points).T
        ax.scatter(x, y, s=9, c="white", edgecolors=[shade], linewidths=0.8, zorder=4)
    for marked in (True, False):
        mine = np.array([each.marked == marked for each in known])
        ax.scatter(np.array([e.value for e in known])[mine], rows[mine], s=MARKS[mark], marker=mark,
                   facecolors="white" if marked else shade, edgecolors=shade if marked else "white",
                   linewidths=1.0 if marked else 0.5, zorder=5)  # fmt: skip


def _broken(label: str, room: float) -> str:
    """A label in two lines where it is longer than its axis: what is measured, and which side is better."""
    before, mark, rest = label.partition(" (")
    return f"{before}\n({rest}" if mark and inches(label, LABEL_POINTS) > room else label


def _scale(ax: Axes, chart: Forest, ticks: int) -> None:
    if chart.ends is None:
        return
    low, high = chart.ends
    if not chart.logarithmic:
        air = 0.04 * (high - low) or 0.5
        ax.set_xlim(low - air, high + air)
        ax.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
        return
    low, high = math.log10(low), math.log10(high)
    air = max(0.05 * (high - low), 0.01)
    ax.set_xscale("log")
    ax.set_xlim(10 ** (low - air), 10 ** (high + air))
    if high - low < 0.4:  # less than a factor of 2.5: evenly spaced labels are nearly right, and all different
        ax.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    else:
        ax.xaxis.set_major_locator(LogLocator(10, subs=_within_a_decade(high - low), numticks=2 * ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.4g}"))


def _within_a_decade(decades: float) -> tuple[float, ...]:
    """Where ticks stand, as multiples of a power of ten: enough for values to be read off, and none too near."""
    if decades > FEW_DECADES:
        return (1.0,)
    return (1.0, 2.0, 5.0) if decades > 1 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
