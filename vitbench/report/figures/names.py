"""Names in figures: as long as there is room, and no two different names cut to one text."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

LONGEST = 60
"""Letters of a name, whatever room there is."""
FEWEST = 4
"""Letters that are left of a name, however little room there is."""


@functools.lru_cache(maxsize=8192)
def inches(text: str, points: float) -> float:
    """How long a text is in the font of figures, at a size."""
    font = FontProperties(size=points)
    return (
        max(float(text_to_path.get_text_width_height_descent(t, font, ismath=False)[0]) for t in text.split("\n")) / 72
    )


def shorten(text: str, width: int = LONGEST) -> str:
    """A name in at most so many characters: its middle gives way to an ellipsis. Control characters become spaces."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) <= width:
        return line
    head = math.ceil((width - 1) * 0.6)
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def fit(names: Sequence[str], room: float, points: float, lines: int = 1, longest: int = LONGEST) -> list[str]:
    """Names in at most so many inches and lines. Different names stay different: those cut to one text are numbered."""
    whole = [shorten(name, len(name) + 1) for name in names]
    found: dict[str, str] = {}
    for name in dict.fromkeys(whole):
        text, number = _fitted(shorten(name, longest * lines), room, points, lines), 1
        while text in found.values():
            number += 1
            end = f" ({number})"
            text = f"{_fitted(shorten(name, longest), room - inches(end, points), points, 1)}{end}"
        found[name] = text
    return [found[name] for name in whole]


def _fitted(text: str, room: float, points: float, lines: int) -> str:
    if inches(text, points) <= room:
        return text
    words = text.split(" ")
    first = next((n for n in range(len(words) - 1, 0, -1) if inches(" ".join(words[:n]), points) <= room), 0)
    if lines > 1 and first:
        if first > 1 and not any(map(str.isalnum, words[first - 1])):  # a dot between two parts begins the next line
            first -= 1
        return f"{' '.join(words[:first])}\n{_fitted(' '.join(words[first:]), room, points, lines - 1)}"
    width = len(text)
    while width > FEWEST and inches(shorten(text, width), points) > room:
        width = max(FEWEST, min(width - 1, int(width * room / inches(shorten(text, width), points))))
    return shorten(text, width)
