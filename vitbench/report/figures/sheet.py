"""Sheets: images side by side, each pixel as it is, with what is laid over them."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from vitbench.report.figures.charts import Pixels, Strip, Tile, Tiles
from vitbench.report.figures.colours import GREY, INK
from vitbench.report.figures.parts import fit

WIDTH = 3.4
"""Inches of all tiles: two sheets stand side by side in a page."""
LARGEST, SMALLEST = 2.0, 0.44
"""Inches of a tile; for the least a sheet of many columns grows wider."""
TALLEST = 2.0
"""Height of a tile over its width: a taller image is narrower than its place."""
GAP, LINE, UNDER, SCALE, MARGIN = 0.06, 0.2, 0.13, 0.42, 0.08
"""Inches: between tiles, of a line of text, of each line under one, of the scale, and around all."""
HEADING, TITLE = 8.5, 7.5
"""Points: letters above a strip, and above a tile."""
PIXELS_PER_INCH = 150
"""Above which a tile has its pixels averaged: more are not seen, and a sheet may have hundreds of tiles."""
LAID = np.array([240, 56, 10]) / 255
"""Colour of what is laid over a grey image: seen on black and on white, by the colour-blind too."""
MOST_OPAQUE = 0.85
"""Opacity of the largest value of an overlay, through which the image is still seen; zero is clear."""


Text = tuple[float, float, str, str, str, float]
"""x, y, text, colour, alignment, points."""


def figure(chart: Tiles) -> Figure:
    """Strips below one another, laid out in inches from the upper left corner."""
    images, texts, top, above = list[tuple[Pixels, float, float, float, float]](), list[Text](), 0.0, list[str]()
    side = max(SMALLEST, min(LARGEST, (WIDTH - GAP * (chart.columns - 1)) / chart.columns))
    width = max(WIDTH, side * chart.columns + GAP * (chart.columns - 1))
    every = [*dict.fromkeys(text for strip in chart.strips for tile in strip.tiles for text in tile.title)]
    short = dict(zip(every, fit(every, side, TITLE), strict=True))
    headings = fit([f"{s.title}: {s.scale}" if s.scale else s.title for s in chart.strips], width, HEADING)
    for strip, heading in zip(chart.strips, headings, strict=True):
        if strip.title:
            texts.append((0.0, top + LINE * 0.55, heading, INK, "left", HEADING))
            top += LINE
        titles = [" ".join(tile.title) for tile in strip.tiles]
        lines = max(len(tile.title) for tile in strip.tiles) if titles != above else 0  # columns are named once
        titled, tall, above = LINE + UNDER * (lines - 1) if lines else 0.0, _tall(strip, side), titles
        for number, tile in enumerate(strip.tiles):
            x, y = number % chart.columns * (side + GAP), top + number // chart.columns * (titled + tall + GAP)
            texts += [(x + side / 2, y + LINE * 0.55 + UNDER * line, short[text], INK, "center", TITLE)
                      for line, text in enumerate(tile.title[:lines])]  # fmt: skip
            images.append((_seen(tile, strip, side), x, y + titled, side, tall))
        top += -(-len(strip.tiles) // chart.columns) * (titled + tall + GAP)
    if chart.label:
        long = min(1.2, width / 3)
        ramp = Tile(np.full((1, 64, 3), 160, dtype=np.uint8), values=np.linspace(0.0, 1.0, 64)[None, :])
        images.append((overlaid(ramp, 1.0), 0.0, top + 0.08, long, 0.12))
        label = fit([chart.label], width - long - 0.1, TITLE)[0]
        texts += [(0.0, top + 0.3, "0", GREY, "left", TITLE),
                  (long, top + 0.3, "end of scale", GREY, "right", TITLE),
                  (long + 0.1, top + 0.14, label, INK, "left", TITLE)]  # fmt: skip
        top += SCALE
    made = Figure(figsize=(width + 2 * MARGIN, top + 2 * MARGIN))
    ax = made.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    for pixels, x, y, side, tall in images:
        wide = min(side, tall * pixels.shape[1] / pixels.shape[0])
        left = x + (side - wide) / 2  # in the middle of its place where it is narrower
        ax.imshow(pixels, extent=(left, left + wide, y + tall, y), aspect="auto", interpolation="none")
    for x, y, text, colour, align, points in texts:
        ax.text(x, y, text, fontsize=points, color=colour, va="center", ha=align)
    ax.set(xlim=(-MARGIN, width + MARGIN), ylim=(top + MARGIN, -MARGIN))
    return made


def _tall(strip: Strip, side: float) -> float:
    """Height of the tiles of a strip, which are alike."""
    height, width = strip.tiles[0].pixels.shape[:2]
    return side * min(TALLEST, float(height) / float(width))


def _seen(tile: Tile, strip: Strip, side: float) -> Pixels:
    """The pixels of a tile so wide, inches, with what is laid over it."""
    pixels, most = tile.pixels if tile.values is None else overlaid(tile, strip.most), round(PIXELS_PER_INCH * side)
    height, width = pixels.shape[:2]
    if max(height, width) > most:
        size = max(1, round(width * most / max(height, width))), max(1, round(height * most / max(height, width)))
        pixels = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BOX))
    return pixels


def overlaid(tile: Tile, most: float) -> Pixels:
    """A tile's image in grey, with one colour over it, as opaque as the values are large: zero is clear."""
    assert tile.values is not None
    height, width = tile.pixels.shape[:2]
    rows, columns = (np.arange(n) * of // n for n, of in zip((height, width), tile.values.shape, strict=True))
    values = np.clip(tile.values / max(most, 1e-12), 0.0, 1.0)
    grey = np.asarray(Image.fromarray(tile.pixels).convert("L"), dtype=np.float64)[..., None] / 255.0
    opaque = MOST_OPAQUE * values[np.ix_(rows, columns)][..., None]
    return np.asarray((255.0 * (opaque * LAID + (1.0 - opaque) * grey)).round(), dtype=np.uint8)
