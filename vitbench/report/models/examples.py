"""Examples: the models that are shown together, on which images, and what is said of each of these.

They are shown on the same images wherever they keep some in common: what is seen of one model on one image, and of
another on another, compares nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vitbench.config.base import pair
from vitbench.report.figures.charts import Picture
from vitbench.store.explanation import Example, Explanation

Outcome = Literal["right", "differing", "wrong", "unlabelled"]
"""What models make of an image: all are right, some are, none is; or its class is not known."""


@dataclass(frozen=True)
class ShownModel:
    """A model that is shown.

    Attributes:
        explanation: what there is to see of it.
        name: what it is called among others; empty where it is shown alone.
        slug: begins the names of its pictures' files.
    """

    explanation: Explanation
    name: str = ""
    slug: str = ""

    def said(self, text: str) -> str:
        """A caption of this model's picture."""
        return f"{self.name}: {text}" if self.name else f"{text[:1].upper()}{text[1:]}"

    def alt(self, text: str) -> str:
        """The same of words for who does not see the picture."""
        return f"{self.name}: {text}" if self.name else text


@dataclass(frozen=True)
class PictureGroup:
    """Pictures that stand beside one another, and what holds for all of them: how to read them.

    Attributes:
        said: plain text.
        pictures: of a model each, or of an outcome.
    """

    said: str
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Shown:
    """Images of one outcome.

    Attributes:
        outcome: which.
        places: of each model the places of the images among its own; as many for all where they are the same images.
        same: whether they are.
    """

    outcome: Outcome
    places: tuple[tuple[int, ...], ...]
    same: bool = True


def chosen(models: Sequence[ShownModel], most: int) -> list[Shown]:
    """Images by outcome, those first that all models classify correctly; at most so many of each outcome.

    Where several models have none in common that all classify correctly, or none that none does, each has its own.
    """
    common, found = _common(models), list[Shown]()
    for outcome in ("right", "differing", "wrong", "unlabelled"):
        mine = [places for places in common if _outcome(models, places) == outcome][:most]
        if mine:
            found.append(Shown(outcome, tuple(zip(*mine, strict=True))))
        elif len(models) > 1 and outcome != "differing":
            own = tuple(_own(model, outcome)[:most] for model in models)
            found += [Shown(outcome, own, same=False)] if any(own) else []
    return found


def in_full(models: Sequence[ShownModel]) -> list[Shown]:
    """The images whose attention is shown of every head: one classified correctly, one not, or two of unknown class."""
    found = list[Shown]()
    wanted: dict[Outcome, int] = {"right": 1, "wrong": 1, "unlabelled": 2}
    for outcome, many in wanted.items():
        mine = [places for places in _common(models) if all(map(_keeps, models, places))]
        mine = [places for places in mine if _outcome(models, places) == outcome][:many]
        if mine:
            found += [Shown(outcome, tuple((place,) for place in places)) for places in mine]
        else:
            own = tuple(tuple(p for p in _own(s, outcome) if _keeps(s, p))[:1] for s in models)
            found += [Shown(outcome, own, same=False)] if any(own) else []
    return found


def sentence(explanation: Explanation, example: Example) -> str:
    """What an image shows and is taken for."""
    predicted, p = explanation.about.classes[example.predicted], f"p = {example.probability:.2f}"
    if example.label is None:
        return f"classified as {predicted} ({p})"
    label = explanation.about.classes[example.label]
    return f"{label}, classified {'correctly' if example.label == example.predicted else f'as {predicted}'} ({p})"


def patches_alike(models: Sequence[ShownModel]) -> bool:
    """Whether the models cut images of one size into the same patches."""
    specs = [model.explanation.about.model for model in models]
    return len({(pair(spec.image_size), pair(spec.patch_size)) for spec in specs}) == 1


def _common(models: Sequence[ShownModel]) -> list[tuple[int, ...]]:
    """The images that all models keep: of each its place among the images of every one."""
    kept = []
    for model in models:
        explanation = model.explanation
        mine = [
            (e.name, _label(explanation, e), explanation.pixels[i].tobytes())
            for i, e in enumerate(explanation.about.shown)
        ]
        kept.append({image: place for place, image in reversed([*enumerate(mine)])})
    return [tuple(of[image] for of in kept) for image in reversed(kept[0]) if all(image in of for of in kept)]


def _label(explanation: Explanation, example: Example) -> str | None:
    return None if example.label is None else explanation.about.classes[example.label]


def _outcome(models: Sequence[ShownModel], places: Sequence[int]) -> Outcome:
    shown = [model.explanation.about.shown[place] for model, place in zip(models, places, strict=True)]
    if any(example.label is None for example in shown):
        return "unlabelled"
    right = [example.label == example.predicted for example in shown]
    return "right" if all(right) else "differing" if any(right) else "wrong"


def _own(model: ShownModel, outcome: str) -> tuple[int, ...]:
    """The places of one model's images of an outcome."""
    return tuple(i for i in range(len(model.explanation.about.shown)) if _outcome([model], [i]) == outcome)


def _keeps(model: ShownModel, place: int) -> bool:
    """Whether a model keeps the attention of every head to an image."""
    return model.explanation.mapped is not None and place in model.explanation.mapped
