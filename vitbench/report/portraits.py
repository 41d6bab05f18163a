"""Portraits: what there is to see of trained models, as pictures with words between them; without torch.

A picture that a model cannot have is a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from vitbench.report.charts import Picture
from vitbench.report.markdown import Md, escape
from vitbench.report.marks import Colouring
from vitbench.report.numbers import plural
from vitbench.report.pixel_charts import Heat, Nested, Pixels, Strip, Tile, Tiles, Waves
from vitbench.report.plane_charts import Trends
from vitbench.spec.base import pair
from vitbench.store.portrait import Array, Exhibit, Portrait
from vitbench.store.portrait import Picture as Name

A_LINE = 6
"""Heads in a line: more could not be seen on a phone."""
MOST = 12
"""Layers, and heads, whose attention is shown; of more, evenly chosen ones."""
A_LOOK = 4
"""Images in a line of those that are told right, or wrong."""
FILTERS_A_LINE = 8
WAVES, NEARLY = 6, 0.1
"""Channels that are shown as waves, and the part of the largest range below which one is hardly a wave."""
MOST_TOKENS = 260
"""In a heatmap of positions, whose rows are tokens: those of 16 × 16 patches, and some before them."""
MOST_PLACES = 16
"""Rows, and columns, of patches that have a map of similarity; of more, evenly chosen ones: a map of 24 × 24 or
32 × 32 places takes so much room that no more of them can be seen side by side, and a table of them all is a million
numbers."""

TITLES: dict[Name, str] = {
    "filters": "patch-embedding filters", "positions": "positions as numbers", "similarity": "similarity of positions",
    "attention": "attention of every layer and head", "distances": "mean attention distance",
    "looks": "attention in the last layer", "rollouts": "attention rollout", "confusion": "confusion matrix",
}  # fmt: skip


LOOKS, TOLD = "What it looks at, right and wrong", "Images that it tells right and wrong"


def sections(portrait: Portrait, slug: str = "", most: int = MOST) -> dict[str, list[Picture]]:
    """Heading → what can be seen of a model, in the order in which an image passes through it.

    Args:
        portrait: of the model.
        slug: begins the names of the pictures' files.
        most: layers, and heads, whose attention is shown; of more, evenly chosen ones.
    """
    found = {
        "Patches": [*_patches(portrait), *_filters(portrait)],
        "Positions": _positions(portrait),
        "Attention by layer and head": [*_attention(portrait, most), *_distances(portrait)],
        LOOKS if portrait.looks is not None else TOLD: _looks(portrait),
        "Confusion matrix": _confusion(portrait),
    }
    return {title: [replace(p, name=f"{slug}{p.name}") for p in of] for title, of in found.items() if of}


def about(portrait: Portrait) -> Md:
    """Which model, which images, and how many were told right."""
    spec, said = portrait.about.model, portrait.about
    size: str = spec.architecture
    if spec.of_components:
        size = f"{plural(spec.depth, 'layer')}, {plural(spec.heads, 'head')}, width {spec.dim}"
    right = ""
    if (counts := portrait.confusion) is not None and counts.sum():
        share = 100 * counts.trace() / counts.sum()
        right = f"; it tells {int(counts.trace()):,} of {counts.sum():,} right ({share:.1f} %)"
    trial = f", of the trial {escape(said.trial)}" if said.trial else ""
    return Md(f"A model of {escape(size)}{trial}, seen on {escape(said.images)}{right}.")


def missing(portrait: Portrait) -> list[Md]:
    """Pictures that are not there, and why: one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in portrait.about.absent.items():
        reasons.setdefault(reason, []).append(TITLES[name])
    lines = [f"{', '.join(names)}: {why}." for why, names in reasons.items()]
    return [Md(escape(line[:1].upper() + line[1:])) for line in lines]


def _patches(portrait: Portrait) -> list[Picture]:
    spec = portrait.about.model
    if not spec.of_components or not len(portrait.pixels):
        return []
    (rows, columns), (height, width) = spec.grid, pair(spec.patch_size)
    tiles = [Tile(portrait.pixels[0]), Tile(portrait.pixels[0], grid=spec.grid)]
    before = f"; before them {'come' if spec.prefix > 1 else 'comes'} {spec.prefix} of no patch" if spec.prefix else ""
    said = (f"An image, and the {rows} × {columns} patches of {height} × {width} pixels of which the model makes its "
            f"{plural(spec.patches, 'token')}, row by row{before}.")  # fmt: skip
    chart = Tiles([Strip("", tiles)], 2)
    return [Picture("patches", chart, f"an image, and the same image cut into {rows} by {columns} patches", said)]


def _filters(portrait: Portrait) -> list[Picture]:
    if (filters := portrait.filters) is None:
        return []
    tiles = [Tile(_as_pixels(each)) for each in filters]
    which = "All" if len(filters) == portrait.about.model.dim else f"The {len(filters)} largest"
    of = "" if len(filters) == portrait.about.model.dim else f" of {portrait.about.model.dim}"
    height, width = filters.shape[1:3]
    said = (f"{which}{of} patch-embedding filters, the largest first: {height} × {width} pixels in red, green, blue, "
            "each at its own contrast; grey is zero.")  # fmt: skip
    alt = f"{len(filters)} patch-embedding filters as small images"
    return [Picture("filters", Tiles([Strip("", tiles)], FILTERS_A_LINE), alt, said)]


