"""The terminal: names and messages are shown as plain text, without control characters."""

import re
from collections.abc import Iterable

from rich import markup
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
"""Control characters other than tab and line break, which a terminal obeys; lone surrogates, which it cannot encode."""

TURNING = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that turn the direction of what follows, so that it reads as something else (CVE-2021-42574)."""

STEERING = re.compile(f"[{CONTROL}{TURNING}]")

COLOURS = {"ok": "green", "unsupported": "yellow", "interrupted": "yellow", "pending": "white", "running": "cyan"}
"""State of a trial → its colour; of others, red."""


def visible(text: str) -> str:
    """Text without what steers a terminal: each such character becomes a "?"; line breaks and tabs stay."""
    return STEERING.sub("?", text)


def escape(text: object) -> str:
    """Any text as console markup that shows just this text, on one line."""
    line = markup.escape(visible(str(text)).replace("\n", " "))
    # rich doubles a backslash at the end, so that it does not escape the tag that may follow; so one has to follow.
    return f"{line}[none][/none]" if line.endswith("\\") else line


def coloured(state: str, before: str = "") -> str:
    """A trial's state as console markup in its colour, with a text before it."""
    return f"[{COLOURS.get(state, 'red')}]{before}{state}[/]"


class Terminal(Console):
    """A console on which no text is more than text, even where it reached it without :func:`escape`."""

    def __init__(self, *, soft_wrap: bool = True) -> None:
        """``soft_wrap``: long lines are left to the terminal; tables want False."""
        super().__init__(highlight=False, emoji=False, soft_wrap=soft_wrap)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments that rich draws, its own control codes untouched and those inside of text made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
