"""Explanations: what there is to see of trained models, as pictures with words between them; without torch.

Of several models the pictures of one kind stand beside one another. A picture that a model cannot have is a sentence
that says why.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.report.figures.charts import Heat, Picture, Pixels, Strip, Tile, Tiles
from vitbench.report.inline import Md, escape
from vitbench.report.models import attention_pictures, position_pictures
from vitbench.report.models.examples import PictureGroup, ShownModel, chosen
from vitbench.report.text import plural
from vitbench.store.explanation import Array, Explanation
from vitbench.store.explanation import Picture as Name

MOST = 12
"""Layers, and heads, whose attention is shown; of more, evenly chosen ones."""
FILTERS_A_LINE = 8

TITLES: dict[Name, str] = {
    "filters": "patch-embedding filters", "positions": "positions as numbers", "similarity": "similarity of positions",
    "attention": "attention of every layer and head", "distances": "mean attention distance",
    "last_layer": "attention in the last layer", "rollouts": "attention rollout", "confusion": "confusion matrix",
}  # fmt: skip

ATTENDED = "What they attend to, right and wrong"
ATTENDED_BY_ONE, PREDICTED = "What it attends to, right and wrong", "Images classified correctly and wrongly"


def sections(models: Sequence[ShownModel], most: int = MOST) -> dict[str, list[PictureGroup]]:
    """Heading → what can be seen of some models, in the order in which an image passes through them.

    Args:
        models: the models.
        most: layers, and heads, whose attention is shown; of more, evenly chosen ones.
    """
    heading = ATTENDED if len(models) > 1 else ATTENDED_BY_ONE
    mapped = any(model.explanation.last_layer is not None for model in models)
    found = {
        "Patches": [_patches(models), _filters(models)],
        "Positions": position_pictures.groups(models),
        "Attention by layer and head": [
            *attention_pictures.by_head(models, most), attention_pictures.distances(models)
        ],
        heading if mapped else PREDICTED: attention_pictures.examples(models),
        "Confusion matrix": [_confusion(models)],
    }  # fmt: skip
    there = {title: [group for group in groups if group.pictures] for title, groups in found.items()}
    return {title: groups for title, groups in there.items() if groups}


def about(explanation: Explanation) -> Md:
    """Which model, which images, and how many it classifies correctly."""
    spec, said = explanation.about.model, explanation.about
    size: str = spec.architecture
    if spec.of_components:
        size = f"{plural(spec.depth, 'layer')}, {plural(spec.heads, 'head')}, width {spec.dim}"
    right = ""
    if (counts := explanation.confusion) is not None and counts.sum():
        share = 100 * counts.trace() / counts.sum()
        right = f"; it classifies {int(counts.trace()):,} of {counts.sum():,} correctly ({share:.1f} %)"
    trial = f", of the trial {escape(said.trial)}" if said.trial else ""
    return Md(f"A model of {escape(size)}{trial}, seen on {escape(said.images)}{right}.")


def missing(explanation: Explanation) -> list[Md]:
    """Pictures that are not there, and why: one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in explanation.about.absent.items():
        reasons.setdefault(reason, []).append(TITLES[name])
    lines = [f"{', '.join(names)}: {why}." for why, names in reasons.items()]
    return [Md(escape(line[:1].upper() + line[1:])) for line in lines]


def _patches(models: Sequence[ShownModel]) -> PictureGroup:
    """An image cut into patches; once for models that cut the same one in the same way."""
    first, found = chosen(models, 1), dict[tuple[str, bytes], Picture]()
    for number, model in enumerate(models):
        explanation, spec = model.explanation, model.explanation.about.model
        if not spec.of_components or not len(explanation.pixels):
            continue
        image = explanation.pixels[next((s.places[number][0] for s in first if s.places[number]), 0)]
        (rows, columns), (height, width) = spec.grid, pair(spec.patch_size)
        said = (f"An image, and the {rows} × {columns} patches of {height} × {width} pixels of which the model makes "
                f"its {plural(spec.patches, 'token')}, row by row{_preceded(spec)}.")  # fmt: skip
        chart = Tiles([Strip("", [Tile(image), Tile(image, grid=spec.grid)])], 2)
        alt = f"an image, and the same image cut into {rows} by {columns} patches"
        found.setdefault((said, image.tobytes()), Picture(f"{model.slug}patches", chart, alt, said))
    return PictureGroup("", list(found.values()))


def _preceded(spec: ModelSpec) -> str:
    """Tokens before those of the patches."""
    rest = spec.pooled_prefix - 1
    first = [
        *(["the class token"] if spec.pooled_prefix else []),
        *([f"{plural(rest, 'token')} more"] if rest > 0 else []),
        *([plural(spec.registers, "register")] if spec.registers else []),
    ]
    return f"; {'they are' if spec.patches > 1 else 'it is'} preceded by {' and '.join(first)}" if first else ""


def _filters(models: Sequence[ShownModel]) -> PictureGroup:
    found = []
    for model in models:
        if (filters := model.explanation.filters) is None:
            continue
        dim = model.explanation.about.model.dim
        tiles = [Tile(_as_pixels(each)) for each in filters]
        height, width = filters.shape[1:3]
        which = f"all {dim} filters" if len(filters) == dim else f"the {len(filters)} largest of {dim} filters"
        said = model.said(f"{which}, {height} × {width} pixels.")
        alt = model.alt(f"{len(filters)} patch-embedding filters as small images")
        chart = Tiles([Strip("", tiles)], FILTERS_A_LINE)
        found.append(Picture(f"{model.slug}filters", chart, alt, said))
    said = "Patch-embedding filters, the largest first, in red, green, blue, each at its own contrast; grey is zero."
    return PictureGroup(said, found)


def _as_pixels(weights: Array) -> Pixels:
    """Zero in the middle, the largest weight at an end."""
    most = float(np.abs(weights).max()) or 1.0
    return np.asarray((127.5 + 127.5 * (weights / most)).round(), dtype=np.uint8)


def _confusion(models: Sequence[ShownModel]) -> PictureGroup:
    found = []
    for model in models:
        if (counts := model.explanation.confusion) is None:
            continue
        names = model.explanation.about.classes
        chart = Heat(counts, "share of the true class (%)", "true class", "predicted class", names, shares=True)
        wrong = counts - np.diag(np.diag(counts))
        label, predicted = np.unravel_index(int(wrong.argmax()), wrong.shape)
        said = f"{model.explanation.about.images}."
        if wrong.max() > 1:
            said += f" Most often, {names[label]} is taken for {names[predicted]} ({wrong[label, predicted]:,} times)."
        alt = model.alt(f"confusion matrix of {len(names)} classes")
        found.append(Picture(f"{model.slug}confusion", chart, alt, model.said(said)))
    said = "Images by their true class (rows) and by the class that is predicted (columns). Numbers count images; the "
    return PictureGroup(f"{said}colour is their share of the row.", found)
