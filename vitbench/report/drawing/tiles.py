"""Drawing of sheets: images side by side, each pixel as it is, with what is laid over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from vitbench.report.drawing.names import labels_of
from vitbench.report.drawing.parts import GREY, INK
from vitbench.report.pictures.colours import rgb
from vitbench.report.pictures.pixel_charts import Pixels, Strip, Tile, Tiles

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
LAID = "#f0380a"
"""Colour of what is laid over a grey image: seen on black and on white, by the colour-blind too."""
MOST_OPAQUE = 0.85
"""Of what is laid over an image, of the largest value: the image is seen through it. Zero is clear."""
BESIDE, SMALLEST = 0.62, 0.42
"""Inches, of a table of tiles: of the titles at its left, and the least of a tile, for which it grows wider."""


def figure(chart: Tiles) -> Figure:
    """The figure, laid out in inches from the upper left corner."""
    if chart.corner is not None:
        return _table(chart, chart.corner)
    side = min(LARGEST, (WIDTH - GAP * (chart.columns - 1)) / chart.columns)
    sheet = _Sheet(chart.columns, side)
    width = side * chart.columns + GAP * (chart.columns - 1)
    height = sum(map(sheet.height, chart.strips)) + SCALE * bool(chart.label)
    made = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    ax = made.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    told = dict.fromkeys(text for strip in chart.strips for tile in strip.tiles for text in tile.title)
    titles = dict(zip(told, labels_of([*told], side, TITLE), strict=True))
    said = [f"{strip.title}: {strip.scale}" if strip.scale else strip.title for strip in chart.strips]
    headings = labels_of(said, width, HEADING)
    top = 0.0
    for strip, heading in zip(chart.strips, headings, strict=True):
        sheet.draw(ax, strip, heading, titles, top)
        top += sheet.height(strip)
    _finish(ax, chart, top, width, height)
    return made


def _finish(ax: Axes, chart: Tiles, top: float, width: float, height: float) -> None:
    """What the colours stand for, beneath all, and the ends of the sheet."""
    if chart.label:
        _scale(ax, chart.label, top, width)
    ax.set_xlim(-MARGIN, width + MARGIN)
    ax.set_ylim(height + MARGIN, -MARGIN)


def _table(chart: Tiles, corner: Pixels) -> Figure:
    """A table of tiles: an image in its corner, titles at the left and above."""
    side = max(SMALLEST, min(LARGEST, (WIDTH - BESIDE) / chart.columns - GAP))
    sheet = _Sheet(chart.columns, side)
    lines = max(len(tile.title) for tile in chart.strips[0].tiles)
    tall = sheet.tall(chart.strips[0])
    corner_tall = BESIDE * min(TALLEST, corner.shape[0] / corner.shape[1])
    head = max(corner_tall + GAP, LINE + UNDER * (lines - 1))
    width = max(BESIDE + chart.columns * (side + GAP), WIDTH)
    height = head + len(chart.strips) * (tall + GAP) + SCALE * bool(chart.label)
    made = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    ax = made.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    _image(ax, corner, (0.0, 0.0, BESIDE, corner_tall))
    for row, strip in enumerate(chart.strips):
        top = head + row * (tall + GAP)
        for line, (text, colour) in enumerate(((strip.title, INK), (strip.scale, GREY))):
            short = labels_of([text], BESIDE - 0.02, TITLE)[0]
            ax.text(0, top + tall / 2 + UNDER * (line - 0.5), short, fontsize=TITLE,
                    color=colour, va="center")  # fmt: skip
        for column, tile in enumerate(strip.tiles):
            x = BESIDE + GAP + column * (side + GAP)
            for line, text in enumerate(reversed(tile.title) if not row else ()):
                short = labels_of([text], side, TITLE)[0]
                ax.text(x + side / 2, head - LINE * 0.5 - UNDER * line, short, fontsize=TITLE,
                        color=INK, va="center", ha="center")  # fmt: skip
            _image(ax, _seen(tile, strip, side), (x, top, side, tall))
    _finish(ax, chart, head + len(chart.strips) * (tall + GAP), width, height)
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
            _image(ax, _seen(tile, strip, side), (x, y, side, tall))


def _seen(tile: Tile, strip: Strip, side: float) -> Pixels:
    """The pixels of a tile so wide, inches, with what is laid over it."""
    most = round(PIXELS_PER_INCH * side)
    pixels = _small(tile.pixels if tile.values is None else overlaid(tile, strip.most), most)
    return pixels if tile.grid is None else _cut(pixels, tile.grid, most)


def _image(ax: Axes, pixels: Pixels, place: tuple[float, float, float, float]) -> None:
    """An image in its place (left, upper edge, width, height), in the middle of it where it is narrower."""
    x, y, side, tall = place
    wide = min(side, tall * pixels.shape[1] / pixels.shape[0])
    left = x + (side - wide) / 2
    ax.imshow(pixels, extent=(left, left + wide, y + tall, y), aspect="auto", interpolation="none")


def _cut(pixels: Pixels, grid: tuple[int, int], most: int) -> Pixels:
    """An image, so large at the least, with lines between its patches: light between dark, to be seen on both.

    They are pixels of it: so it is as large as its twin without them.
    """
    larger = -(-most // max(pixels.shape[:2]))
    whole = pixels.repeat(larger, axis=0).repeat(larger, axis=1)
    for axis, count in enumerate(grid):
        lines = np.moveaxis(whole, axis, 0)  # the same memory
        for at in (round(len(lines) * i / count) for i in range(1, count)):
            lines[max(0, at - 1) : at + 2] = 0
            lines[at] = 255
    return whole


def overlaid(tile: Tile, most: float) -> Pixels:
    """A tile's image in grey, with one colour over it, as opaque as the values are large: zero is clear."""
    assert tile.values is not None
    height, width = tile.pixels.shape[:2]
    rows, columns = (np.arange(n) * of // n for n, of in zip((height, width), tile.values.shape, strict=True))
    values = np.clip(tile.values / max(most, 1e-12), 0.0, 1.0)
    grey = np.asarray(Image.fromarray(tile.pixels).convert("L"), dtype=np.float64)[..., None] / 255.0
    opaque = MOST_OPAQUE * values[np.ix_(rows, columns)][..., None]
    mixed = opaque * np.array(rgb(LAID)) + (1.0 - opaque) * grey
    return np.asarray((255.0 * mixed).round(), dtype=np.uint8)


def _small(pixels: Pixels, most: int) -> Pixels:
    """With at most so many pixels along its longer side."""
    height, width = pixels.shape[:2]
    if max(height, width) <= most:
        return pixels
    size = (max(1, round(side * most / max(height, width))) for side in (width, height))
    return np.asarray(Image.fromarray(pixels).resize(tuple(size), Image.Resampling.BOX))


def _scale(ax: Axes, label: str, top: float, width: float) -> None:
    """What the colour stands for: laid over a middle grey."""
    x, y, long = 0.0, top + 0.08, min(1.2, width / 3)
    ramp = Tile(np.full((1, 64, 3), 160, dtype=np.uint8), values=np.linspace(0.0, 1.0, 64)[None, :])
    ax.imshow(overlaid(ramp, 1.0), extent=(x, x + long, y + 0.12, y), aspect="auto", interpolation="none")
    ax.text(x, y + 0.22, "0", fontsize=7.5, color=GREY, va="center")
    ax.text(x + long, y + 0.22, "end of scale", fontsize=7.5, color=GREY, va="center", ha="right")
    ax.text(x + long + 0.1, y + 0.06, label, fontsize=7.5, color=INK, va="center")
