"""Names in pictures: as long as there is room, and no two names cut to the same text."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Container, Sequence

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.transforms import ScaledTranslation

POINTS_PER_INCH = 72
ROW_POINTS = 7.5
"""Size of the names of rows."""
LINE_INCHES, AIR_INCHES = 0.12, 0.05
"""Of a line of such a name, and above it."""
INDENT_INCHES = 0.05
"""Between a panel's left edge and a name above a row, whose first letter would touch the line there."""
GROUND = {"facecolor": "white", "linewidth": 0, "pad": 0.5}
"""Of a text in a panel, whose lines do not cross its letters."""
LONGEST = 60
"""Letters of a name, whatever room there is."""
HEADS = (0.6, 0.0, 1.0, 0.3, 0.8, 0.15, 0.45)
"""Shares of a cut name that are its head: the first, and others that are tried where that leaves names alike."""


def shorten(text: str, width: int = LONGEST, share: float = HEADS[0]) -> str:
    """A name in at most so many characters: its middle gives way to an ellipsis. Control characters become spaces.

    Args:
        text: the name.
        width: characters.
        share: of what is left of the name, that is its head.
    """
    line = _line(text)
    if len(line) <= width:
        return line
    head = math.ceil((width - 1) * share)
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def labels_of(names: Sequence[str], room: float, points: float = ROW_POINTS, longest: int = LONGEST) -> list[str]:
    """Names of different things, each in at most so many inches and letters; those that differ stay different.

    Where cut middles would not tell names apart, they are cut elsewhere; where nothing does, they are counted.
    """
    lines = [_line(name) for name in names]
    cut = [_fitted(line, room, points, longest=longest) for line in lines]
    while alike := _alike(lines, cut):
        others = {text for n, text in enumerate(cut) if n not in alike}
        different = len({lines[n] for n in alike})
        tried = ([_fitted(lines[n], room, points, share, longest) for n in alike] for share in HEADS)
        told = (found for found in tried if len(set(found)) == different and others.isdisjoint(found))
        counted = [_numbered(lines[n], place, others, (room, points, longest)) for place, n in enumerate(alike, 1)]
        for n, text in zip(alike, next(told, counted), strict=True):
            cut[n] = text
    return cut


def wrapped(names: Sequence[str], room: float) -> tuple[list[str], float]:
    """Names of rows to stand above them, in two lines where one is too short; and the height that they need, inches."""
    lines = lines_of(names, room - INDENT_INCHES, ROW_POINTS, 2)
    return lines, max((LINE_INCHES * (1 + line.count("\n")) for line in lines), default=LINE_INCHES) + AIR_INCHES


def lines_of(names: Sequence[str], room: float, points: float, most: int) -> list[str]:
    """Names of different things, each broken into so many lines at most; those that differ stay different.

    Args:
        names: the names.
        room: for each line, inches.
        points: size of the letters.
        most: lines of a name; what does not fit the last is cut.
    """
    broken = [_broken(_line(name), room, points, most) for name in names]
    return broken if len(set(broken)) == len({_line(name) for name in names}) else labels_of(names, room, points)


def _broken(text: str, room: float, points: float, most: int) -> str:
    words = text.split(" ")
    first = next((n for n in range(len(words), 0, -1) if inches(" ".join(words[:n]), points) <= room), 0)
    if most == 1 or first == len(words):
        return _fitted(text, room, points)
    # What stands between two parts of a name begins a line, and does not dangle at the end of one.
    if first > 1 and _between(words[first - 1]):
        first -= 1
    if first == 1 and _between(words[0]):
        words, first = [" ".join(words[:2]), *words[2:]], 0
    if first == 0:  # what is too long by itself is broken between a field's name and its value, or cut
        name, mark, value = words[0].partition("=")
        words, first = [f"{name}{mark}", *([value] if value else []), *words[1:]], 1
    head = _fitted(" ".join(words[:first]), room, points)
    return f"{head}\n{_broken(' '.join(words[first:]), room, points, most - 1)}" if words[first:] else head


def _between(word: str) -> bool:
    return word != "=" and not any(map(str.isalnum, word))


@functools.lru_cache(maxsize=8192)
def inches(text: str, points: float) -> float:
    """How long a text is in the font of pictures, at a size."""
    return float(
        text_to_path.get_text_width_height_descent(text, FontProperties(size=points), ismath=False)[0] / POINTS_PER_INCH
    )


def in_two(label: str, room: float, points: float) -> str:
    """The label of an axis, in two lines where one is longer than its panel: what is measured, and its unit."""
    before, mark, unit = label.partition(" (")
    return f"{before}\n({unit}" if mark and inches(label, points) > room else label


def above_rows(ax: Axes, labels: Sequence[str], height: float) -> None:
    """Write the name of each row above it, beside the panel's left edge.

    Args:
        ax: rows are at 0, 1, … of its y axis.
        labels: the names.
        height: of the names' middles above their rows; of a row's height.
    """
    made = ax.get_figure(root=True)
    assert made is not None
    place = ax.get_yaxis_transform() + ScaledTranslation(INDENT_INCHES, 0.0, made.dpi_scale_trans)
    for row, text in enumerate(labels):  # on a ground of its own: lines of the panel do not cross the letters
        ax.text(0.0, row - height, text, transform=place, va="center", fontsize=ROW_POINTS, in_layout=False,
                linespacing=1.1, bbox=GROUND, zorder=1.5)  # fmt: skip


def _line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _fitted(text: str, room: float, points: float, share: float = HEADS[0], longest: int = LONGEST) -> str:
    """A name in at most so many inches and so many letters, of which at least a few are left."""
    width = min(longest, len(_line(text)))
    short = shorten(text, width, share)
    while width > 4 and (long := inches(short, points)) > room:
        width = max(4, min(width - 1, int(width * room / long)))
        short = shorten(text, width, share)
    return short


def _alike(lines: Sequence[str], cut: Sequence[str]) -> list[int]:
    """Places of names that differ and were cut to the same text; empty where there are none."""
    for text, times in Counter(cut).items():
        places = [n for n, each in enumerate(cut) if each == text] if times > 1 else []
        if len({lines[n] for n in places}) > 1:
            return places
    return []


def _numbered(line: str, number: int, taken: Container[str], limits: tuple[float, float, int]) -> str:
    """The last resort: names that nothing which fits tells apart are counted."""
    room, points, longest = limits
    while True:
        end = f" ({number})"
        text = f"{_fitted(line, room - inches(end, points), points, longest=max(1, longest - len(end)))}{end}"
        if text not in taken:
            return text
        number += 1