def _as_pixels(weights: Array) -> Pixels:
    """Zero in the middle, the largest weight at an end."""
    most = float(np.abs(weights).max()) or 1.0
    return np.asarray((127.5 + 127.5 * (weights / most)).round(), dtype=np.uint8)


def _positions(portrait: Portrait) -> list[Picture]:
    spec, found = portrait.about.model, list[Picture]()
    if (table := portrait.positions) is not None and not portrait.about.learned:
        shown = table[:MOST_TOKENS]
        which = f" of the first {MOST_TOKENS} of {len(table)} tokens" if len(table) > MOST_TOKENS else ""
        first = f", {plural(spec.prefix, 'token')} before those of the patches first" if spec.prefix else ""
        said = f"What is added to the tokens{which}: a row for each token{first}, a column for each channel."
        chart = Heat(shown, "added to the token", "token", "channel", centred=True)
        found.append(Picture("positions", chart, "position embeddings as a heatmap of tokens by channels", said))
        moving = _moving(table)
        channels = [moving[place] for place in _evenly(len(moving), WAVES)]
        scale = float(np.abs(table).max()) or 1.0
        waves = Waves("token", [f"channel {c}" for c in channels], (table[:, channels] / scale).T)
        still = table.shape[1] - len(moving)
        said = f"The same as waves: {plural(len(channels), 'channel')} of {table.shape[1]}, from token to token."
        if still and len(moving) > 1:
            said += f" Of the others {still:,} hardly change: by less than a tenth of what the most do."
        found.append(Picture("waves", waves, "position embeddings of some channels as waves over the tokens", said))
    if (similarity := portrait.similarity) is not None:
        what = "learned position embeddings" if portrait.about.learned else "position embeddings"
        if not portrait.about.added:
            what = "one vector turned to the places of two patches, all its channels alike in length"
        said = (f"Cosine similarity of {what}: at the place of each patch a map of how alike its position is to those "
                "of all patches, itself (1) among them.")  # fmt: skip
        rows, columns = spec.grid
        down, across = _evenly(rows, MOST_PLACES), _evenly(columns, MOST_PLACES)
        if len(down) < rows or len(across) < columns:
            said += (f" Shown, and in the table of numbers, are the maps of {len(down)} of {plural(rows, 'row')} and "
                     f"{len(across)} of {plural(columns, 'column')} of patches.")  # fmt: skip
        maps = similarity.reshape(rows, columns, -1)[np.ix_(down, across)].reshape(-1, rows * columns)
        chart_of = Nested(maps, spec.grid, down, across, "cosine similarity")
        alt = f"cosine similarity of positions: a {len(down)} by {len(across)} grid of maps, one for each patch"
        found.append(Picture("similarity", chart_of, alt, said))
    return found


def _attention(portrait: Portrait, most: int) -> list[Picture]:
    if portrait.attention is None or portrait.attended is None:
        return []
    spec, made = portrait.about.model, list[Picture]()
    layers, heads = _evenly(spec.depth, most), _evenly(spec.heads, most)
    for number, (place, maps) in enumerate(zip(portrait.attended.tolist(), portrait.attention, strict=True), 1):
        exhibit, pixels = portrait.about.shown[place], portrait.pixels[place]
        strips = [Strip(f"{_named(portrait, exhibit)}", [Tile(pixels)])]
        for layer in layers:
            tiles = [_over(portrait, pixels, maps[layer, head], (f"head {head + 1}",)) for head in heads]
            strips.append(Strip(f"layer {layer + 1}", tiles))
        chosen = len(layers) < spec.depth or len(heads) < spec.heads
        some = (
            f" Shown are {len(layers)} of {spec.depth} layers and {len(heads)} of {spec.heads} heads." if chosen else ""
        )
        rest = "; what is left of its attention goes to tokens that are no patches" if spec.prefix else ""
        said = (f"What {portrait.about.gaze} attends to, by layer and head: {_sentence(portrait, exhibit)}. Yellow is "
                f"where a head attends most, each at its own scale{rest}.{some}")  # fmt: skip
        alt = f"attention maps of {len(layers)} layers and {len(heads)} heads over an image: {exhibit.name}"
        chart = Tiles(strips, min(A_LINE, max(4, len(heads))), "attention to the patch")
        made.append(Picture(f"attention-{number}", chart, alt, said))
    return made


def _distances(portrait: Portrait) -> list[Picture]:
    if (values := portrait.distances) is None:
        return []
    layers = range(1, len(values) + 1)
    line = [(float(layer), [float(value) for value in row]) for layer, row in zip(layers, values, strict=True)]
    chart = Trends("layer", "mean attention distance (pixels)", [float(layer) for layer in layers], {"": line},
                   Colouring(), logarithmic=False)  # fmt: skip
    said = ("How far each head looks: the distance from a patch to those that it attends to, weighted by attention and "
            "averaged over patches and images. A point is a head, the line their mean. Attention that is the same to "
            f"all patches would reach {_uniform(portrait):.1f} pixels.")  # fmt: skip
    return [Picture("distances", chart, "mean attention distance of every head by layer, pixels", said)]


