"""Drawing of fronts: every cell a point between cost and gain, and the line of those that none surpasses in both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from vitbench.report.drawing.names import GROUND, POINTS_PER_INCH, inches
from vitbench.report.drawing.parts import (
    GREY,
    INK,
    NARROW,
    Colour,
    colours_of,
    guide,
    legend,
    legend_inches,
    single,
)
from vitbench.report.pictures.colours import PAPER
from vitbench.report.pictures.plane_charts import Front, Spot

LETTER_POINTS = 8.0
BOLD = 1.15
"""Length of a bold text over that of the same text in the ordinary weight, at the most."""
NEAR = 10.0, 8.0
"""Points, across and upright, within which two cells share a label: their letters would touch."""
MOST_LISTED = 4
"""Letters of one label; of more it has the first ones."""
MARK_POINTS = 5.0
"""Width of a cell's mark."""

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""


@dataclass(frozen=True)
class _Label:
    """A text beside a point: where, by its lower left corner in points from the point."""

    text: str
    spot: Spot
    offset: tuple[float, float]
    bold: bool


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
    _spots(ax, chart, shades)
    best = sorted((spot for spot in chart.spots if spot.best), key=lambda spot: spot.cost)
    # Between two cells nothing was measured: for a cost there is what the last cell gives that it pays for.
    steps = "steps-post" if chart.cheap else "steps-pre"
    ax.plot([s.cost for s in best], [s.gain for s in best], color=GREY, linewidth=1.2, linestyle=(0, (4, 2)),
            drawstyle=steps, zorder=2)  # fmt: skip
    ax.margins(0.08)
    ax.autoscale_view()
    ax.set_xlabel(chart.cost + (", less is better" if chart.cheap else ""))
    ax.set_ylabel(chart.gain)
    legend(made, chart.colouring)
    made.draw_without_rendering()  # so that the panel has its size, and labels their room
    for label in _labels(ax, chart.spots):
        ax.annotate(label.text, (label.spot.cost, label.spot.gain), xytext=label.offset, textcoords="offset points",
                    fontsize=LETTER_POINTS, fontweight="bold" if label.bold else "normal", ha="left", va="bottom",
                    color=INK if label.bold else GREY, zorder=4, in_layout=False, bbox=GROUND)  # fmt: skip
    return made


def _spots(ax: Axes, chart: Front, shades: dict[str, Colour]) -> None:
    """Bars across and upright, and the marks; those of costs that are not to be relied on are hollow."""
    known = [spot for spot in chart.spots if math.isfinite(spot.low) and math.isfinite(spot.high)]
    ax.hlines([s.gain for s in known], [s.low for s in known], [s.high for s in known],
              colors=[shades.get(s.value, single()) for s in known], linewidth=0.7)  # fmt: skip
    known = [spot for spot in chart.spots if math.isfinite(spot.spread)]
    ax.vlines([s.cost for s in known], [s.gain - s.spread for s in known], [s.gain + s.spread for s in known],
              colors=[shades.get(s.value, single()) for s in known], linewidth=0.7)  # fmt: skip
    for marked in (True, False):
        spots = [spot for spot in chart.spots if spot.marked == marked]
        dots = [shades.get(spot.value, single()) for spot in spots]
        ax.scatter([s.cost for s in spots], [s.gain for s in spots], s=MARK_POINTS**2, zorder=3,
                   c=PAPER if marked else dots, edgecolors=dots if marked else PAPER,
                   linewidths=1.0 if marked else 0.4)  # fmt: skip


def _labels(ax: Axes, spots: Sequence[Spot]) -> Iterator[_Label]:
    """Letters where there is room for them, those of the line first; of cells too near to one another as one label."""
    an_inch = ax.figure.dpi
    places = ax.transData.transform([(s.cost, s.gain) for s in spots]) / an_inch * POINTS_PER_INCH
    panel = ax.get_window_extent()
    left, bottom, right, top = (float(edge) / an_inch * POINTS_PER_INCH for edge in panel.extents)
    half, taken = MARK_POINTS / 2, list[Box]()
    groups = _groups(spots, places)
    for group in sorted(groups, key=lambda group: not spots[group[0]].best):
        bold = spots[group[0]].best
        text = _together([spots[n].letter for n in group])
        size = inches(text, LETTER_POINTS) * POINTS_PER_INCH * (BOLD if bold else 1.0) + 1.0, LETTER_POINTS + 1.5
        tried = [(n, offset) for n in group for offset in _around(*size)]
        boxes = [(x + dx, y + dy, x + dx + size[0], y + dy + size[1]) for (x, y), (dx, dy) in
                 ((places[n], offset) for n, offset in tried)]  # fmt: skip
        free = [
            (_covered(box, places, half), choice, box)
            for choice, box in enumerate(boxes)
            if left < box[0] and box[2] < right and bottom < box[1] and box[3] < top
            and not any(_meet(box, other) for other in taken)
        ]  # fmt: skip
        if free:
            _, choice, box = min(free)
            taken.append(box)
            n, offset = tried[choice]
            yield _Label(text, spots[n], offset, bold)


def _around(width: float, height: float) -> list[tuple[float, float]]:
    """Lower left corners of a text around a point, the best place first: beside no bar, then beyond one."""
    gap = MARK_POINTS / 2 + 1.0
    return [
        (gap, gap), (-gap - width, gap), (gap, -gap - height), (-gap - width, -gap - height),
        (-width / 2, gap), (-width / 2, -gap - height), (gap, -height / 2), (-gap - width, -height / 2),
    ]  # fmt: skip


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _covered(box: Box, places: np.ndarray, half: float) -> int:
    """How many marks a text would hide."""
    x, y = places.T
    return int(((box[0] - half < x) & (x < box[2] + half) & (box[1] - half < y) & (y < box[3] + half)).sum())


def _groups(spots: Sequence[Spot], places: np.ndarray) -> list[list[int]]:
    """Cells with letters, each with those near to it, and to these; those of the line first, then by letter."""
    left = [n for n, spot in enumerate(spots) if spot.letter]
    groups = []
    while left:
        group, new = [], [left.pop(0)]
        while new:
            group += new
            gaps = [np.abs(places[left] - places[n]) for n in new] if left else []
            near = {left[at] for gap in gaps for at in np.flatnonzero((gap < NEAR).all(axis=1))}
            new = [n for n in left if n in near]
            left = [n for n in left if n not in near]
        groups.append(sorted(group, key=lambda n: (not spots[n].best, len(spots[n].letter), spots[n].letter)))
    return groups


def _together(letters: Sequence[str]) -> str:
    more = ", …" if len(letters) > MOST_LISTED else ""
    return ", ".join(letters[:MOST_LISTED]) + more
