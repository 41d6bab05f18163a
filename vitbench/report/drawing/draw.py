"""Draw: a chart as pixels and as shapes, the same bytes each time.

Figures are made without pyplot, so that nothing of the caller's (backend, style, open figures) is used or changed.
"""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from vitbench.report.drawing import curves, forest, front, heat, pairs, roofline, rows, tiles, trends
from vitbench.report.drawing.vector import svg
from vitbench.report.pictures.charts import Chart, Drawn
from vitbench.report.pictures.colours import GREY, INK
from vitbench.report.pictures.pixel_charts import Heat, Nested, Tiles, Waves
from vitbench.report.pictures.plane_charts import Curves, Front, Roofline, Trends
from vitbench.report.pictures.row_charts import Forest, Pairs, Rows

DPI = 105
MOST_OPTIMISED = 1_000_000
"""Pixels of a picture whose file is made as small as can be. Pages of long figures have more: their files are two
percent larger, and made in a fifth of the time."""
STYLE: dict[Any, Any] = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.facecolor": "white",
    "font.size": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.title_fontsize": 8,
    "figure.dpi": DPI,
    "image.composite_image": False,  # each image of a figure by itself, at its own size
    "svg.fonttype": "none",
    "svg.hashsalt": "vitbench",
    "text.color": INK,
    "text.parse_math": False,  # a name with two dollar signs is a name
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 7.5,
}


@functools.singledispatch
def figure(chart: Chart, *, narrow: bool = False) -> Figure:
    """The figure of a chart, to be made within :func:`style`: for a page, or a narrow one for a phone."""
    raise TypeError(f"no chart: {type(chart).__name__}")


figure.register(Rows, rows.figure)
figure.register(Pairs, pairs.figure)
figure.register(Curves, curves.figure)
figure.register(Trends, trends.figure)
figure.register(Roofline, roofline.figure)
figure.register(Front, front.figure)
figure.register(Forest, forest.figure)
figure.register(Tiles, tiles.figure)
figure.register(Heat, heat.matrix)
figure.register(Nested, heat.nested)
figure.register(Waves, heat.waves)

ONE_FORM = (Tiles, Heat, Nested, Waves)
"""Charts that are as narrow as a phone whatever they show."""


def draw(chart: Chart) -> Drawn:
    """A chart in the report's own style, whatever the user's is: as pixels, and as shapes for pages wide and narrow."""
    with style():
        made = figure(chart)
        canvas = FigureCanvasAgg(made)
        # The canvases alone have no annotations among matplotlib's stubs.
        canvas.draw()  # type: ignore[no-untyped-call]
        made.set_layout_engine("none")  # all has its place now
        if isinstance(chart, ONE_FORM):
            shapes = svg(made)
        else:
            shapes = svg(made, "wide")
            phone = figure(chart, narrow=True)
            _lay_out(phone)
            shapes += svg(phone, "narrow")
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    packed, small = io.BytesIO(), pixels.shape[0] * pixels.shape[1] <= MOST_OPTIMISED
    Image.fromarray(pixels).convert("RGB").save(packed, "png", optimize=small)
    return Drawn(packed.getvalue(), shapes)


def _lay_out(made: Figure) -> None:
    """Give all its place."""
    engine = made.get_layout_engine()
    assert engine is not None
    engine.execute(made)
    made.set_layout_engine("none")


@contextmanager
def style() -> Iterator[None]:
    """The report's own style, and afterwards the caller's again."""
    with warnings.catch_warnings(), mpl.rc_context():
        # A name in a script that the font does not have shows as boxes here, and in full in the tables.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield
