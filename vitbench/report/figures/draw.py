"""Draw: a chart as pixels and as shapes, the same bytes each time.

Figures are made without pyplot, so that nothing of the caller's (backend, style, open figures) is used or changed.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image

from vitbench.report.document import Forest
from vitbench.report.figures import charts, marks, pixels
from vitbench.report.figures.charts import OWN
from vitbench.report.figures.colours import GREY, INK, RULE
from vitbench.report.figures.parts import BETWEEN, NAME_POINTS, TEXT_POINTS, TIP, inches

DPI = 200
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": TEXT_POINTS,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": TEXT_POINTS,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": TEXT_POINTS,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "legend.fontsize": NAME_POINTS,
    "legend.frameon": False,
    "legend.title_fontsize": NAME_POINTS,
    "lines.solid_capstyle": "round",
    "figure.dpi": DPI,
    "image.composite_image": False,  # each image of a figure by itself, at its own size
    "svg.fonttype": "none",
    "svg.hashsalt": "vitbench",
    "text.color": INK,
    "text.parse_math": False,  # a name with two dollar signs is a name
    "xtick.bottom": False,
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "xtick.labelsize": NAME_POINTS,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
    "ytick.labelsize": NAME_POINTS,
    "ytick.left": False,
}

FORMS: Mapping[type, Callable[[Any], Figure]] = {
    Forest: marks.forest, charts.Front: marks.front, charts.Roofline: marks.roofline,
    charts.Curves: marks.curves, charts.Trends: marks.trends, charts.Heat: pixels.matrix, charts.Nested: pixels.nested,
    charts.Tiles: pixels.sheet,
}  # fmt: skip
"""Kind of chart → makes its figure."""


def figure(chart: charts.Chart) -> Figure:
    """The figure of a chart, to be made within :func:`style`."""
    return FORMS[type(chart)](chart)


def draw(chart: charts.Chart) -> charts.Drawn:
    """A chart in the report's own style, whatever the user's is."""
    with style():
        made = figure(chart)
        canvas = FigureCanvasAgg(made)
        # The canvases alone have no annotations among matplotlib's stubs.
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")  # type: ignore[no-untyped-call]
        made.set_layout_engine("none")  # all has its place now
        shapes = svg(made)
    if PIXELS not in shapes:  # few colours: a third of the bytes
        pixels = pixels.quantize(128, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    pixels.save(packed, "png", dpi=(DPI, DPI))
    return charts.Drawn(packed.getvalue(), shapes)


@contextmanager
def style() -> Iterator[None]:
    """The report's own style, and afterwards the caller's again."""
    with warnings.catch_warnings(), mpl.rc_context():
        # A name in a script that the font does not have shows as boxes here, and in full in the tables.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


PIXELS_PER_INCH = 100
"""Pixels of a page to an inch of a figure: letters of 9 points are as large as the text of the page's tables."""
LEAST = 0.88  # Share of its width below which a figure is rolled sideways, and not made smaller: it could not be read
PIXELS = ' class="pixels"'  # Attribute of a figure that shows images or a heat map

_TAG = re.compile(r"<[^>]*>")
_NAMED = re.compile(r' id="([^"]+)"')
_TIP = re.compile(rf' id="{TIP}([^"{BETWEEN}]*){BETWEEN}([^"]*)"')
_POINTING = re.compile(r'(?<=url\(#)[^)]+(?=\))|(?<=href="#)[^"]+(?=")')
_PLACES = re.compile(r' (?:d|x|y|points|transform)="[^"]*"')
_SCALED = re.compile(r"scale\(|matrix\(")  # Of an image of many pixels: a tenth in a factor is a tenth of its size
_LONG = re.compile(r"(?<![\d.])-?\d+\.\d{2,}")
_LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", re.DOTALL)
_HEAD = re.compile(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', re.DOTALL)
_TEXT = re.compile(r'<text style="([^"]*)"([^>]*)>([^<]*)</text>')


def svg(figure: Figure) -> str:
    """An ``<svg>`` element as wide as its place, and no wider than the figure, without a ground of its own.

    Its colours are those on white paper. Each text is as long as it was laid out, whatever the reader's letters are.
    What nothing in it points to has no id, and the other ids begin with :data:`OWN`. One that shows images says so by
    its class.
    """
    for patch in (figure.patch, *(ax.patch for ax in figure.axes)):
        patch.set_visible(False)
    packed = io.StringIO()
    FigureCanvasSVG(figure).print_svg(packed, metadata={"Date": None})  # type: ignore[no-untyped-call]
    text = _LEFT_OUT.sub("", packed.getvalue())
    head = _HEAD.search(text)
    assert head is not None
    body = text[head.end() :]
    # By their order: matplotlib's are hashes of places to the last bit, which the layout's solver does not repeat.
    pointed = dict.fromkeys(name for tag in _TAG.findall(body) for name in _POINTING.findall(tag))
    wanted = {name: f"{OWN}{number}" for number, name in enumerate(pointed)}
    body = _TAG.sub(lambda tag: _cleaned(tag[0], wanted), body)
    body = re.sub(r"\s*\n\s*", "\n", _TEXT.sub(_laid_out, body))
    width = figure.get_figwidth() * PIXELS_PER_INCH
    kind = PIXELS if "<image" in body else ""
    size = f"min-width: {LEAST * width:.0f}px; max-width: {width:.0f}px"
    return f'<svg xmlns="http://www.w3.org/2000/svg"{kind} viewBox="{head[1]}" style="{size}">{body.strip()}'


def _cleaned(tag: str, wanted: Mapping[str, str]) -> str:
    """A tag with the ids that are wanted, made the figure's own. What is between tags stays as it is."""
    tag = _TIP.sub(lambda m: f' data-cell="{m[1]}" data-tip="{m[1]}: {m[2]}"' if m[1] else f' data-tip="{m[2]}"', tag)
    tag = _NAMED.sub(lambda m: f' id="{wanted[m[1]]}"' if m[1] in wanted else "", tag)
    tag = _POINTING.sub(lambda m: wanted[m[0]], tag).replace(' xlink:href="', ' href="')
    return _PLACES.sub(lambda m: m[0] if _SCALED.search(m[0]) else _LONG.sub(_short, m[0]), tag)


def _short(number: re.Match[str]) -> str:
    """Less than a tenth of a point is not seen."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _laid_out(text: re.Match[str]) -> str:
    """A text in the page's font, at the length that the figure was laid out with."""
    style = {name: value for name, _, value in (part.partition(": ") for part in text[1].split("; "))}
    length = 72 * inches(unescape(text[3]), float(style["font-size"].removesuffix("px")))
    kept = "; ".join(f"{name}: {value}" for name, value in style.items() if name != "font-family")
    place = text[2] if "rotate(-0 " not in text[2] else text[2][: text[2].index(" transform=")]
    return f'<text style="{kept}"{place} textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">{text[3]}</text>'
