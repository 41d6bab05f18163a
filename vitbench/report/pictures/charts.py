"""Charts: what a picture shows, as data. :mod:`vitbench.report.drawing` draws them.

A chart knows neither colours nor sizes: rows and curves name the value that colours them. Importing this draws in no
plotting library, so that a chart can be drawn by another process than the one that made it.
"""

from __future__ import annotations

from dataclasses import dataclass

from vitbench.report.pictures.pixel_charts import Heat, Nested, Tiles, Waves
from vitbench.report.pictures.plane_charts import Curves, Front, Roofline, Trends
from vitbench.report.pictures.row_charts import Forest, Pairs, Rows

Chart = Rows | Pairs | Curves | Trends | Roofline | Front | Forest | Tiles | Heat | Nested | Waves


OWN = "\ue000"
"""Begins the ids of a drawn picture, until a page gives it a name of its own. No text of a picture has this letter: it
is not printable."""


@dataclass(frozen=True)
class Drawn:
    """A chart that has been drawn.

    Attributes:
        png: its pixels, a file's content.
        svg: its shapes, an element; see :func:`vitbench.report.drawing.vector.svg`. Ids in it begin with :data:`OWN`.
    """

    png: bytes
    svg: str


@dataclass(frozen=True)
class Picture:
    """A picture in a report.

    Attributes:
        name: of its file, without folder and ending.
        chart: what it shows.
        alt: the same in words, for those who do not see it; plain text.
        caption: how to read it; plain text.
    """

    name: str
    chart: Chart
    alt: str
    caption: str
