"""Pixels: numbers as colours, and images side by side with what is laid over them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from vitbench.report.figures.charts import Heat, Nested, Numbers, Pixels, Strip, Tile, Tiles
from vitbench.report.figures.colours import GREY, INK, ON_PIXELS
from vitbench.report.figures.parts import NAME_POINTS, TEXT_POINTS, fit, inches

WIDTH = 3.6  # Inches: two stand side by side in a page
LONGEST, ROOM = 14, 1.2  # Letters and inches of a name beside a matrix
LINE = 0.14  # Inches that a row or column takes at least to have its name
COUNT_POINTS = 7.0
FLATTEST, TALLEST = 0.25, 2.0
"""Height over width of a grid of maps, and of a tile: a taller image is narrower than its place."""
BRIGHT = 45  # Per cent from which dark numbers are read better on their colour than light ones
MOST_TICKS = 8
SEQUENTIAL, DIVERGING = "viridis", "PuOr"
"""Colour maps that the colour-blind can read, too; the second is white in the middle."""


def matrix(chart: Heat) -> Figure:
    """A matrix, its first row at the top."""
    rows, columns = chart.values.shape
    names = fit(chart.names, ROOM, NAME_POINTS, longest=LONGEST)
    beside = max((inches(name, NAME_POINTS) for name in names), default=0.3) + 0.5
    cell = (WIDTH - beside) / columns
    names = names if cell >= LINE else []  # they would touch
    tall = (WIDTH - beside) * (rows / columns if chart.shares else min(1.2, max(0.35, rows / columns)))
    made = Figure(figsize=(WIDTH, tall + (beside if names else 0.5) + 0.65), layout="constrained")
    ax, values = made.subplots(), chart.values.astype(np.float64)
    if chart.shares:
        values = 100.0 * values / np.maximum(values.sum(axis=1, keepdims=True), 1.0)
    top = float(np.abs(values).max()) or 1.0
    low, high = (-top, top) if chart.centred else (0.0, 100.0 if chart.shares else top)
    widest = inches(f"{int(chart.values.max()):,}", COUNT_POINTS) + 0.04 if chart.shares else 0.0
    _heatmap(ax, values, (low, high), chart.label, DIVERGING if chart.centred else SEQUENTIAL)
    if chart.shares and cell >= max(LINE, widest):
        for row, column in np.ndindex(rows, columns):
            ax.text(column + 0.5, row + 0.5, f"{chart.values[row, column]:,}", ha="center", va="center",
                    fontsize=COUNT_POINTS, color=ON_PIXELS[int(values[row, column] >= BRIGHT)])  # fmt: skip
    _ticks(ax.xaxis, names or range(columns), [n + 0.5 for n in range(columns)], most=columns if names else MOST_TICKS)
    _ticks(ax.yaxis, names or range(rows), [n + 0.5 for n in range(rows)], most=rows if names else MOST_TICKS)
    ax.tick_params(axis="x", rotation=90 if names else 0)
    numbered = " (number)" if chart.names and not names else ""
    ax.set(xlabel=f"{chart.column}{numbered}", ylabel=f"{chart.row}{numbered}")
    return made


def nested(chart: Nested) -> Figure:
    """A grid of maps with the paper between them."""
    (rows, columns), down, across = chart.grid, len(chart.rows), len(chart.columns)
    apart = np.full((down, across, rows + 1, columns + 1), np.nan)
    apart[:, :, :rows, :columns] = chart.values.reshape(down, across, rows, columns)
    whole = apart.transpose(0, 2, 1, 3).reshape(down * (rows + 1), across * (columns + 1))[:-1, :-1]
    tall = WIDTH * min(TALLEST, max(FLATTEST, whole.shape[0] / whole.shape[1]))
    made = Figure(figsize=(WIDTH, tall + 0.75), layout="constrained")
    ax = made.subplots()
    _heatmap(ax, whole, (-1.0, 1.0), chart.label, DIVERGING)
    for axis, numbers, of in ((ax.xaxis, chart.columns, columns), (ax.yaxis, chart.rows, rows)):
        _ticks(axis, [n + 1 for n in numbers], [n * (of + 1) + of / 2 for n in range(len(numbers))])
    ax.set(xlabel="column of the patch", ylabel="row of the patch")
    return made


def _heatmap(ax: Axes, values: Numbers, ends: tuple[float, float], label: str, colours: str) -> None:
    """A rectangle for each value, as pixels: shapes would be a million."""
    import seaborn as sns  # imports pyplot and scipy.stats: a second, for nothing where a report has no matrix

    bar = {"orientation": "horizontal", "location": "top", "fraction": 0.06, "aspect": 30, "pad": 0.02}
    sns.heatmap(values, vmin=ends[0], vmax=ends[1], cmap=colours, mask=np.isnan(values), cbar_kws=bar, rasterized=True,
                xticklabels=False, yticklabels=False, ax=ax)  # fmt: skip
    scale = ax.collections[0].colorbar
    assert scale is not None and scale.solids is not None
    scale.set_label(label, fontsize=TEXT_POINTS, color=INK, loc="left")
    scale.locator = MaxNLocator(4)
    scale.update_ticks()
    scale.solids.set_rasterized(True)


def _ticks(axis: Axis, names: Sequence[object], places: Sequence[float], most: int = MOST_TICKS) -> None:
    step = -(-len(names) // most)
    axis.set_ticks(places[::step], [str(name) for name in names[::step]])


SHEET = 3.4  # Inches of all tiles: two sheets stand side by side in a page
LARGEST, SMALLEST = 2.0, 0.44  # Inches of a tile; for the least a sheet of many columns grows wider
GAP, LETTERS, UNDER, SCALE, MARGIN = 0.06, 0.2, 0.13, 0.42, 0.08
"""Inches: between tiles, of a line of text, of each line under one, of the scale, and around all."""
HEADING, TITLE = 8.5, 7.5  # Points: letters above a strip, and above a tile
PIXELS_PER_INCH = 150
"""Above which a tile has its pixels averaged: more are not seen, and a sheet may have hundreds of tiles."""
LAID = np.array([240, 56, 10]) / 255
"""Colour of what is laid over a grey image: seen on black and on white, by the colour-blind too."""
MOST_OPAQUE = 0.85  # Opacity of the largest value of an overlay, through which the image is still seen; zero is clear

Text = tuple[float, float, str, str, str, float]  # x, y, text, colour, alignment, points


def sheet(chart: Tiles) -> Figure:
    """Strips below one another, laid out in inches from the upper left corner."""
    images, texts, top, above = list[tuple[Pixels, float, float, float, float]](), list[Text](), 0.0, list[str]()
    side = max(SMALLEST, min(LARGEST, (SHEET - GAP * (chart.columns - 1)) / chart.columns))
    width = max(SHEET, side * chart.columns + GAP * (chart.columns - 1))
    every = [*dict.fromkeys(text for strip in chart.strips for tile in strip.tiles for text in tile.title)]
    short = dict(zip(every, fit(every, side, TITLE), strict=True))
    headings = fit([f"{s.title}: {s.scale}" if s.scale else s.title for s in chart.strips], width, HEADING)
    for strip, heading in zip(chart.strips, headings, strict=True):
        if strip.title:
            texts.append((0.0, top + LETTERS * 0.55, heading, INK, "left", HEADING))
            top += LETTERS
        titles = [" ".join(tile.title) for tile in strip.tiles]
        lines = max(len(tile.title) for tile in strip.tiles) if titles != above else 0  # columns are named once
        rows_of, columns_of = strip.tiles[0].pixels.shape[:2]
        tall, above = side * min(TALLEST, rows_of / columns_of), titles
        titled = LETTERS + UNDER * (lines - 1) if lines else 0.0
        for number, tile in enumerate(strip.tiles):
            x, y = number % chart.columns * (side + GAP), top + number // chart.columns * (titled + tall + GAP)
            texts += [(x + side / 2, y + LETTERS * 0.55 + UNDER * line, short[text], INK, "center", TITLE)
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
