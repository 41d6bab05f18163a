"""Attention pictures: what models attend to, by layer and head, on average and through all layers.

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
from vitbench.report.models import explanation_text
from vitbench.report.models.examples import Outcome, PictureGroup, Shown, ShownModel, chosen, in_full, sentence
from vitbench.report.models.position_pictures import evenly
from vitbench.report.text import plural
from vitbench.store.explanation import Example, Explanation

A_LOOK = 4
"""Images of one outcome, which stand in a line."""
SHARE = "attention to the patch"
PALE = 4
"""Times the share of uniform attention, up to which a scale reaches at the least."""
TITLE_LINES = 3
"""Above an image: the predicted class, its probability, the true class."""

WORDS: dict[Outcome, str] = {
    "right": "classified correctly", "differing": "classified correctly by some of the models only",
    "wrong": "classified wrongly", "unlabelled": "of no known class",
}  # fmt: skip


def by_head(models: Sequence[ShownModel], most: int) -> list[PictureGroup]:
    """Attention maps of every layer and head, of an image that is classified correctly and of one that is not."""
    having = [model for model in models if model.explanation.attention is not None]
    found = []
    for number, shown in enumerate(in_full(having) if having else [], 1):
        there = [(s, places[0]) for s, places in zip(having, shown.places, strict=True) if places]
        tops = _tops([(s, _maps(s.explanation, place).max(axis=(1, 2))) for s, place in there])
        pictures = [
            Picture(f"{s.slug}attention-{number}", _heads(s.explanation, place, tops, most), *_about(s, place, most))
            for s, place in there
        ]
        read = _how_to_read_heads(having) if number == 1 else ""
        said = f"Attention by layer and head to an image {WORDS[shown.outcome]}{_differ(shown)}."
        found.append(
            PictureGroup(f"{said}{read}" if len(having) > 1 else f"Attention by layer and head.{read}", pictures)
        )
    return _together(found) if len(having) == 1 else found


def _together(groups: Sequence[PictureGroup]) -> list[PictureGroup]:
    """Of one model the outcomes stand side by side; what the first group says holds for all."""
    return [PictureGroup(groups[0].said, [picture for group in groups for picture in group.pictures])] if groups else []


def _how_to_read_heads(models: Sequence[ShownModel]) -> str:
    said = " The more opaque, the more a head attends to a patch; no colour is none. The scale is that of a layer"
    said += (
        f"{', the same for all models' if len(models) > 1 else ''}: it ends at the share at the left, the largest, or "
    )
    said += f"{PALE} times that of uniform attention where this is more."
    if any(model.explanation.about.model.prefix for model in models):
        said += " What is left of a head's attention goes to tokens that are no patches."
    return said


def _maps(explanation: Explanation, place: int) -> Numbers:
    """(L, H, P), attention to the patches of one image."""
    assert explanation.attention is not None and explanation.mapped is not None
    found: Numbers = explanation.attention[explanation.mapped.tolist().index(place)]
    return found


def _tops(of_models: Sequence[tuple[ShownModel, Numbers]]) -> Numbers:
    """Where the scale of each layer, or row, ends, over models of which some may have fewer, by the largest shares."""
    found = np.zeros(max(len(tops) for _, tops in of_models))
    for model, tops in of_models:
        least = min(1.0, PALE / model.explanation.about.model.patches)
        found[: len(tops)] = np.maximum(found[: len(tops)], np.maximum(tops, least))
    return found


def _heads(explanation: Explanation, place: int, tops: Numbers, most: int) -> Tiles:
    """A table of maps, a row for each layer and a column for each head."""
    spec, pixels, maps = explanation.about.model, explanation.pixels[place], _maps(explanation, place)
    layers, heads = evenly(spec.depth, most), evenly(spec.heads, most)
    strips = []
    for layer in layers:
        tiles = [_over(explanation, pixels, maps[layer, head], (f"head {head + 1}",)) for head in heads]
        strips.append(Strip(f"layer {layer + 1}", tiles, float(tops[layer]), f"to {_percent(tops[layer])}"))
    return Tiles(strips, len(heads), SHARE, corner=pixels)


def _about(model: ShownModel, place: int, most: int) -> tuple[str, str]:
    """The same in words, for who does not see it, and the caption."""
    explanation = model.explanation
    spec, example = explanation.about.model, explanation.about.shown[place]
    layers, heads = min(spec.depth, most), min(spec.heads, most)
    said = f"what {explanation.about.attention_of} attends to in {example.name}: {sentence(explanation, example)}."
    if layers < spec.depth or heads < spec.heads:
        said += f" Shown are {layers} of {spec.depth} layers and {heads} of {spec.heads} heads."
    alt = f"attention maps of {plural(layers, 'layer')} and {plural(heads, 'head')} over {example.name}"
    return model.alt(alt), model.said(said)


def distances(models: Sequence[ShownModel]) -> PictureGroup:
    """How far heads look: all models in one chart, so that they have one scale."""
    lines, levels = {}, dict[str, float]()
    for model in models:
        if (values := model.explanation.distances) is None or (of := reach(model.explanation)) is None:
            continue
        lines[model.name] = [(float(layer), [float(v) for v in row]) for layer, row in enumerate(values, 1)]
        levels[f"uniform attention: {of.uniform:.1f}"] = of.uniform
    if not lines:
        return PictureGroup("", [])
    depth = max(map(len, lines.values()))
    colouring = Colouring("", [*lines], [*lines]) if len(lines) > 1 else Colouring()
    chart = Trends("layer", "mean attention distance (pixels)", [float(layer) for layer in range(1, depth + 1)], lines,
                   colouring, logarithmic=False, from_zero=True, levels=list(levels.items()))  # fmt: skip
    said = ("How far each head looks: the distance from a patch to those that it attends to, weighted by attention and "
            "averaged over patches and images. A point is a head, the line their mean; the dashed line is attention "
            "that is the same to all patches.")  # fmt: skip
    alt = "mean attention distance of every head by layer, pixels"
    name = f"{models[0].slug}distances" if len(models) == 1 else "explanations-distances"
    return PictureGroup(said, [Picture(name, chart, alt, explanation_text.distances(models))])


def examples(models: Sequence[ShownModel]) -> list[PictureGroup]:
    """Some images by outcome, what models say of them, and where they look, if that is known."""
    groups = list[PictureGroup]()
    mapped = any(model.explanation.last_layer is not None for model in models)
    for shown in chosen(models, A_LOOK):
        there = [(s, places) for s, places in zip(models, shown.places, strict=True) if places]
        rows = [_rows(model.explanation, places) for model, places in there]
        known = [(s, np.array([of.max() for of in row])) for (s, _), row in zip(there, rows, strict=True) if row]
        tops = _tops(known) if known else np.zeros(0)
        pictures = [_look(s, places, shown.outcome, row, tops) for (s, places), row in zip(there, rows, strict=True)]
        said = [f"Images {WORDS[shown.outcome]}{_differ(shown)}."] if len(models) > 1 else []
        said += [] if groups else [_how_to_read(models, mapped=mapped)]
        groups.append(PictureGroup(" ".join(said), pictures))
    return _together(groups) if len(models) == 1 else groups


def _how_to_read(models: Sequence[ShownModel], *, mapped: bool) -> str:
    said = (
        "Above each image the predicted class and its probability; in brackets the true class, where that is another."
    )
    if mapped:
        said += (" Below, attention in the last layer, and attention rollout, which follows attention and residual "
                 "connections through all layers; each row has one scale, from none to the share above it")  # fmt: skip
        said += ", the same for all models." if len(models) > 1 else "."
    return said


def _rows(explanation: Explanation, places: Sequence[int]) -> list[Numbers]:
    """(images, P) each: attention in the last layer, and rollout; none where they are not known."""
    if explanation.last_layer is None or explanation.rollouts is None:
        return []
    return [explanation.last_layer[list(places)], explanation.rollouts[list(places)]]


def _look(
    model: ShownModel, places: Sequence[int], outcome: Outcome, rows: Sequence[Numbers], tops: Numbers
) -> Picture:
    explanation = model.explanation
    shown, pixels = explanation.about.shown, explanation.pixels
    titles = [_title(explanation, shown[i]) for i in places]
    lines = TITLE_LINES if outcome in ("differing", "wrong") else 0  # as many for each model, so that rows are level
    titles = [[*title, *[""] * (lines - len(title))] for title in titles]
    strips = [Strip("", [Tile(pixels[i], title) for i, title in zip(places, titles, strict=True)])]
    for title, values, top in zip(("last layer, mean over heads", "attention rollout"), rows, tops, strict=False):
        tiles = [_over(explanation, pixels[place], values[number], ()) for number, place in enumerate(places)]
        strips.append(Strip(title, tiles, float(top), f"to {_percent(top)}"))
    what = f"images {WORDS[outcome]}: {'; '.join(sentence(explanation, shown[i]) for i in places)}"
    alt = f"what {explanation.about.attention_of} looks at in {what}" if rows else what
    names = ", ".join(shown[i].name for i in places)
    said = f"{WORDS[outcome]}: {names}.{f' Attention is that of {explanation.about.attention_of}.' if rows else ''}"
    chart = Tiles(strips, A_LOOK, SHARE if rows else "")
    return Picture(f"{model.slug}examples-{outcome}", chart, model.alt(alt), model.said(said))


def _differ(shown: Shown) -> str:
    return "" if shown.same else ", another for each model, since no kept image is so for all"


def _title(explanation: Explanation, example: Example) -> list[str]:
    """What a model predicts, how surely, and the truth below it where that is another."""
    said = [explanation.about.classes[example.predicted], f"p = {example.probability:.2f}"]
    if example.label is None or example.label == example.predicted:
        return said
    return [*said, f"({explanation.about.classes[example.label]})"]


def _over(explanation: Explanation, pixels: Pixels, values: Numbers, title: Sequence[str]) -> Tile:
    return Tile(pixels, title, values.reshape(explanation.about.model.grid))


def _percent(share: float) -> str:
    """A share with two digits that say something."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"
