"""Portrait: what there is to see of a trained model, as numbers. One safetensors file; nothing in it is run.

It is made with torch (:mod:`vitbench.explaining`) and shown without (:mod:`vitbench.report.models.pictures`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vitbench.config.base import STORED, Strict, dumps, pair
from vitbench.config.model import ModelSpec
from vitbench.registry import UnknownComponent
from vitbench.store.files import handle, opened, write_atomically

FOLDER, SUFFIX = "portraits", ".safetensors"
"""Of a study, and of a file in it, which has its trial's id for a name."""

KEY = "vitbench portrait"
MAX_BYTES = 256 << 20
"""Of a file: ten times the largest that is written."""

MOST_FILTERS = 64
MOST_SIMILAR = 1024
"""Patches whose positions are compared, each with each: a million numbers."""

Array = npt.NDArray[Any]
Picture = Literal["filters", "positions", "similarity", "attention", "distances", "looks", "rollouts", "confusion"]
"""What a portrait may lack, with the reason."""


class Exhibit(Strict):
    """One image that is shown.

    Attributes:
        name: of its file, or its place among the images.
        label: index of its class; None where that is not known.
        told: index of the class that the model gives it.
        probability: that the model gives this class.
    """

    name: str
    label: int | None
    told: int
    probability: Annotated[float, Field(ge=0.0, le=1.0)]


