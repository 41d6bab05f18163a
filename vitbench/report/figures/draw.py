"""Draw: a chart as pixels and as shapes, the same bytes each time.

Figures are made without pyplot, so that nothing of the caller's (backend, style, open figures) is used or changed.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from vitbench.report.document import Forest
from vitbench.report.figures import charts, heat, lines, scatter, sheet
from vitbench.report.figures.colours import GREY, INK, RULE
from vitbench.report.figures.parts import NAME_POINTS, TEXT_POINTS
from vitbench.report.figures.svg import PIXELS, svg

DPI = 200
STYLE: dict[Any, Any] = {
    **sns.axes_style("whitegrid"),
    "axes.edgecolor": GREY,
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
    "figure.dpi": DPI,
    "image.composite_image": False,  # each image of a figure by itself, at its own size
    "svg.fonttype": "none",
    "svg.hashsalt": "vitbench",
    "text.color": INK,
    "text.parse_math": False,  # a name with two dollar signs is a name
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "xtick.labelsize": NAME_POINTS,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
    "ytick.labelsize": NAME_POINTS,
}


FORMS: Mapping[type, Callable[[Any], Figure]] = {
    Forest: scatter.forest, charts.Front: scatter.front, charts.Roofline: scatter.roofline,
    charts.Curves: lines.curves, charts.Trends: lines.trends, charts.Heat: heat.matrix, charts.Nested: heat.nested,
    charts.Tiles: sheet.figure,
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
