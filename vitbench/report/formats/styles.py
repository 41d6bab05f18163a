"""Styles: how the marks of a page's pictures look, said once for the page and not at every mark.

A page of pictures has ten thousand marks in a few hundred looks; written at each of them they were a third of the page.
"""

from __future__ import annotations

import re

from vitbench.report.figures.charts import OWN
from vitbench.report.figures.colours import DARK, NIGHT, PAPER

_TAG = re.compile(r"<(?:path|use|text|g|image|rect) [^>]*>")
_STYLE = re.compile(r' style="([^"]*)"')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
ON_DARK = "@media screen and (prefers-color-scheme: dark)"


class Styles:
    """The looks of a page's pictures, each with a class of its own."""

    def __init__(self) -> None:
        self.classes: dict[str, str] = {}

    def shared(self, element: str) -> str:
        """A drawn picture whose marks have classes in place of styles; what is between its tags stays as it is."""
        return _TAG.sub(lambda tag: _STYLE.sub(self._class, tag[0]), element)

    def sheet(self) -> str:
        """The classes on white paper, and on a dark screen those whose colours have another value there."""
        rules = {f".{name}{{{style}}}": f".{name}{{{_dark(style)}}}" for style, name in self.classes.items()}
        night = [dark for rule, dark in rules.items() if dark != rule]
        return "\n".join([*rules, f"{ON_DARK} {{", *night, "}", ""])

    def _class(self, style: re.Match[str]) -> str:
        return f' class="{self.classes.setdefault(style[1], f"s{len(self.classes)}")}"'


def _dark(style: str) -> str:
    return _COLOUR.sub(lambda colour: DARK.get(colour[0], colour[0]), style)


def alone(element: str) -> str:
    """A drawn picture as a file of its own, in the colours of white paper, and on a dark screen in those."""
    styles = Styles()
    head, body = element[: element.index(">")], styles.shared(element[element.index(">") :].replace(OWN, ""))
    letters = "text{font-family:'DejaVu Sans',Verdana,sans-serif}"
    sheet = f"svg{{background:{PAPER}}}\n{letters}\n{styles.sheet()}{ON_DARK} {{svg{{background:{NIGHT}}}}}"
    box = re.search(r"viewBox=\"0 0 ([\d.]+) ([\d.]+)\"", head)
    size = f'width="{box[1]}pt" height="{box[2]}pt" {box[0]}' if box else ""
    return f"<svg {NAMESPACES} {size}><style>{sheet}</style{body}\n"
