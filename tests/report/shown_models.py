"""Explanations of models of any kind and size: real specs, numbers from a seed, no model."""

from collections.abc import Sequence

import numpy as np

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.report.figures.charts import Picture
from vitbench.report.models.examples import ShownModel
from vitbench.report.models.pictures import MOST, sections
from vitbench.store.explanation import (
    MOST_EMBEDDED,
    MOST_FILTERS,
    MOST_PAIRED,
    MOST_SIMILAR,
    About,
    Array,
    Example,
    Explanation,
)


def pictures_of(explanation: Explanation, most: int = MOST) -> list[Picture]:
    """The pictures of a model that is shown alone."""
    sheets = sections([ShownModel(explanation)], most).values()
    return [picture for groups in sheets for group in groups for picture in group.pictures]


def explanation_of(
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
) -> Explanation:
    """An explanation that could be a model's: so many shown images are told right, wrong and unknown.

    It lacks the pictures of ``without``; its confusion matrix has ``many`` images of each class.
    """
    chance = np.random.default_rng(seed)
    names = tuple(classes) or tuple(f"class {n + 1}" for n in range(spec.num_classes))
    count = len(names)
    answers: list[tuple[int | None, int]] = [(n % count, n % count) for n in range(right)]
    answers += [(n % count, (n + 1) % count) for n in range(wrong)]
    answers += [(None, n % count) for n in range(unknown)]
    examples = tuple(
        Example(name=f"test image {n + 1}", label=label, predicted=predicted, probability=float(chance.random()))
        for n, (label, predicted) in enumerate(answers)
    )
    arrays: dict[str, Array] = {"confusion": chance.multinomial(many, np.full(count, 1 / count), count)}
    if spec.of_components:
        arrays |= _seen(spec, len(answers), chance)
    absent = dict.fromkeys(without, "of a test")
    if spec.of_components and spec.patches > MOST_SIMILAR:
        absent["similarity"] = "too many patches"
    if not answers:
        absent |= dict.fromkeys(
            ("embedded", "scores", "weights", "attention", "norms", "last_layer", "rollouts"), "no image is shown"
        )
    if spec.of_components and spec.tokens > MOST_PAIRED:
        absent |= dict.fromkeys(("scores", "weights"), "too many tokens")
    if not spec.of_components:
        parts = ("filters", "embedded", "positions", "similarity", "scores", "weights", "attention", "distances",
                 "norms", "last_layer", "rollouts")  # fmt: skip
        absent |= dict.fromkeys(parts, "it is made of convolutions")
    present = {name: array for name, array in arrays.items() if name not in absent}
    height, width = pair(spec.image_size)
    about = About(trial=trial, model=spec, images="some images", classes=names, shown=examples,
                  attention_of="the class token", learned=learned, added=True, absent=absent)  # fmt: skip
    return Explanation(about, chance.integers(0, 256, (len(answers), height, width, 3)).astype(np.uint8), **present)


def _seen(spec: ModelSpec, images: int, chance: np.random.Generator) -> dict[str, Array]:
    def shares(*shape: int) -> Array:
        drawn = chance.exponential(size=shape)
        return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True), dtype=np.float32)

    patches, patch = spec.patches, pair(spec.patch_size)
    return {
        "filters": chance.normal(size=(min(spec.dim, MOST_FILTERS), *patch, 3)).astype(np.float32),
        "embedded": chance.normal(size=(min(spec.dim, MOST_EMBEDDED), *spec.grid)).astype(np.float32),
        "scores": chance.normal(size=(min(spec.tokens, MOST_PAIRED + 1),) * 2).astype(np.float32),
        "weights": shares(*(min(spec.tokens, MOST_PAIRED + 1),) * 2),
        "norms": chance.uniform(1, 9, (images, spec.depth, spec.tokens)).astype(np.float32),
        "positions": chance.normal(size=(spec.tokens, spec.dim)).astype(np.float32),
        "similarity": chance.uniform(-1, 1, (min(patches, MOST_SIMILAR + 1),) * 2).astype(np.float32),
        "attention": shares(images, spec.depth, spec.heads, patches),
        "distances": chance.uniform(0, 20, (spec.depth, spec.heads)).astype(np.float32),
        "last_layer": shares(images, patches),
        "rollouts": shares(images, patches),
    }  # fmt: skip
