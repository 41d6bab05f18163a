"""Examples: the models that are shown together, on the same images wherever they keep some in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from vitbench.report.figures.charts import Chart, Picture
from vitbench.store.explanation import Example, Explanation

Outcome = Literal["right", "differing", "wrong", "unlabelled"]
"""Outcome of an image by what models make of it: all are right, some are, none is; or its class is not known."""
OF_AN_OUTCOME: Mapping[Outcome, int] = {"right": 4, "differing": 4, "wrong": 4, "unlabelled": 4}
"""Images that are shown of each outcome, which stand in a line."""
IN_FULL: Mapping[Outcome, int] = {"right": 1, "wrong": 1, "unlabelled": 2}
"""Images whose attention is shown of every head."""


@dataclass(frozen=True)
class ShownModel:
    """A model that is shown."""

    explanation: Explanation  # what there is to see of it
    name: str = ""  # what it is called among others; empty where it is shown alone
    slug: str = ""  # begins the names of its pictures' files

    def picture(self, name: str, chart: Chart, alt: str, caption: str) -> Picture:
        """A picture of this model, whose name begins the description and the caption."""
        if self.name:
            return Picture(f"{self.slug}{name}", chart, f"{self.name}: {alt}", f"{self.name}: {caption}")
        return Picture(f"{self.slug}{name}", chart, alt, f"{caption[:1].upper()}{caption[1:]}")


class PictureGroup(NamedTuple):
    """Pictures that stand beside one another, and plain text on all of them: how to read them."""

    text: str
    pictures: Sequence[Picture]


class Shown(NamedTuple):
    """Images of one outcome."""

    outcome: Outcome  # which
    # of each model the indices of the images among its own; as many for all where they are the same images
    indices: tuple[tuple[int, ...], ...]
    same: bool = True  # whether they are


def chosen(models: Sequence[ShownModel], most: Mapping[Outcome, int] = OF_AN_OUTCOME) -> list[Shown]:
    """Images by outcome, at most so many of each.

    Where several models have none of an outcome in common, each has its own.
    """
    groups, common = list[Shown](), _common(models)
    for outcome, limit in most.items():
        shared = [p for p in common if _outcome(models, p) == outcome][:limit]
        by_model = [[p for p in range(len(m.explanation.about.shown)) if _outcome([m], [p]) == outcome] for m in models]
        if shared:
            groups.append(Shown(outcome, tuple(zip(*shared, strict=True))))
        elif any(by_model):
            groups.append(Shown(outcome, tuple(tuple(indices[:limit]) for indices in by_model), same=False))
    return groups


def in_full(models: Sequence[ShownModel]) -> list[Shown]:
    """The images whose attention is shown of every head, one by one: a correct one and a wrong one, or two unknown."""
    return [
        Shown(group.outcome, tuple(indices[number : number + 1] for indices in group.indices), group.same)
        for group in (chosen(models, IN_FULL) if models else [])
        for number in range(max(map(len, group.indices)))
    ]


def sentence(explanation: Explanation, example: Example) -> str:
    """An image's class, if it is known, and the class that a model predicts for it, with its probability, in words."""
    predicted, p = explanation.about.classes[example.predicted], f"p = {example.probability:.2f}"
    if example.label is None:
        return f"classified as {predicted} ({p})"
    label = explanation.about.classes[example.label]
    return f"{label}, classified {'correctly' if example.label == example.predicted else f'as {predicted}'} ({p})"


def _common(models: Sequence[ShownModel]) -> list[tuple[int, ...]]:
    """The images that all models keep, each by its index among the images of every model."""
    indices = []
    for model in models:
        about, pixels = model.explanation.about, model.explanation.pixels
        images = [
            (e.name, None if e.label is None else about.classes[e.label], pixels[i].tobytes())
            for i, e in enumerate(about.shown)
        ]
        indices.append({image: index for index, image in reversed([*enumerate(images)])})
    common = set(indices[0]).intersection(*indices[1:])
    return [tuple(of_model[image] for of_model in indices) for image in reversed(indices[0]) if image in common]


def _outcome(models: Sequence[ShownModel], indices: Sequence[int]) -> Outcome:
    examples = [model.explanation.about.shown[index] for model, index in zip(models, indices, strict=True)]
    if any(example.label is None for example in examples):
        return "unlabelled"
    right = [example.label == example.predicted for example in examples]
    return "right" if all(right) else "differing" if any(right) else "wrong"
