"""Explanation text: what pictures of models show, as sentences with the numbers in them."""

import math
from collections.abc import Sequence

from vitbench.analysis.attention_distance import NEAR, likeness, reach
from vitbench.report.models.examples import ShownModel
from vitbench.report.text import MINUS, enumerated
from vitbench.wording import plural

POSITIONS = (
    "{kind} positions{of} {what}: mean cosine similarity is {kinds} (differences below {chance:.2f}, two standard "
    "deviations of random vectors, count as none)."
)
SHOWN = {1.0: "show the grid", 0.0: "do not show the grid"}
"""Share of the kinds of neighbours that are more alike than other patches → what that shows; else part of it."""


def in_short(models: Sequence[ShownModel]) -> list[str]:
    """Answer of the pictures of a study's models to its question, in sentences: on positions, and on attention."""
    learned = [positions(model) for model in models if model.explanation.about.learned]
    return [*filter(None, (*learned, heads(models)))]


def positions(model: ShownModel) -> str:
    """For which patches positions are alike, by where these lie; empty where that is not known."""
    if (cosines := likeness(model.explanation)) is None:
        return ""
    values = {"touching patches": cosines.touching, "others in one row": cosines.row,
              "others in one column": cosines.column, "all others": cosines.others}  # fmt: skip
    kinds = [f"{_number(value)} for {name}" for name, value in values.items() if math.isfinite(value)]
    alike = [shows for value in [*values.values()][:-1] if (shows := cosines.shows(value)) is not None]
    what = SHOWN.get(sum(alike) / len(alike), "show part of the grid") if alike else "have no others to differ from"
    kind = "Learned" if model.explanation.about.learned else "Fixed"
    return POSITIONS.format(kind=kind, of=_of(model), what=what, kinds=enumerated(kinds), chance=cosines.chance)


def heads(models: Sequence[ShownModel]) -> str:
    """How many heads look near, and how far those of the first layer look; empty where that is not known."""
    reaches = [(model, of) for model in models if (of := reach(model.explanation)) is not None and of.uniform]
    if not reaches:
        return ""
    near, total = sum(of.near for _, of in reaches), sum(of.heads for _, of in reaches)
    many, verb = f"{near:,}" if near else "None", "look" if near > 1 else "looks"
    spans = enumerated([f"{_span(of.first)} pixels{_of(model)}" for model, of in reaches])
    uniform = enumerated([*dict.fromkeys(f"{of.uniform:.1f}" for _, of in reaches)])
    return (f"{many} of {plural(total, 'head')} {verb} near, less than {100 * NEAR:.0f} % as far as uniform attention: "
            f"those of layer 1 reach {spans}; uniform attention would reach {uniform}.")  # fmt: skip


def _of(model: ShownModel) -> str:
    return f" ({model.name})" if model.name else ""


def _span(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.1f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", MINUS)