class About(Strict):
    """What a portrait is of.

    Attributes:
        trial: id of the trial that trained the model; None where its file does not say.
        model: the model.
        images: which they are, e.g. "1,000 test images of cifar10".
        classes: names, in the order of the labels.
        shown: of each image in ``pixels``.
        gaze: whose attention ``attention``, ``looks`` and ``rollouts`` are, e.g. "the class token".
        learned: whether positions are learned.
        added: whether positions are added to the tokens; otherwise they turn queries and keys.
        absent: picture → why there is none.
    """

    schema_version: Literal[1] = 1
    trial: str | None
    model: ModelSpec
    images: str
    classes: tuple[str, ...]
    shown: tuple[Exhibit, ...]
    gaze: str = ""
    learned: bool = False
    added: bool = False
    absent: dict[Picture, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Portrait:
    """What there is to see of a model; all but ``pixels`` may be absent.

    Shapes: n images, P patches, N tokens, D model width, L layers, H heads, K classes.

    Attributes:
        about: what it is of.
        pixels: (n, height, width, 3) uint8, the images that are shown; none where the model tells none.
        filters: (f, height, width, 3) float32, patch-embedding filters, the largest first, f ≤ ``MOST_FILTERS``.
        positions: (N, D) float32, what is added to the tokens, those before the patches' first.
        similarity: (P, P) float32, of positions of patches, in [-1, 1]; P ≤ ``MOST_SIMILAR``.
        attention: (m, L, H, P) float32, attention to each patch by every layer and head, of ``m`` of the shown images.
        attended: (m,) int64, which of them those are.
        distances: (L, H) float32, mean attention distance, pixels.
        looks: (n, P) float32, attention to each patch in the last layer, mean over heads.
        rollouts: (n, P) float32, attention rollout to each patch.
        confusion: (K, K) int64, images by their class (row) and by the class that they were given (column).
    """

    about: About
    pixels: Array
    filters: Array | None = None
    positions: Array | None = None
    similarity: Array | None = None
    attention: Array | None = None
    attended: Array | None = None
    distances: Array | None = None
    looks: Array | None = None
    rollouts: Array | None = None
    confusion: Array | None = None


ARRAYS = tuple(field.name for field in fields(Portrait) if field.name != "about")
KINDS: Mapping[str, str] = {"pixels": "u1", "attended": "i8", "confusion": "i8"}
"""Array → its type, where that is not float32."""


class BadPortrait(ValueError):
    """A file that is no portrait, or a damaged one. The message says what is wrong."""


def write_portrait(path: Path, portrait: Portrait) -> Path:
    """Write or replace a portrait's file; whole or not at all.

    Raises:
        BadPortrait: where it could not be read again: it is too large.
        OSError: where it cannot be written.
    """
    if problem := _problem(portrait):
        raise AssertionError(problem)
    arrays = {name: np.ascontiguousarray(array) for name in ARRAYS if (array := getattr(portrait, name)) is not None}
    _bounded(sum(array.nbytes for array in arrays.values()))  # before as much again is made of it
    content = save(arrays, {KEY: dumps(portrait.about.model_dump(mode="json"))})
    _bounded(len(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, content)


def read_portrait(path: Path) -> Portrait:
    """The portrait in a file.

    Raises:
        BadPortrait: with the reason.
    """
    try:
        with opened(path, MAX_BYTES) as stream, safe_open(handle(stream), framework="np") as stored:
            about = About.model_validate_json(json.dumps(json.loads((stored.metadata() or {})[KEY])), context=STORED)
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  # not a mapping
    except BadPortrait:
        raise
    except OSError as error:
        raise BadPortrait(error.strerror or str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise BadPortrait(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (SafetensorError, KeyError, ValueError, RecursionError, TypeError, AttributeError) as error:
        raise BadPortrait(f"no portrait: {type(error).__name__}: {str(error)[:200]}") from error
    if strange := set(arrays) - set(ARRAYS):
        raise BadPortrait(f"no portrait: unknown arrays {', '.join(sorted(strange))}")
    if "pixels" not in arrays:
        raise BadPortrait("no portrait: it has no pixels")
    portrait = Portrait(about, **arrays)
    if problem := _problem(portrait):
        raise BadPortrait(problem)
    return portrait


def _bounded(size: int) -> None:
    if size > MAX_BYTES:
        raise BadPortrait(f"{size:,} bytes, and a portrait has at most {MAX_BYTES:,}")


def _problem(portrait: Portrait) -> str | None:
    """What in a portrait does not fit together; None where all does."""
    return next(chain(_of_model(portrait.about), _of_shapes(portrait), _of_values(portrait)), None)


def _of_model(about: About) -> Iterator[str]:
    spec = about.model
    for field, message in spec.problems():
        yield f"its model cannot be: {field}: {message}"
    try:
        _ = spec.prefix  # of the components, pooling alone shapes what is seen: others may be a plug-in's
    except UnknownComponent as error:
        yield f"its number of tokens is not known: {error}"
    if len(about.classes) != spec.num_classes:
        yield f"it names {len(about.classes):,} classes, and its model has {spec.num_classes:,}"
    told = [exhibit.told for exhibit in about.shown] + [e.label for e in about.shown if e.label is not None]
    if not all(0 <= each < spec.num_classes for each in told):
        yield "an image is of a class that has no name"


def _of_shapes(portrait: Portrait) -> Iterator[str]:
    """Of a portrait of a model that can be."""
    spec, shown, classes = portrait.about.model, len(portrait.about.shown), len(portrait.about.classes)
    tokens, patches, heads = (spec.tokens, spec.patches, spec.heads) if spec.of_components else (0, 0, 0)
    attended = 0 if portrait.attended is None else len(portrait.attended)
    wanted: dict[str, tuple[int | None, ...]] = {
        "pixels": (shown, *pair(spec.image_size), 3), "filters": (None, None, None, 3), "positions": (tokens, spec.dim),
        "similarity": (patches, patches), "attention": (attended, spec.depth, heads, patches), "attended": (None,),
        "distances": (spec.depth, heads), "looks": (shown, patches), "rollouts": (shown, patches),
        "confusion": (classes, classes),
    }  # fmt: skip
    for name, shape in wanted.items():
        array = getattr(portrait, name)
        if array is None:
            continue
        fits = array.ndim == len(shape) and all(w in (None, g) for w, g in zip(shape, array.shape, strict=True))
        empty = 0 in array.shape and name != "pixels"  # there may be no image that is shown, and nothing else is empty
        if not fits or empty or array.dtype != np.dtype(KINDS.get(name, "f4")):
            yield f"{name} is {array.dtype} {array.shape}, which is none of this model's"
    if portrait.filters is not None and len(portrait.filters) > MOST_FILTERS:
        yield f"filters are {len(portrait.filters):,}, and a portrait has at most {MOST_FILTERS}"
    if portrait.similarity is not None and patches > MOST_SIMILAR:
        yield f"similarity is of {patches:,} patches, and a portrait's of at most {MOST_SIMILAR:,}"


def _of_values(portrait: Portrait) -> Iterator[str]:
    """Of arrays that have the right shapes."""
    for name in ARRAYS:
        array = getattr(portrait, name)
        if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
            yield f"{name} holds what is no finite number"
    if (counts := portrait.confusion) is not None and (counts < 0).any():
        yield "confusion counts less than nothing"
    if (attended := portrait.attended) is not None and not ((attended >= 0) & (attended < len(portrait.pixels))).all():
        yield "attended names images that are not shown"
