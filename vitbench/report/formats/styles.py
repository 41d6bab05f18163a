"""Styles: how the marks of a page's pictures look, said once for the page and not at every mark.

A page of pictures has ten thousand marks in a few hundred looks; written at each of them they were a third of the page.
"""

from __future__ import annotations

import re

from vitbench.report.figures.charts import OWN
from vitbench.report.figures.colours import NIGHT, PAPER, resolved, variables

_TAG = re.compile(r"<(?:path|use|text|g|image|rect) [^>]*>")
NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_STYLE = re.compile(r' style="([^"]*)"')


class Styles:
    """The looks of a page's pictures, each with a class of its own."""

    def __init__(self) -> None:
        self.classes: dict[str, str] = {}

    def shared(self, element: str) -> str:
        """A drawn picture whose marks have classes in place of styles; what is between its tags stays as it is."""
        return _TAG.sub(lambda tag: _STYLE.sub(self._class, tag[0]), element)

    def rules(self) -> str:
        """The classes alone."""
        return "".join(f".{name}{{{style}}}\n" for style, name in self.classes.items())

    def sheet(self) -> str:
        """The classes, and the colours that they name on white paper and on dark."""
        rules = self.rules()
        day, night = variables([rules])
        return f"{rules}:root {{ {day} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {night} }} }}\n"

    def _class(self, style: re.Match[str]) -> str:
        return f' class="{self.classes.setdefault(style[1], f"s{len(self.classes)}")}"'


def alone(element: str) -> str:
    """A drawn picture as a file of its own, in the colours of white paper, and on a dark screen in those."""
    styles = Styles()
    head, body = element[: element.index(">")], styles.shared(element[element.index(">") :].replace(OWN, ""))
    rules = "text{font-family:'DejaVu Sans',Verdana,sans-serif}" + styles.rules()
    day, night = (f"svg{{background:{ground}}}{resolved(rules, dark=ground == NIGHT)}" for ground in (PAPER, NIGHT))
    box = re.search(r"viewBox=\"0 0 ([\d.]+) ([\d.]+)\"", head)
    size = f'width="{box[1]}pt" height="{box[2]}pt" {box[0]}' if box else ""
    return f"<svg {NAMESPACES} {size}><style>{day}@media (prefers-color-scheme: dark){{{night}}}</style{body}\n"
