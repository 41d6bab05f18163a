"""Canvas: pictures that are the same bytes each time, and their parts: dots in rows, and paired differences.

Figures are made without pyplot, so that nothing of the caller's (backend, style, open figures) is used or changed.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from vitbench.report.spread import MOST_BLOCKS, Values, bars, is_many

Colour = tuple[float, float, float]

DPI = 105
MOST_OPTIMISED = 1_000_000
"""Pixels of a picture whose file is made as small as can be. Pages of long figures have more: their files are two
percent larger, and made in a fifth of the time."""
ROW_INCHES = 0.185
GREY: Colour = (0.55, 0.55, 0.55)
INK: Colour = (0.1, 0.1, 0.1)
STYLE: dict[Any, Any] = {
    "axes.edgecolor": "0.4",
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.facecolor": "white",
    "font.size": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.title_fontsize": 8,
    "figure.dpi": DPI,
    "text.parse_math": False,  # a name with two dollar signs is a name
    "xtick.labelsize": 8,
    "ytick.labelsize": 7.5,
}


def draw(build: Callable[[], Figure]) -> bytes:
    """The PNG of what ``build`` makes, in the report's own style whatever the user's is."""
    with _style():
        canvas = FigureCanvasAgg(build())
        canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    packed, small = io.BytesIO(), pixels.shape[0] * pixels.shape[1] <= MOST_OPTIMISED
    Image.fromarray(pixels).convert("RGB").save(packed, "png", optimize=small)
    return packed.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    with warnings.catch_warnings(), mpl.rc_context():
        # A name in a script that the font does not have shows as boxes here, and in full in the tables.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def shorten(text: str, width: int = 60) -> str:
    """A name in at most so many characters: its middle gives way to an ellipsis. Control characters become spaces."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) <= width:
        return line
    head = math.ceil((width - 1) * 0.6)
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def colours(values: Sequence[str]) -> dict[str, Colour]:
    """Value → colour that the colour-blind tell apart too; of many values, shades from dark to light."""
    palette = sns.color_palette("colorblind" if len(values) <= 8 else "viridis", len(values))
    return dict(zip(values, [(r, g, b) for r, g, b in palette], strict=True))


