"""Drawing of sheets: images side by side, each pixel as it is, with what is laid over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from vitbench.report.drawing.names import labels_of
from vitbench.report.drawing.parts import GREY, INK
from vitbench.report.pixel_charts import Pixels, Strip, Tile, Tiles

WIDTH = 3.3
"""Inches, of all tiles: a sheet is as wide as a phone, whatever it shows."""
LARGEST = 2.0
"""Inches, of a tile."""
TALLEST = 2.0
"""Height of a tile over its width: a taller image is narrower than its place."""
GAP, LINE, UNDER, SCALE, MARGIN = 0.06, 0.2, 0.13, 0.42, 0.08
"""Inches: between tiles, of a line of text, of each line under one, of the scale, and around all."""
HEADING, TITLE = 8.5, 7.5
"""Points: letters above a strip, and above a tile."""
PIXELS_PER_INCH = 150
"""Above which a tile has its pixels averaged: more are not seen, and a sheet may have hundreds of tiles."""
MAP = mpl.colormaps["viridis"]
LEAST_OPAQUE, MOST_OPAQUE = 0.45, 0.75
"""Of what is laid over an image: of zero, and of the largest value."""


def figure(chart: Tiles) -> Figure:
    """The figure, laid out in inches from the upper left corner."""
    side = min(LARGEST, (WIDTH - GAP * (chart.columns - 1)) / chart.columns)
    sheet = _Sheet(chart.columns, side)
    width = side * chart.columns + GAP * (chart.columns - 1)
    height = sum(map(sheet.height, chart.strips)) + SCALE * bool(chart.label)
    made = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    ax = made.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    told = dict.fromkeys(text for strip in chart.strips for tile in strip.tiles for text in tile.title)
    titles = dict(zip(told, labels_of([*told], side, TITLE), strict=True))
    headings = labels_of([strip.title for strip in chart.strips], width, HEADING)
    top = 0.0
    for strip, heading in zip(chart.strips, headings, strict=True):
        sheet.draw(ax, strip, heading, titles, top)
        top += sheet.height(strip)
    if chart.label:
        _scale(ax, chart.label, top, width)
    ax.set_xlim(-MARGIN, width + MARGIN)
    ax.set_ylim(height + MARGIN, -MARGIN)
    return made


@dataclass(frozen=True)
class _Sheet:
    """How tiles are laid out: so many in a line, each so wide (inches)."""

    columns: int
    side: float

    def height(self, strip: Strip) -> float:
        """Of a strip, the gap beneath it included."""
        lines = -(-len(strip.tiles) // self.columns)
        return LINE * bool(strip.title) + lines * (self.titled(strip) + self.tall(strip) + GAP)

    def titled(self, strip: Strip) -> float:
        """Room for the titles of its tiles."""
        lines = max(len(tile.title) for tile in strip.tiles)
        return LINE + UNDER * (lines - 1) if lines else 0.0

    def tall(self, strip: Strip) -> float:
        """Of its tiles, which are alike."""
        height, width = strip.tiles[0].pixels.shape[:2]
        return self.side * min(TALLEST, float(height) / float(width))

    def draw(self, ax: Axes, strip: Strip, heading: str, titles: Mapping[str, str], top: float) -> None:
        """A strip, its upper edge at a height; its own title and those of its tiles as there is room for them."""
        side, tall, titled = self.side, self.tall(strip), self.titled(strip)
        if strip.title:
            ax.text(0, top + LINE * 0.55, heading, fontsize=HEADING, color=INK, va="center")
            top += LINE
        for number, tile in enumerate(strip.tiles):
            x = (number % self.columns) * (side + GAP)
            y = top + (number // self.columns) * (titled + tall + GAP)
            for line, text in enumerate(tile.title):
                ax.text(x + side / 2, y + LINE * 0.55 + UNDER * line, titles[text], fontsize=TITLE, color=INK,
                        va="center", ha="center")  # fmt: skip
            y += titled
            pixels = _small(tile.pixels if tile.values is None else overlaid(tile), round(PIXELS_PER_INCH * side))
            wide = min(side, tall * tile.pixels.shape[1] / tile.pixels.shape[0])
            left = x + (side - wide) / 2
            ax.imshow(pixels, extent=(left, left + wide, y + tall, y), aspect="auto", interpolation="none")
            _grid(ax, tile, (left, y, wide, tall))


def _grid(ax: Axes, tile: Tile, place: tuple[float, float, float, float]) -> None:
    if tile.grid is None:
        return
    (rows, columns), (x, y, side, tall) = tile.grid, place
    for colour, thick in (("black", 1.2), ("white", 0.6)):  # to be seen on dark and on light
        ax.hlines([y + tall * i / rows for i in range(rows + 1)], x, x + side, colors=colour, linewidth=thick)
        ax.vlines([x + side * i / columns for i in range(columns + 1)], y, y + tall, colors=colour, linewidth=thick)


def overlaid(tile: Tile) -> Pixels:
    """A tile's image in grey, with its values over it as colours from 0 to their largest."""
    assert tile.values is not None
    height, width = tile.pixels.shape[:2]
    rows, columns = (np.arange(n) * of // n for n, of in zip((height, width), tile.values.shape, strict=True))
    values = tile.values / max(float(tile.values.max()), 1e-12)
    colour = MAP(values[np.ix_(rows, columns)])[..., :3]
    grey = np.asarray(Image.fromarray(tile.pixels).convert("L"), dtype=np.float64)[..., None] / 255.0
    opaque = LEAST_OPAQUE + (MOST_OPAQUE - LEAST_OPAQUE) * values[np.ix_(rows, columns)][..., None]
    mixed = opaque * colour + (1.0 - opaque) * grey
    return np.asarray((255.0 * mixed).round(), dtype=np.uint8)


def _small(pixels: Pixels, most: int) -> Pixels:
    """With at most so many pixels along its longer side."""
    height, width = pixels.shape[:2]
    if max(height, width) <= most:
        return pixels
    size = (max(1, round(side * most / max(height, width))) for side in (width, height))
    return np.asarray(Image.fromarray(pixels).resize(tuple(size), Image.Resampling.BOX))


def _scale(ax: Axes, label: str, top: float, width: float) -> None:
    """What the colours stand for."""
    x, y, long = 0.0, top + 0.08, min(1.2, width / 3)
    ramp = np.linspace(0.0, 1.0, 64)[None, :]
    ax.imshow(MAP(ramp)[..., :3], extent=(x, x + long, y + 0.12, y), aspect="auto", interpolation="none")
    ax.text(x, y + 0.22, "0", fontsize=7.5, color=GREY, va="center")
    ax.text(x + long, y + 0.22, "most", fontsize=7.5, color=GREY, va="center", ha="right")
    ax.text(x + long + 0.1, y + 0.06, label, fontsize=7.5, color=INK, va="center")
