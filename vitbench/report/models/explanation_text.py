"""Explanation text: what pictures of models show, as sentences with the numbers in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vitbench.analysis.attention_distance import NEAR, Likeness, Reach, likeness, reach
from vitbench.report.models.examples import ShownModel
from vitbench.report.text import MINUS, enumerated, plural

POSITIONS = (
    "Learned positions{of} {what}: mean cosine similarity is {kinds} (differences below {chance:.2f}, two standard "
    "deviations of random vectors, count as none)."
)
SHOWN = {1.0: "come to show the grid", 0.0: "do not come to show the grid"}
"""Share of the kinds of neighbours that are more alike than other patches → what that shows; else part of it."""
DISTANCES = (
    "{of}heads of layer 1 reach {first} pixels, those of layer {depth} {last}; the nearest, head {head} of layer "
    "{layer}, reaches {nearest:.1f}, and uniform attention {uniform:.1f}."
)


def similarity(model: ShownModel) -> str:
    """How alike the positions of patches are, by where these lie."""
    found = likeness(model.explanation)
    return f"mean cosine similarity is {_kinds(found)}." if found is not None else ""


def distances(models: Sequence[ShownModel]) -> str:
    """How far the heads of the first layer and of the last look, and whether any looks near."""
    reaches = _reaches(models)
    sentences = []
    for model, found in reaches:
        (nearest, layer, head), depth = found.nearest, model.explanation.about.model.depth
        text = DISTANCES.format(of=f"{model.name}: " if model.name else "", first=_span(found.first), depth=depth,
                                last=_span(found.last), head=head, layer=layer, nearest=nearest,
                                uniform=found.uniform)  # fmt: skip
        sentences.append(f"{text[:1].upper()}{text[1:]}" if not model.name else text)
    return " ".join([*sentences, f"{_near(reaches)}."])


def in_short(models: Sequence[ShownModel]) -> list[str]:
    """What the pictures of a study's models say to its question, a sentence each: of positions, and of attention."""
    sentences = []
    for model in models:
        found = likeness(model.explanation)
        if found is None or not model.explanation.about.learned or not math.isfinite(found.others):
            continue
        alike = [
            shows for value in (found.touching, found.row, found.column) if (shows := found.shows(value)) is not None
        ]
        what = SHOWN.get(sum(alike) / len(alike), "come to show part of the grid")
        sentences.append(POSITIONS.format(of=_of(model), what=what, kinds=_kinds(found), chance=found.chance))
    if reaches := [(model, found) for model, found in _reaches(models) if found.uniform]:
        spans = enumerated([f"{_span(of.first)} pixels{_of(model)}" for model, of in reaches])
        uniform = enumerated([*dict.fromkeys(f"{of.uniform:.1f}" for _, of in reaches)])
        sentences.append(f"{_near(reaches)}: those of layer 1 reach {spans}; uniform attention would reach {uniform}.")
    return sentences


def _kinds(found: Likeness) -> str:
    """How alike the positions of two patches are, by where these lie; of what a grid has."""
    kinds = {"touching patches": found.touching, "others in one row": found.row,
             "others in one column": found.column, "all others": found.others}  # fmt: skip
    return enumerated([f"{_number(value)} for {name}" for name, value in kinds.items() if math.isfinite(value)])


def _reaches(models: Sequence[ShownModel]) -> list[tuple[ShownModel, Reach]]:
    return [(model, found) for model in models if (found := reach(model.explanation)) is not None]


def _near(reaches: Sequence[tuple[ShownModel, Reach]]) -> str:
    """How many heads look near, and what near is."""
    near, heads = sum(of.near for _, of in reaches), sum(of.heads for _, of in reaches)
    many, verb = f"{near:,}" if near else "None", "look" if near > 1 else "looks"
    return f"{many} of {plural(heads, 'head')} {verb} near, less than {100 * NEAR:.0f} % as far as uniform attention"


def _of(model: ShownModel) -> str:
    return f" ({model.name})" if model.name else ""


def _span(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.1f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", MINUS)