def _looks(portrait: Portrait) -> list[Picture]:
    made, exhibits = list[Picture](), portrait.about.shown
    for name, words, wanted in (
        ("right", "images that are told right", [e.label is not None and e.label == e.told for e in exhibits]),
        ("wrong", "images that are told wrong", [e.label is not None and e.label != e.told for e in exhibits]),
        ("given", "the images", [e.label is None for e in exhibits]),
    ):
        if chosen := [place for place, is_wanted in enumerate(wanted) if is_wanted]:
            made.append(_look(portrait, name, words, chosen))
    return made


def _look(portrait: Portrait, name: str, words: str, chosen: Sequence[int]) -> Picture:
    """Some images, what the model says of them, and where it looks, if that is known."""
    exhibits, pixels = portrait.about.shown, portrait.pixels
    strips = [Strip("what the model says it is", [Tile(pixels[i], _told(portrait, exhibits[i])) for i in chosen])]
    above = f"the class that the model gives them{' and, in brackets, the right one' if name == 'wrong' else ''}"
    told = "; ".join(_sentence(portrait, exhibits[i]) for i in chosen)
    if portrait.looks is None or portrait.rollouts is None:
        said = f"{words[:1].upper()}{words[1:]}, and above, {above}."
        return Picture(f"looks-{name}", Tiles(strips, A_LOOK), f"{words}: {told}", said)
    for title, values in (("last layer, mean over heads", portrait.looks),
                          ("attention rollout over all layers", portrait.rollouts)):  # fmt: skip
        strips.append(Strip(title, [_over(portrait, pixels[i], values[i], ()) for i in chosen]))
    said = (f"What {portrait.about.gaze} looks at in {words}: above, {above}; attention in the last layer; and "
            "attention rollout, which follows attention and residual connections through all layers.")  # fmt: skip
    chart = Tiles(strips, A_LOOK, "attention to the patch")
    return Picture(f"looks-{name}", chart, f"what the model looks at in {words}: {told}", said)


def _confusion(portrait: Portrait) -> list[Picture]:
    if (counts := portrait.confusion) is None:
        return []
    chart = Heat(
        counts, "of the images of a class (%)", "class", "predicted class", portrait.about.classes, shares=True
    )
    wrong = counts - np.diag(np.diag(counts))
    label, told = np.unravel_index(int(wrong.argmax()), wrong.shape)
    names = portrait.about.classes
    said = (
        f"Images by their class (rows) and by the class that the model gives them (columns): {portrait.about.images}. "
        "A number is of images, a colour stands for their share of the row."
    )
    if wrong.max() > 1:
        said += f" Most often, {names[label]} is taken for {names[told]} ({wrong[label, told]:,} times)."
    return [Picture("confusion", chart, f"confusion matrix of {len(names)} classes", said)]


def _over(portrait: Portrait, pixels: Pixels, values: npt.NDArray[np.float32], title: Sequence[str]) -> Tile:
    return Tile(pixels, title, values.reshape(portrait.about.model.grid))


def _class(portrait: Portrait, index: int) -> str:
    return portrait.about.classes[index]


def _told(portrait: Portrait, exhibit: Exhibit) -> list[str]:
    """What a model says, and the truth below it where it is another."""
    said = _class(portrait, exhibit.told)
    if exhibit.label is None or exhibit.label == exhibit.told:
        return [said]
    return [said, f"({_class(portrait, exhibit.label)})"]


def _named(portrait: Portrait, exhibit: Exhibit) -> str:
    return f"{exhibit.name}: {_sentence(portrait, exhibit)}"


def _sentence(portrait: Portrait, exhibit: Exhibit) -> str:
    """What an image shows and is taken for."""
    told = f"{_class(portrait, exhibit.told)} with {100 * exhibit.probability:.0f} %"
    if exhibit.label is None:
        return f"taken for {told}"
    label = _class(portrait, exhibit.label)
    if exhibit.label == exhibit.told:
        return f"{label}, told right with {100 * exhibit.probability:.0f} %"
    return f"{label}, taken for {told}"


def _moving(table: Array) -> list[int]:
    """Channels whose values are not nearly the same at all tokens; all of them where none are."""
    ranges = np.ptp(table, axis=0)
    moving = np.flatnonzero(ranges >= NEARLY * ranges.max()).tolist()
    return moving or list(range(table.shape[1]))


def _uniform(portrait: Portrait) -> float:
    """Mean distance of two patches, each of them any, pixels."""
    spec = portrait.about.model
    (down, often), (across, often_across) = (
        (size * np.arange(count), np.where(np.arange(count), 2.0, 1.0) * (count - np.arange(count)) / count**2)
        for count, size in zip(spec.grid, pair(spec.patch_size), strict=True)
    )
    return float((np.hypot.outer(down, across) * np.outer(often, often_across)).sum())


def _evenly(count: int, most: int) -> list[int]:
    """At most so many of the numbers below ``count``, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]
