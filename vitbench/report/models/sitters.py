"""Sitters: the models that are shown together, on which images, and what is said of each of these.

They are shown on the same images wherever they keep some in common: what is seen of one model on one image, and of
another on another, compares nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vitbench.config.base import pair
from vitbench.report.figures.charts import Picture
from vitbench.store.portrait import Exhibit, Portrait

Outcome = Literal["right", "differing", "wrong", "given"]
"""What models make of an image: all are right, some are, none is; or its class is not known."""


@dataclass(frozen=True)
class Sitter:
    """A model that is shown.

    Attributes:
        portrait: what there is to see of it.
        name: what it is called among others; empty where it is shown alone.
        slug: begins the names of its pictures' files.
    """

    portrait: Portrait
    name: str = ""
    slug: str = ""

    def said(self, text: str) -> str:
        """A caption of this model's picture."""
        return f"{self.name}: {text}" if self.name else f"{text[:1].upper()}{text[1:]}"

    def alt(self, text: str) -> str:
        """The same of words for who does not see the picture."""
        return f"{self.name}: {text}" if self.name else text


@dataclass(frozen=True)
class Wall:
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
        places: of each sitter the places of the images among its own; as many for all where they are the same images.
        same: whether they are.
    """

    outcome: Outcome
    places: tuple[tuple[int, ...], ...]
    same: bool = True


def chosen(sitters: Sequence[Sitter], most: int) -> list[Shown]:
    """Images by outcome, those first that all models classify correctly; at most so many of each outcome.

    Where several models have none in common that all classify correctly, or none that none does, each has its own.
    """
    common, found = _common(sitters), list[Shown]()
    for outcome in ("right", "differing", "wrong", "given"):
        mine = [places for places in common if _outcome(sitters, places) == outcome][:most]
        if mine:
            found.append(Shown(outcome, tuple(zip(*mine, strict=True))))
        elif len(sitters) > 1 and outcome != "differing":
            own = tuple(_own(sitter, outcome)[:most] for sitter in sitters)
            found += [Shown(outcome, own, same=False)] if any(own) else []
    return found


def in_full(sitters: Sequence[Sitter]) -> list[Shown]:
    """The images whose attention is shown of every head: one classified correctly, one not, or two of unknown class."""
    found = list[Shown]()
    wanted: dict[Outcome, int] = {"right": 1, "wrong": 1, "given": 2}
    for outcome, many in wanted.items():
        mine = [places for places in _common(sitters) if all(map(_keeps, sitters, places))]
        mine = [places for places in mine if _outcome(sitters, places) == outcome][:many]
        if mine:
            found += [Shown(outcome, tuple((place,) for place in places)) for places in mine]
        else:
            own = tuple(tuple(p for p in _own(s, outcome) if _keeps(s, p))[:1] for s in sitters)
            found += [Shown(outcome, own, same=False)] if any(own) else []
    return found


def sentence(portrait: Portrait, exhibit: Exhibit) -> str:
    """What an image shows and is taken for."""
    told, p = portrait.about.classes[exhibit.told], f"p = {exhibit.probability:.2f}"
    if exhibit.label is None:
        return f"classified as {told} ({p})"
    label = portrait.about.classes[exhibit.label]
    return f"{label}, classified {'correctly' if exhibit.label == exhibit.told else f'as {told}'} ({p})"


def patches_alike(sitters: Sequence[Sitter]) -> bool:
    """Whether the models cut images of one size into the same patches."""
    specs = [sitter.portrait.about.model for sitter in sitters]
    return len({(pair(spec.image_size), pair(spec.patch_size)) for spec in specs}) == 1


def _common(sitters: Sequence[Sitter]) -> list[tuple[int, ...]]:
    """The images that all sitters keep: of each its place among the images of every one."""
    kept = []
    for sitter in sitters:
        portrait = sitter.portrait
        mine = [(e.name, _label(portrait, e), portrait.pixels[i].tobytes()) for i, e in enumerate(portrait.about.shown)]
        kept.append({image: place for place, image in reversed([*enumerate(mine)])})
    return [tuple(of[image] for of in kept) for image in reversed(kept[0]) if all(image in of for of in kept)]


def _label(portrait: Portrait, exhibit: Exhibit) -> str | None:
    return None if exhibit.label is None else portrait.about.classes[exhibit.label]


def _outcome(sitters: Sequence[Sitter], places: Sequence[int]) -> Outcome:
    shown = [sitter.portrait.about.shown[place] for sitter, place in zip(sitters, places, strict=True)]
    if any(exhibit.label is None for exhibit in shown):
        return "given"
    right = [exhibit.label == exhibit.told for exhibit in shown]
    return "right" if all(right) else "differing" if any(right) else "wrong"


def _own(sitter: Sitter, outcome: str) -> tuple[int, ...]:
    """The places of one model's images of an outcome."""
    return tuple(i for i in range(len(sitter.portrait.about.shown)) if _outcome([sitter], [i]) == outcome)


def _keeps(sitter: Sitter, place: int) -> bool:
    """Whether a model keeps the attention of every head to an image."""
    return sitter.portrait.attended is not None and place in sitter.portrait.attended
