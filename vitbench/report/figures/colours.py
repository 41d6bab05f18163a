"""Colours of figures on white paper and on dark, and the looks of their marks, said once for a page.

A figure is drawn for white paper. On a dark screen its colours have other values: :data:`DARK`. A colour without an
entry is seen on both and stays as it is.
"""

import itertools
import re

from vitbench.report.figures.charts import OWN, Colouring

PAPER, NIGHT = "#ffffff", "#14171b"  # The page's ground, light and dark; ``page.css`` has the same
INK, GREY, RULE = "#1a1a1a", "#636363", "#ededed"  # Colours: letters and means; remarks and axes; grid lines
PALETTE = ("#2c71b7", "#d85734", "#319d64", "#ac1377", "#460062", "#852a0f", "#3931b6", "#60444c")
"""Colours that the colour-blind tell apart, on both papers. The first three are near the blue, vermilion and bluish
green of Okabe and Ito (Wong 2011, "Points of view: Color blindness"); all were found by a search for the largest
distance between the nearest two, with and without protanopia and deuteranopia (model of Machado, Oliveira and Fernandes
2009)."""
_LIGHTER = ("#5296df", "#ff805f", "#5cc388", "#d6459b", "#864ba7", "#ac4e35", "#5559df", "#83656e")  # Palette on dark
DARK = {PAPER: NIGHT, INK: "#fcfcfc", GREY: "#969696", RULE: "#252525", **dict(zip(PALETTE, _LIGHTER, strict=True))}
"""Colour on white paper → on dark: of the same hue and with enough contrast."""
SCALE = (
    "#e02659", "#25846b", "#cc2cb6", "#508323", "#8258ee", "#877523", "#297f9e", "#bc5924",
    "#26837c", "#d62992", "#24864c", "#bc30dd", "#727c23", "#2d78c6", "#9d6c23", "#27818b",
)  # fmt: skip
"""Colours of more values than the palette has, evenly spaced hues of one lightness, which is seen on both papers."""
ON_PIXELS = ("#fefefe", "#010101")  # Light and dark letters on pixels, which look alike on both papers


def colours_of(colouring: Colouring) -> dict[str, str]:
    """Value → its colour; the others' is grey."""
    palette = PALETTE if len(colouring.values) <= len(PALETTE) else itertools.cycle(SCALE)
    grey = {colouring.others: GREY} if colouring.others else {}
    return {**dict(zip(colouring.values, palette, strict=False)), **grey}


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
        dark = {style: _COLOUR.sub(lambda colour: DARK.get(colour[0], colour[0]), style) for style in self.classes}
        rules = {f".{name}{{{style}}}": f".{name}{{{dark[style]}}}" for style, name in self.classes.items()}
        night = [on_dark for rule, on_dark in rules.items() if on_dark != rule]
        return "\n".join([*rules, f"{ON_DARK} {{", *night, "}", ""])

    def _class(self, style: re.Match[str]) -> str:
        return f' class="{self.classes.setdefault(style[1], f"s{len(self.classes)}")}"'


def alone(element: str) -> str:
    """A drawn picture as a file of its own, in the colours of white paper, and on a dark screen in those."""
    styles = Styles()
    head, body = element[: element.index(">")], styles.shared(element[element.index(">") :].replace(OWN, ""))
    letters = "text{font-family:'DejaVu Sans',Verdana,sans-serif}"
    sheet = f"svg{{background:{PAPER}}}\n{letters}\n{styles.sheet()}{ON_DARK} {{svg{{background:{NIGHT}}}}}"
    box = re.search(r"viewBox=\"0 0 ([\d.]+) ([\d.]+)\"", head)
    size = f'width="{box[1]}pt" height="{box[2]}pt" {box[0]}' if box else ""
    return f"<svg {NAMESPACES} {size}><style>{sheet}</style{body}\n"