def legend(figure: Figure, title: str, chosen: dict[str, Colour]) -> None:
    """A legend above the panels. Of many values, evenly chosen ones."""
    names = list(chosen)
    if len(names) > 12:
        names = [names[round(i * (len(names) - 1) / 11)] for i in range(12)]
    marks = [Line2D([], [], color=chosen[n], marker="o", linestyle="none", markersize=5) for n in names]
    labels = [shorten(n, 30) for n in names]
    width = max(map(len, labels)) + 4
    columns = max(1, min(len(names), round(figure.get_figwidth() * 14 / width)))
    figure.legend(marks, labels, title=shorten(title, 60), loc="outside upper center", ncols=columns,
                  handletextpad=0.2, columnspacing=1.2)  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One measured quantity over the rows of a figure.

    Attributes:
        label: of the x axis, with the unit.
        points: for each row every single value; a row of many shows their spread.
        middles: for each row the value that stands for it; not a number where there is none.
        spans: for each row the ends of a bar (low, high); empty for no bars.
        limits: of the x axis, shared by a figure's pages; None: from the points.
    """

    label: str
    points: Sequence[Values]
    middles: Sequence[float]
    spans: Sequence[tuple[float, float]] = ()
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Rows:
    """Rows of dots: a name and a colour each, and a word where there is nothing to plot."""

    names: Sequence[str]
    colours: Sequence[Colour]
    words: Sequence[str]
    panels: Sequence[Panel]
    legend_title: str = ""
    legend_colours: dict[str, Colour] = field(default_factory=dict)

    def figure(self) -> Figure:
        """The figure; its height grows with the rows."""
        extra = 0.45 if self.legend_colours else 0.0
        labels = [shorten(name) for name in self.names]
        width = (
            1.2 + 0.062 * max(map(len, labels), default=1) + (5.0 if len(self.panels) == 1 else 2.6 * len(self.panels))
        )
        figure = Figure(figsize=(width, 0.75 + extra + ROW_INCHES * max(len(labels), 3)), layout="constrained")
        axes = figure.subplots(1, len(self.panels), squeeze=False)[0]
        for ax, panel in zip(axes, self.panels, strict=True):
            self._fill(ax, panel)
            ax.set_ylim(len(labels) - 0.4, -0.6)
            ax.set_yticks(range(len(labels)) if ax is axes[0] else [], labels if ax is axes[0] else [])
        if self.legend_colours:
            legend(figure, self.legend_title, self.legend_colours)
        return figure

    def _fill(self, ax: Axes, panel: Panel) -> None:
        ax.set_axisbelow(True)
        ax.grid(axis="x", color="0.93", linewidth=0.8)
        ax.hlines(
            range(len(self.names)), 0, 1, transform=ax.get_yaxis_transform(), color="0.93", linewidth=0.8, zorder=0
        )
        ax.tick_params(axis="y", length=0)
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
        ax.set_xlabel(panel.label)
        for row, (low, high) in enumerate(panel.spans):
            width = 8 if is_many(panel.points[row]) else 4  # to be seen behind points and behind a bar
            ax.plot([low, high], [row, row], color=self.colours[row], linewidth=width, alpha=0.3, solid_capstyle="butt")
        places = [(value, row) for row, values in enumerate(panel.points) if not is_many(values) for value in values]
        if places:
            x, y = np.array(places).T
            shades = [self.colours[int(row)] for row in y]
            ax.scatter(x, y, s=16, c=shades, linewidths=0.4, edgecolors="white", zorder=3)
        many = [row for row, values in enumerate(panel.points) if is_many(values)]
        bars(ax, many, [panel.points[row] for row in many], [self.colours[row] for row in many], width=4)
        several = [row for row, values in enumerate(panel.points) if len(values) != 1]
        ax.scatter(
            [panel.middles[row] for row in several], several, marker="|", s=70, color=INK, linewidths=1.3, zorder=4
        )
        for row, word in enumerate(self.words):
            if word:
                ax.text(0.01, row, word, transform=ax.get_yaxis_transform(), va="center", fontsize=7.5, color=GREY,
                        style="italic")  # fmt: skip
        if panel.limits is not None:
            ax.set_xlim(*panel.limits)


def limits(values: Values, floor: float | None = None) -> tuple[float, float] | None:
    """Ends of an axis that holds all the values with some air; None where there are none."""
    every = np.asarray(values, dtype=np.float64)
    finite = every[np.isfinite(every)]
    if not finite.size:
        return None
    low, high = (float(finite.min()) if floor is None else floor), float(finite.max())
    air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return (low - air if floor is None else low), high + air


@dataclass(frozen=True)
class Paired:
    """One axis in a figure of paired comparisons: for each of its values the comparisons with the reference.

    Attributes:
        axis: its name.
        names: its values.
        points: for each value one number a block; empty where there is none. Of many, their spread is shown.
        middles: for each value the mean of its points.
        words: for each value what is written in place of points; empty where there are some.
    """

    axis: str
    names: Sequence[str]
    points: Sequence[Values]
    middles: Sequence[float]
    words: Sequence[str]


def paired(
    columns: Sequence[tuple[str, Sequence[Paired]]], label: str, neutral: float, show: Callable[[float], str],
    band: float = 0.0,
) -> Figure:  # fmt: skip
    """Paired comparisons, a panel for each axis and column, one x axis for all.

    Args:
        columns: (title, axes) for each column of panels; the axes are the same in all.
        label: of the x axis, with the unit.
        neutral: where the reference lies.
        show: a mean as text, for the right margin.
        band: half the width of the grey band around the reference.
    """
    axes_of = columns[0][1]
    counts = [len(axis.names) for axis in axes_of]
    longest = max((len(shorten(n, 30)) for axis in axes_of for n in axis.names), default=1)
    height = 0.9 + sum(ROW_INCHES * 1.25 * n + 0.36 for n in counts)
    figure = Figure(figsize=(1.4 + 0.065 * longest + 4.6 * len(columns), height), layout="constrained")
    grid = figure.subplots(len(counts), len(columns), squeeze=False, sharex=True,
                           gridspec_kw={"height_ratios": [n + 0.4 for n in counts]})  # fmt: skip
    values = [points for _, axes in columns for axis in axes for points in axis.points]
    ends = limits(np.concatenate([*values, [neutral - band, neutral + band]]))
    for column, (title, axes) in enumerate(columns):
        for row, axis in enumerate(axes):
            ax = grid[row, column]
            _compare(ax, axis, neutral, show, band)
            heading = shorten(axis.axis, 40)
            ax.set_title(f"{title}: {heading}" if title else heading, fontweight="bold", fontsize=8.5)
            ax.set_yticks(range(len(axis.names)), [shorten(n, 30) for n in axis.names] if column == 0 else [])
            if ends:
                ax.set_xlim(*ends)
        grid[-1, column].set_xlabel(label)
    return figure


def _compare(ax: Axes, axis: Paired, neutral: float, show: Callable[[float], str], band: float) -> None:
    ax.set_ylim(len(axis.names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_axisbelow(True)
    ax.grid(axis="x", color="0.93", linewidth=0.8)
    if band:
        ax.axvspan(neutral - band, neutral + band, color="0.93", zorder=0)
    ax.axvline(neutral, color="0.6", linewidth=0.8)
    shade = colours(["points"])["points"]
    for row, (points, middle, word) in enumerate(zip(axis.points, axis.middles, axis.words, strict=True)):
        if word:
            place = ax.get_yaxis_transform()
            ax.text(0.01, row, word, transform=place, va="center", fontsize=7.5, color=GREY, style="italic")
            continue
        if is_many(points, MOST_BLOCKS):
            bars(ax, [row], [points], [shade], width=6)
        else:
            # A block keeps its height within the row over all values, so that it can be followed.
            spots = row + (np.linspace(-0.28, 0.28, len(points)) if len(points) > 1 else np.zeros(1))
            ax.scatter(points, spots, s=9, color=shade, alpha=0.6, linewidths=0, zorder=3)
        ax.plot([middle, middle], [row - 0.36, row + 0.36], color=INK, linewidth=1.8, zorder=4)
        ax.text(1.01, row, show(middle), transform=ax.get_yaxis_transform(), va="center", fontsize=8)
