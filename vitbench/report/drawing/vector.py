"""Vector: a figure as SVG that stands inside a page among others, the same text each time."""

from __future__ import annotations

import io
import re
from collections.abc import Container
from html import unescape

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from vitbench.report.charts import OWN

PIXELS_PER_INCH = 110
"""Of a page at its normal size: letters of 9 points are a little smaller than its text."""
LEAST = 0.75
"""Share of its width below which a picture is rolled sideways, and not made smaller: it could not be read."""

_TAG = re.compile(r"<[^>]*>")
_NAMED = re.compile(r' id="([^"]+)"')
_POINTING = re.compile(r'(?<=url\(#)[^)]+(?=\))|(?<=href="#)[^"]+(?=")')
_PLACES = re.compile(r' (?:d|x|y|points|transform)="[^"]*"')
_LONG = re.compile(r"(?<![\d.])-?\d+\.\d{3,}")
_LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", re.DOTALL)
_HEAD = re.compile(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', re.DOTALL)
_TEXT = re.compile(r'<text style="([^"]*)"([^>]*)>([^<]*)</text>')


def svg(figure: Figure) -> str:
    """An ``<svg>`` element as wide as its place, and no wider than the figure, without a ground of its own.

    Its lines' ends and its letters' shapes are left to the page; each text is as long as it was laid out, whatever the
    reader's letters are. What nothing in it points to has no id, and the other ids begin with :data:`OWN`. One that
    shows images says so by its class: a page must not change their colours.
    """
    for patch in (figure.patch, *(ax.patch for ax in figure.axes)):
        patch.set_visible(False)
    packed = io.StringIO()
    # Canvases have no annotations among matplotlib's stubs.
    FigureCanvasSVG(figure).print_svg(packed, metadata={"Date": None})  # type: ignore[no-untyped-call]
    text = _LEFT_OUT.sub("", packed.getvalue())
    head = _HEAD.search(text)
    assert head is not None
    body = text[head.end() :]
    wanted = {name for tag in _TAG.findall(body) for name in _POINTING.findall(tag)}
    body = _TAG.sub(lambda tag: _cleaned(tag[0], wanted), body)
    body = _TEXT.sub(_laid_out, body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    width = figure.get_figwidth() * PIXELS_PER_INCH
    size = f"min-width: {LEAST * width:.0f}px; max-width: {width:.0f}px"
    kind = ' class="pixels"' if any(ax.images for ax in figure.axes) else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg"{kind} viewBox="{head[1]}" style="{size}">{body.strip()}'


def _cleaned(tag: str, wanted: Container[str]) -> str:
    """A tag with the ids that are wanted, made the picture's own. What is between tags stays as it is."""
    tag = _NAMED.sub(lambda m: f' id="{OWN}{m[1]}"' if m[1] in wanted else "", tag)
    tag = _POINTING.sub(lambda m: f"{OWN}{m[0]}", tag).replace(' xlink:href="', ' href="')
    return _PLACES.sub(lambda m: m[0] if "scale(" in m[0] else _LONG.sub(_short, m[0]), tag)


def _short(number: re.Match[str]) -> str:
    """Hundredths of a point are not seen."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _laid_out(text: re.Match[str]) -> str:
    """A text in the page's font, at the length that the picture was laid out with."""
    style = {name: value for name, _, value in (part.partition(": ") for part in text[1].split("; "))}
    font = FontProperties(
        size=float(style["font-size"].removesuffix("px")), style="italic" if "font-style" in style else "normal",
        weight=int(style.get("font-weight", "400")),
    )  # fmt: skip
    length = text_to_path.get_text_width_height_descent(unescape(text[3]), font, ismath=False)[0]
    kept = "; ".join(f"{name}: {value}" for name, value in style.items() if name != "font-family")
    place = text[2] if "rotate(-0 " not in text[2] else text[2][: text[2].index(" transform=")]
    return f'<text style="{kept}"{place} textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">{text[3]}</text>'
