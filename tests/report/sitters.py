"""Portraits of models of any kind and size: real specs, numbers from a seed, no model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.report.figures.charts import Picture
from vitbench.report.models.pictures import MOST, sections
from vitbench.report.models.sitters import Sitter
from vitbench.store.portrait import MOST_FILTERS, MOST_SIMILAR, About, Array, Exhibit, Portrait


def pictures_of(portrait: Portrait, most: int = MOST) -> list[Picture]:
    """The pictures of a model that is shown alone."""
    walls = (wall for of in sections([Sitter(portrait)], most).values() for wall in of)
    return [picture for wall in walls for picture in wall.pictures]


def portrait_of(
    spec: ModelSpec,
    *,
    trial: str | None = None,
    classes: Sequence[str] = (),
    right: int = 4,
    wrong: int = 4,
    unknown: int = 0,
    without: Sequence[str] = (),
    learned: bool = True,
    many: int = 100,
    seed: int = 0,
) -> Portrait:
    """A portrait that could be a model's: so many shown images are told right, wrong and unknown.

    It lacks the pictures of ``without``; its confusion matrix has ``many`` images of each class.
    """
    chance = np.random.default_rng(seed)
    names = tuple(classes) or tuple(f"class {n + 1}" for n in range(spec.num_classes))
    last = len(names) - 1
    shown = [(n % (last + 1), n % (last + 1)) for n in range(right)]
    shown += [(n % (last + 1), (n + 1) % (last + 1)) for n in range(wrong)]
    shown += [(None, n % (last + 1)) for n in range(unknown)]
    exhibits = tuple(
        Exhibit(name=f"test image {n + 1}", label=label, told=told, probability=float(chance.random()))
        for n, (label, told) in enumerate(shown)
    )
    n = len(shown)
    arrays: dict[str, Array] = {"confusion": chance.multinomial(many, np.full(len(names), 1 / len(names)), len(names))}
    if spec.of_components:
        arrays |= _seen(spec, n, chance)
    absent = dict.fromkeys(without, "of a test")
    if spec.of_components and spec.patches > MOST_SIMILAR:
        absent["similarity"] = "too many patches"
    if not n:
        absent |= dict.fromkeys(("attention", "looks", "rollouts"), "no image is shown")
    if not spec.of_components:
        absent |= dict.fromkeys(("filters", "positions", "similarity", "attention", "distances", "looks", "rollouts"),
                                "it is made of convolutions")  # fmt: skip
    kept = {name: array for name, array in arrays.items() if name not in absent}
    if "attention" in kept:
        kept["attended"] = np.arange(len(kept["attention"]))
    height, width = pair(spec.image_size)
    about = About(trial=trial, model=spec, images="some images", classes=names, shown=exhibits, gaze="the class token",
                  learned=learned, added=True, absent=absent)  # fmt: skip
    return Portrait(about, chance.integers(0, 256, (n, height, width, 3)).astype(np.uint8), **kept)


def _seen(spec: ModelSpec, shown: int, chance: np.random.Generator) -> dict[str, Array]:
    def shares(*shape: int) -> Array:
        drawn = chance.exponential(size=shape)
        return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True), dtype=np.float32)

    patches, patch = spec.patches, pair(spec.patch_size)
    return {
        "filters": chance.normal(size=(min(spec.dim, MOST_FILTERS), *patch, 3)).astype(np.float32),
        "positions": chance.normal(size=(spec.tokens, spec.dim)).astype(np.float32),
        "similarity": chance.uniform(-1, 1, (min(patches, MOST_SIMILAR + 1),) * 2).astype(np.float32),
        "attention": shares(shown, spec.depth, spec.heads, patches),
        "distances": chance.uniform(0, 20, (spec.depth, spec.heads)).astype(np.float32),
        "looks": shares(shown, patches),
        "rollouts": shares(shown, patches),
    }  # fmt: skip
