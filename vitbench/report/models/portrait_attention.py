"""Portrait attention: what models attend to, by layer and head, on average and through all layers.

What is laid over an image is as opaque as the attention is large. The scale is that of a layer, the same for all models
that are shown beside one another, and never ends near uniform attention: so a head which attends to all patches alike
looks as it is, pale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitbench.analysis.attention_distance import reach
from vitbench.report.figures.charts import Numbers, Picture, Pixels, Strip, Tile, Tiles, Trends
from vitbench.report.figures.marks import Colouring
from vitbench.report.models import portrait_words
from vitbench.report.models.portrait_positions import evenly
from vitbench.report.models.sitters import Outcome, Shown, Sitter, Wall, chosen, in_full, sentence
from vitbench.report.text import plural
from vitbench.store.portrait import Exhibit, Portrait

A_LOOK = 4
"""Images of one outcome, which stand in a line."""
SHARE = "attention to the patch"
PALE = 4
"""Times the share of uniform attention, up to which a scale reaches at the least."""
TOLD_LINES = 3
"""Above an image: the predicted class, its probability, the true class."""

WORDS: dict[Outcome, str] = {
    "right": "classified correctly", "differing": "classified correctly by some of the models only",
    "wrong": "classified wrongly", "given": "of no known class",
}  # fmt: skip


def by_head(sitters: Sequence[Sitter], most: int) -> list[Wall]:
    """Attention maps of every layer and head, of an image that is classified correctly and of one that is not."""
    having = [sitter for sitter in sitters if sitter.portrait.attention is not None]
    found = []
    for number, shown in enumerate(in_full(having) if having else [], 1):
        there = [(s, places[0]) for s, places in zip(having, shown.places, strict=True) if places]
        tops = _tops([(s, _maps(s.portrait, place).max(axis=(1, 2))) for s, place in there])
        pictures = [
            Picture(f"{s.slug}attention-{number}", _heads(s.portrait, place, tops, most), *_about(s, place, most))
            for s, place in there
        ]
        read = _how_to_read_heads(having) if number == 1 else ""
        said = f"Attention by layer and head to an image {WORDS[shown.outcome]}{_differ(shown)}."
        found.append(Wall(f"{said}{read}" if len(having) > 1 else f"Attention by layer and head.{read}", pictures))
    return _together(found) if len(having) == 1 else found


def _together(walls: Sequence[Wall]) -> list[Wall]:
    """Of one model the outcomes stand side by side; what the first wall says holds for all."""
    return [Wall(walls[0].said, [picture for wall in walls for picture in wall.pictures])] if walls else []


def _how_to_read_heads(sitters: Sequence[Sitter]) -> str:
    said = " The more opaque, the more a head attends to a patch; no colour is none. The scale is that of a layer"
    said += (
        f"{', the same for all models' if len(sitters) > 1 else ''}: it ends at the share at the left, the largest, or "
    )
    said += f"{PALE} times that of uniform attention where this is more."
    if any(sitter.portrait.about.model.prefix for sitter in sitters):
        said += " What is left of a head's attention goes to tokens that are no patches."
    return said


def _maps(portrait: Portrait, place: int) -> Numbers:
    """(L, H, P), attention to the patches of one image."""
    assert portrait.attention is not None and portrait.attended is not None
    found: Numbers = portrait.attention[portrait.attended.tolist().index(place)]
    return found


def _tops(of_models: Sequence[tuple[Sitter, Numbers]]) -> Numbers:
    """Where the scale of each layer, or row, ends, over models of which some may have fewer, by the largest shares."""
    found = np.zeros(max(len(tops) for _, tops in of_models))
    for sitter, tops in of_models:
        least = min(1.0, PALE / sitter.portrait.about.model.patches)
        found[: len(tops)] = np.maximum(found[: len(tops)], np.maximum(tops, least))
    return found


def _heads(portrait: Portrait, place: int, tops: Numbers, most: int) -> Tiles:
    """A table of maps, a row for each layer and a column for each head."""
    spec, pixels, maps = portrait.about.model, portrait.pixels[place], _maps(portrait, place)
    layers, heads = evenly(spec.depth, most), evenly(spec.heads, most)
    strips = []
    for layer in layers:
        tiles = [_over(portrait, pixels, maps[layer, head], (f"head {head + 1}",)) for head in heads]
        strips.append(Strip(f"layer {layer + 1}", tiles, float(tops[layer]), f"to {_percent(tops[layer])}"))
    return Tiles(strips, len(heads), SHARE, corner=pixels)


def _about(sitter: Sitter, place: int, most: int) -> tuple[str, str]:
    """The same in words, for who does not see it, and the caption."""
    portrait = sitter.portrait
    spec, exhibit = portrait.about.model, portrait.about.shown[place]
    layers, heads = min(spec.depth, most), min(spec.heads, most)
    said = f"what {portrait.about.gaze} attends to in {exhibit.name}: {sentence(portrait, exhibit)}."
    if layers < spec.depth or heads < spec.heads:
        said += f" Shown are {layers} of {spec.depth} layers and {heads} of {spec.heads} heads."
    alt = f"attention maps of {plural(layers, 'layer')} and {plural(heads, 'head')} over {exhibit.name}"
    return sitter.alt(alt), sitter.said(said)


def distances(sitters: Sequence[Sitter]) -> Wall:
    """How far heads look: all models in one chart, so that they have one scale."""
    lines, levels = {}, dict[str, float]()
    for sitter in sitters:
        if (values := sitter.portrait.distances) is None or (of := reach(sitter.portrait)) is None:
            continue
        lines[sitter.name] = [(float(layer), [float(v) for v in row]) for layer, row in enumerate(values, 1)]
        levels[f"uniform attention: {of.uniform:.1f}"] = of.uniform
    if not lines:
        return Wall("", [])
    depth = max(map(len, lines.values()))
    colouring = Colouring("", [*lines], [*lines]) if len(lines) > 1 else Colouring()
    chart = Trends("layer", "mean attention distance (pixels)", [float(layer) for layer in range(1, depth + 1)], lines,
                   colouring, logarithmic=False, from_zero=True, levels=list(levels.items()))  # fmt: skip
    said = ("How far each head looks: the distance from a patch to those that it attends to, weighted by attention and "
            "averaged over patches and images. A point is a head, the line their mean; the dashed line is attention "
            "that is the same to all patches.")  # fmt: skip
    alt = "mean attention distance of every head by layer, pixels"
    name = f"{sitters[0].slug}distances" if len(sitters) == 1 else "portraits-distances"
    return Wall(said, [Picture(name, chart, alt, portrait_words.distances(sitters))])


def looks(sitters: Sequence[Sitter]) -> list[Wall]:
    """Some images by outcome, what models say of them, and where they look, if that is known."""
    walls = list[Wall]()
    looked = any(sitter.portrait.looks is not None for sitter in sitters)
    for shown in chosen(sitters, A_LOOK):
        there = [(s, places) for s, places in zip(sitters, shown.places, strict=True) if places]
        rows = [_rows(sitter.portrait, places) for sitter, places in there]
        known = [(s, np.array([of.max() for of in row])) for (s, _), row in zip(there, rows, strict=True) if row]
        tops = _tops(known) if known else np.zeros(0)
        pictures = [_look(s, places, shown.outcome, row, tops) for (s, places), row in zip(there, rows, strict=True)]
        said = [f"Images {WORDS[shown.outcome]}{_differ(shown)}."] if len(sitters) > 1 else []
        said += [] if walls else [_how_to_read(sitters, looked=looked)]
        walls.append(Wall(" ".join(said), pictures))
    return _together(walls) if len(sitters) == 1 else walls


def _how_to_read(sitters: Sequence[Sitter], *, looked: bool) -> str:
    said = (
        "Above each image the predicted class and its probability; in brackets the true class, where that is another."
    )
    if looked:
        said += (" Below, attention in the last layer, and attention rollout, which follows attention and residual "
                 "connections through all layers; each row has one scale, from none to the share above it")  # fmt: skip
        said += ", the same for all models." if len(sitters) > 1 else "."
    return said


def _rows(portrait: Portrait, places: Sequence[int]) -> list[Numbers]:
    """(images, P) each: attention in the last layer, and rollout; none where they are not known."""
    if portrait.looks is None or portrait.rollouts is None:
        return []
    return [portrait.looks[list(places)], portrait.rollouts[list(places)]]


def _look(sitter: Sitter, places: Sequence[int], outcome: Outcome, rows: Sequence[Numbers], tops: Numbers) -> Picture:
    portrait = sitter.portrait
    exhibits, pixels = portrait.about.shown, portrait.pixels
    titles = [_told(portrait, exhibits[i]) for i in places]
    lines = TOLD_LINES if outcome in ("differing", "wrong") else 0  # as many for each model, so that rows are level
    titles = [[*title, *[""] * (lines - len(title))] for title in titles]
    strips = [Strip("", [Tile(pixels[i], title) for i, title in zip(places, titles, strict=True)])]
    for title, values, top in zip(("last layer, mean over heads", "attention rollout"), rows, tops, strict=False):
        tiles = [_over(portrait, pixels[place], values[number], ()) for number, place in enumerate(places)]
        strips.append(Strip(title, tiles, float(top), f"to {_percent(top)}"))
    what = f"images {WORDS[outcome]}: {'; '.join(sentence(portrait, exhibits[i]) for i in places)}"
    told = f"what {portrait.about.gaze} looks at in {what}" if rows else what
    names = ", ".join(exhibits[i].name for i in places)
    said = f"{WORDS[outcome]}: {names}.{f' Attention is that of {portrait.about.gaze}.' if rows else ''}"
    chart = Tiles(strips, A_LOOK, SHARE if rows else "")
    return Picture(f"{sitter.slug}looks-{outcome}", chart, sitter.alt(told), sitter.said(said))


def _differ(shown: Shown) -> str:
    return "" if shown.same else ", another for each model, since no kept image is so for all"


def _told(portrait: Portrait, exhibit: Exhibit) -> list[str]:
    """What a model predicts, how surely, and the truth below it where that is another."""
    said = [portrait.about.classes[exhibit.told], f"p = {exhibit.probability:.2f}"]
    if exhibit.label is None or exhibit.label == exhibit.told:
        return said
    return [*said, f"({portrait.about.classes[exhibit.label]})"]


def _over(portrait: Portrait, pixels: Pixels, values: Numbers, title: Sequence[str]) -> Tile:
    return Tile(pixels, title, values.reshape(portrait.about.model.grid))


def _percent(share: float) -> str:
    """A share with two digits that say something."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"
