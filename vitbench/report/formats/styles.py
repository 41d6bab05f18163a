"""Styles: how the marks of a page's pictures look, said once for the page and not at every mark.

A page of pictures has ten thousand marks in a few hundred looks; written at each of them they were a third of the page.
"""

from __future__ import annotations

import re

from vitbench.report.pictures.colours import variables

_TAG = re.compile(r"<(?:path|use|text|g|image|rect) [^>]*>")
_STYLE = re.compile(r' style="([^"]*)"')


class Styles:
    """The looks of a page's pictures, each with a class of its own."""

    def __init__(self) -> None:
        self.classes: dict[str, str] = {}

    def shared(self, element: str) -> str:
        """A drawn picture whose marks have classes in place of styles; what is between its tags stays as it is."""
        return _TAG.sub(lambda tag: _STYLE.sub(self._class, tag[0]), element)

    def sheet(self) -> str:
        """The classes, and the colours that they name on white paper and on dark."""
        rules = "".join(f".{name}{{{style}}}\n" for style, name in self.classes.items())
        day, night = variables([rules])
        return f"{rules}:root {{ {day} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {night} }} }}\n"

    def _class(self, style: re.Match[str]) -> str:
        return f' class="{self.classes.setdefault(style[1], f"s{len(self.classes)}")}"'
