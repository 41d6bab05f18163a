"""Explanation text: what pictures of models show, as sentences with the numbers in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vitbench.analysis.attention_distance import NEAR, Likeness, Reach, likeness, reach
from vitbench.report.models.examples import ShownModel, patches_alike
from vitbench.report.text import MINUS, enumerated, plural


def similarity(model: ShownModel) -> str:
    """How alike the positions of patches are, by where these lie."""
    found = likeness(model.explanation)
    if found is None:
        return ""
    parts = [f"{name} {_number(value)}" for name, value in _kinds(found)]
    parts += [f"all others {_number(found.others)}"] if math.isfinite(found.others) else []
    return f"mean cosine similarity of {', '.join(parts)}."


def distances(models: Sequence[ShownModel]) -> str:
    """How far the heads of the first layer and of the last look, and whether any looks near."""
    found = _reaches(models)
    said = []
    for model, of in found:
        layers, (nearest, layer, head) = model.explanation.about.model.depth, of.nearest
        last = f", of layer {layers} {_span(of.last)}" if layers > 1 else ""
        share = f" ({100 * nearest / of.uniform:.0f} % of uniform attention)" if of.uniform else ""
        which = f"the nearest, head {head} of layer {layer}, {nearest:.1f}{share}"
        said.append(model.said(f"heads of layer 1 reach {_span(of.first)} pixels{last}; {which}."))
    return " ".join([*said, *([f"{_near(found)}."] if any(of.uniform for _, of in found) else [])])


def in_short(models: Sequence[ShownModel]) -> list[str]:
    """What the pictures of a study's models say to its question, a sentence each: of positions, and of attention."""
    return [*_of_positions(models), *_of_heads(models)]


def _of_positions(models: Sequence[ShownModel]) -> list[str]:
    """For which patches learned positions come to be alike; nothing of fixed positions."""
    said = []
    for model in models:
        found = likeness(model.explanation)
        if found is None or not model.explanation.about.learned or not math.isfinite(found.others):
            continue
        kinds = [(f"of {name} {_number(value)}", found.shows(value)) for name, value in _kinds(found)]
        alike, unlike = [word for word, shown in kinds if shown], [word for word, shown in kinds if not shown]
        what = "come to show the grid" if not unlike else "come to show part of the grid"
        others = f"of all others {_number(found.others)}"
        measured = f"{_listed(alike)}, more than {_listed([*unlike, others])}" if alike else ""
        if not alike:
            what, measured = "do not come to show the grid", f"{_listed(unlike)}, no more than {others}"
        rule = f"differences below {found.chance:.2f}, two standard deviations of random vectors, count as none"
        said.append(f"Learned positions{_of(model)} {what}: mean cosine similarity is {measured} ({rule}).")
    return said


def _of_heads(models: Sequence[ShownModel]) -> list[str]:
    found = [(model, of) for model, of in _reaches(models) if of.uniform]
    if not found:
        return []
    spans = [f"{_span(of.first)} pixels{_of(model)}" for model, of in found]
    alike = patches_alike([model for model, _ in found])
    uniform = f"; uniform attention would reach {found[0][1].uniform:.1f}" if alike else ""
    return [f"{_near(found)}: those of layer 1 reach {_listed(spans)}{uniform}."]


def _reaches(models: Sequence[ShownModel]) -> list[tuple[ShownModel, Reach]]:
    return [(model, of) for model in models if (of := reach(model.explanation)) is not None]


def _near(found: Sequence[tuple[ShownModel, Reach]]) -> str:
    """How many heads look near, and what near is."""
    near, heads = sum(of.near for _, of in found), sum(of.heads for _, of in found)
    many, verb = f"{near:,}" if near else "None", "look" if near > 1 else "looks"
    return f"{many} of {plural(heads, 'head')} {verb} near, less than {100 * NEAR:.0f} % as far as uniform attention"


def _kinds(found: Likeness) -> list[tuple[str, float]]:
    """Where two patches lie, and how alike their positions are; of what a grid has."""
    kinds = [("touching patches", found.touching), ("others in one row", found.row)]
    kinds += [("others in one column", found.column)]
    return [(name, value) for name, value in kinds if math.isfinite(value)]


def _of(model: ShownModel) -> str:
    return f" ({model.name})" if model.name else ""


def _span(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.1f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", MINUS)


def _listed(parts: Sequence[str]) -> str:
    return enumerated(parts)
