"""Parts of figures: sizes, numbers along an axis, legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from vitbench.report.figures.colours import GREY, colours_of
from vitbench.report.figures.marks import Colouring
from vitbench.report.figures.names import fit

WIDEST = 7.2
"""Inches: 720 pixels of a page."""
TEXT_POINTS, NAME_POINTS = 9.0, 8.5
MOST_NAMED = 12
"""Values in a legend; of more, evenly chosen ones."""
NAMED_INCHES = 3.0
"""Width of a name in a legend."""
EVEN = (1, 2, 2.5, 5, 10)
MINUS = "\N{MINUS SIGN}"


TIP, BETWEEN = "tip:", "\u2063"
"""The start of the id of a mark with a tooltip, which a page's script shows; and the invisible character that
separates the mark's cell from the tooltip's text."""


def tip(cell: str, text: str) -> str:
    """Make the id of a cell's mark with a tooltip: the cell, empty where the mark is of several, and the text."""
    return TIP + BETWEEN.join(" ".join("".join(c if c.isprintable() else " " for c in s).split()) for s in (cell, text))


def colours(colouring: Colouring) -> dict[str, str]:
    """Value → its colour."""
    return colours_of(colouring.values, colouring.others)


def legend(figure: Figure, colouring: Colouring, marks: Mapping[str, Mapping[str, object]] | None = None) -> None:
    """A legend above the panels; none where no value is to be named.

    Args:
        figure: with its width; it grows by the legend's height.
        colouring: what the colours stand for.
        marks: value → how :class:`Line2D` draws its mark. Default: dots.
    """
    names = [*colouring.shown, *([colouring.others] if colouring.shown and colouring.others else [])]
    if len(names) > MOST_NAMED:
        names = [names[round(i * (len(names) - 1) / (MOST_NAMED - 1))] for i in range(MOST_NAMED)]
    shades, dots = colours(colouring), {"marker": "o", "linestyle": "none", "markersize": 5}
    handles = [Line2D([], [], **{"color": shades[n], **((marks or {}).get(n) or dots)}) for n in names]  # type: ignore[arg-type]
    place_legend(figure, handles, names, colouring.title)


def place_legend(
    figure: Figure, handles: Sequence[Artist], names: Sequence[str], title: str = "", *, below: bool = False
) -> None:
    """Add a legend outside the panels, in as many columns as there is room for."""
    if not handles:
        return
    where: Literal["outside lower left", "outside upper left"] = "outside lower left" if below else "outside upper left"
    width = figure.get_figwidth() - 0.2
    labels, heading = fit(names, min(NAMED_INCHES, width - 0.6), NAME_POINTS), fit([title], width, NAME_POINTS)[0]
    for columns in range(len(labels), 0, -1):
        made = figure.legend(handles, labels, title=heading, loc=where, ncols=columns, alignment="left",
                             handletextpad=0.5, columnspacing=1.2, borderpad=0.2)  # fmt: skip
        box = made.get_window_extent()
        if box.width <= width * figure.dpi or columns == 1:
            break
        made.remove()
    made.get_title().set_color(GREY)
    figure.set_figheight(figure.get_figheight() + box.height / figure.dpi + 0.05)


def numbers(axis: Axis, most: int, decades: float | None = None) -> None:
    """Ticks with commas between thousands, at most so many.

    Args:
        axis: of a panel.
        most: ticks.
        decades: powers of ten that a logarithmic axis shows; None: it is none.
    """
    if decades is None or decades < 0.4:  # less than a factor of 2.5: even steps are nearly right, and all different
        axis.set_major_locator(MaxNLocator(most, steps=EVEN))
    else:
        within = (1.0,) if decades > 2.5 else (1.0, 2.0, 5.0) if decades > 1 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        axis.set_major_locator(LogLocator(10, subs=within, numticks=2 * most))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(Plain() if decades is None else FuncFormatter(lambda x, _: f"{x:,.10g}"))


class Plain(Formatter):
    """Numbers with commas between thousands, all of an axis with as many decimals as one of them needs."""

    decimals = 0

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """The numbers of all ticks of an axis."""
        shown = (np.format_float_positional(float(f"{value:.10g}"), trim="-") for value in values)
        self.decimals = max((len(text.partition(".")[2]) for text in shown), default=0)
        return super().format_ticks([*values])

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The number of one of them."""
        return f"{x:,.{self.decimals}f}".replace("-", MINUS)


def in_two(label: str, room: float) -> str:
    """The label of an axis in two lines where one is longer than its panel, and cut where two are, too."""
    return fit([label], room, TEXT_POINTS, lines=2)[0]
