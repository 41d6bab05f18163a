"""Parts of figures: names as long as there is room, numbers along an axis, legends."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from vitbench.report.figures.charts import Colouring
from vitbench.report.figures.colours import GREY, colours_of
from vitbench.report.text import MINUS, printable

TEXT_POINTS, NAME_POINTS = 9.0, 8.5
LONGEST, FEWEST = 60, 4
"""Letters of a name at the most, whatever room there is, and at the least, however little there is."""
MOST_NAMED = 12  # Values in a legend; of more, evenly chosen ones
NAMED_INCHES, MARK = 3.0, 0.46  # Inches of a legend: of a name at the most, and of its mark with the air around both
MOST_TICKS, EVEN = 6, (1, 2, 2.5, 5, 10)

TIP, BETWEEN = "tip:", "\u2063"
"""The start of the id of a mark with a tooltip, which a page's script shows; and the invisible character that
separates the mark's cell from the tooltip's text."""


def tip(cell: str, text: str) -> str:
    """Make the id of a cell's mark with a tooltip: the cell, empty where the mark is of several, and the text."""
    return TIP + BETWEEN.join(map(printable, (cell, text)))


@functools.lru_cache(maxsize=8192)
def inches(text: str, points: float) -> float:
    """How long a text is in the font of figures, at a size."""
    font = FontProperties(size=points)
    lines = text.split("\n")
    return max(float(text_to_path.get_text_width_height_descent(t, font, ismath=False)[0]) for t in lines) / 72


def shorten(text: str, width: int = LONGEST) -> str:
    """A name in at most so many characters: its middle gives way to an ellipsis."""
    line = printable(text)
    if len(line) <= width:
        return line
    head = math.ceil((width - 1) * 0.6)
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def fit(names: Sequence[str], room: float, points: float, lines: int = 1, longest: int = LONGEST) -> list[str]:
    """Names in at most so many inches and lines. Different names stay different: those cut to one text are numbered."""
    fitted: dict[str, str] = {}
    for name in dict.fromkeys(map(printable, names)):
        text, number = _fitted(shorten(name, longest * lines), room, points, lines), 1
        while text in fitted.values():
            number += 1
            end = f" ({number})"
            text = f"{_fitted(shorten(name, longest), room - inches(end, points), points, 1)}{end}"
        fitted[name] = text
    return [fitted[printable(name)] for name in names]


def _fitted(text: str, room: float, points: float, lines: int) -> str:
    if inches(text, points) <= room:
        return text
    words = text.split(" ")
    first = next((n for n in range(len(words) - 1, 0, -1) if inches(" ".join(words[:n]), points) <= room), 0)
    if lines > 1 and first:
        if first > 1 and not any(map(str.isalnum, words[first - 1])):  # a dot between two parts begins the next line
            first -= 1
        return f"{' '.join(words[:first])}\n{_fitted(' '.join(words[first:]), room, points, lines - 1)}"
    widths = range(min(len(text), LONGEST), FEWEST, -1)
    return next((short for n in widths if inches(short := shorten(text, n), points) <= room), shorten(text, FEWEST))


def in_two(label: str, room: float) -> str:
    """The label of an axis in two lines where one is longer than its panel, and cut where two are, too."""
    return fit([label], room, TEXT_POINTS, lines=2)[0]


def legend(
    figure: Figure, colouring: Colouring, marks: Mapping[str, Mapping[str, Any]] | None = None, *, below: bool = False
) -> None:
    """A legend above the panels, or below them, by which the figure grows; none where no value is to be named.

    ``marks``: value → how :class:`Line2D` draws its mark; dots where there are none.
    """
    names = [*colouring.named, *([colouring.others] if colouring.named and colouring.others else [])]
    if not names:
        return
    names = [names[n] for n in np.linspace(0, len(names) - 1, min(len(names), MOST_NAMED)).round().astype(int)]
    shades, dots = colours_of(colouring), {"marker": "o", "linestyle": "none", "markersize": 5}
    handles = [Line2D([], [], **{"color": shades[name], **((marks or {}).get(name) or dots)}) for name in names]
    width = figure.get_figwidth() - 0.2
    labels = fit(names, min(NAMED_INCHES, width - 0.6), NAME_POINTS)
    heading = fit([colouring.title], width, NAME_POINTS)[0]
    columns = int(width / (max(inches(label, NAME_POINTS) for label in labels) + MARK))
    made = figure.legend(handles, labels, title=heading, ncols=max(1, columns), alignment="left", handletextpad=0.5,
                         loc="outside lower left" if below else "outside upper left", columnspacing=1.2,
                         borderpad=0.2)  # fmt: skip
    made.get_title().set_color(GREY)
    figure.set_figheight(figure.get_figheight() + made.get_window_extent().height / figure.dpi + 0.05)


def numbers(axis: Axis) -> None:
    """A few ticks with commas between thousands."""
    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if axis.get_scale() == "log" else 0.0
    if decades < 0.4:  # less than a factor of 2.5: even steps are nearly right, and all different
        axis.set_major_locator(MaxNLocator(MOST_TICKS, steps=EVEN))
    else:
        within = (1.0,) if decades > 2.5 else (1.0, 2.0, 5.0) if decades > 1 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        axis.set_major_locator(LogLocator(10, subs=within, numticks=2 * MOST_TICKS))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}".replace("-", MINUS)))
