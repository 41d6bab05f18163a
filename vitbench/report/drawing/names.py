"""Names in pictures: as long as there is room, and no two names cut to the same text."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Container, Sequence

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

POINTS_PER_INCH = 72
ROW_POINTS = 7.5
"""Size of the names of rows."""
LINE_INCHES, AIR_INCHES = 0.12, 0.05
"""Of a line of such a name, and above it."""
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
        tried = ([_fitted(lines[n], room, points, share) for n in alike] for share in HEADS)
        told = (found for found in tried if len(set(found)) == different and others.isdisjoint(found))
        counted = [_numbered(lines[n], place, others, room, points) for place, n in enumerate(alike, 1)]
        for n, text in zip(alike, next(told, counted), strict=True):
            cut[n] = text
    return cut


def wrapped(names: Sequence[str], room: float) -> tuple[list[str], float]:
    """Names of rows to stand above them, in two lines where one is too short; and the height that they need, inches."""
    lines = [_wrapped(name, room) for name in names]
    if len(set(lines)) < len({_line(name) for name in names}):
        lines = labels_of(names, room)
    return lines, max((LINE_INCHES * (1 + line.count("\n")) for line in lines), default=LINE_INCHES) + AIR_INCHES


def _wrapped(name: str, room: float) -> str:
    words = _line(name).split(" ")
    first = next((n for n in range(len(words), 0, -1) if inches(" ".join(words[:n]), ROW_POINTS) <= room), 0)
    if first in (0, len(words)):
        return _fitted(name, room, ROW_POINTS)
    return f"{' '.join(words[:first])}\n{_fitted(' '.join(words[first:]), room, ROW_POINTS)}"


@functools.lru_cache(maxsize=8192)
def inches(text: str, points: float) -> float:
    """How long a text is in the font of pictures, at a size."""
    return float(
        text_to_path.get_text_width_height_descent(text, FontProperties(size=points), ismath=False)[0] / POINTS_PER_INCH
    )


def above_rows(ax: Axes, labels: Sequence[str], height: float, notes: Sequence[str] = ()) -> None:
    """Write the name of each row above it, from the panel's left edge, and a note at its right edge.

    Args:
        ax: rows are at 0, 1, … of its y axis.
        labels: the names.
        height: of the names' middles above their rows; of a row's height.
        notes: one for each row; empty for none.
    """
    place = ax.get_yaxis_transform()
    for texts, x, side in ((labels, 0.0, "left"), (notes, 1.0, "right")):
        for row, text in enumerate(texts):
            if text:  # on a ground of its own: lines of the panel do not cross the letters
                ax.text(
                    x, row - height, text, transform=place, ha=side, va="center", fontsize=ROW_POINTS, in_layout=False,
                    linespacing=1.1, bbox=GROUND,
                    zorder=1.5 if side == "left" else 5,
                )  # fmt: skip


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


def _numbered(line: str, number: int, taken: Container[str], room: float, points: float) -> str:
    """The last resort: names that nothing which fits tells apart are counted."""
    while True:
        end = f" ({number})"
        text = f"{_fitted(line, room - inches(end, points), points)}{end}"
        if text not in taken:
            return text
        number += 1
