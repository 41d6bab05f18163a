"""Explanation of a trained model as numbers, in one safetensors file.

It is made with torch (:mod:`vitbench.explaining`) and shown without (:mod:`vitbench.report.models.pictures`).
"""

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
from vitbench.store.distrust import reason
from vitbench.store.files import handle, opened, write_atomically

FOLDER, SUFFIX = "explanations", ".safetensors"
"""Folder in a study, and suffix of a file in it, which has its trial's id for a name."""

KEY = "vitbench explanation"
MAX_BYTES = 256 << 20  # Largest file: ten times the largest that is written
AVERAGED = 128
"""Images over which attention distance is averaged, as in Dosovitskiy et al. 2021, arXiv 2010.11929, appendix D.7."""
MOST_FILTERS = 64
MOST_SIMILAR = 1024  # Patches whose positions are compared, each with each: a million numbers
MOST_EMBEDDED = 16  # Channels of the patch embedding's output that are shown
MOST_PAIRED = 260  # Tokens whose scores are shown, each with each: those of 16 × 16 patches, and some before them
Array = npt.NDArray[Any]


def evenly(count: int, most: int) -> list[int]:
    """At most so many of the numbers below ``count``, the first and the last among them."""
    return [round(place) for place in np.linspace(0, count - 1, min(count, most)).tolist()]


Picture = Literal[
    "filters", "embedded", "positions", "similarity", "scores", "weights", "norms", "attention", "distances",
    "last_layer", "rollouts", "confusion",
]  # fmt: skip
"""Pictures that an explanation may lack, with the reason."""


class Example(Strict):
    """One image that is shown."""

    name: str  # of its file, or its place among the images
    label: int | None  # index of its class; None where that is not known
    predicted: int  # index of the class that the model predicts
    probability: Annotated[float, Field(ge=0.0, le=1.0)]  # that the model gives this class


class About(Strict):
    """The model, images and labels that an explanation belongs to."""

    schema_version: Literal[1] = 1
    trial: str | None  # id of the trial that trained the model; None where its file does not say
    model: ModelSpec  # the model
    images: str  # which they are, e.g. "1,000 test images of cifar10"
    classes: tuple[str, ...]  # names, in the order of the labels
    shown: tuple[Example, ...]  # of each image in ``pixels``
    attention_of: str = ""  # whose attention ``attention``, ``last_layer`` and ``rollouts`` are, e.g. "the class token"
    learned: bool = False  # whether positions are learned
    added: bool = False  # whether positions are added to the tokens; otherwise they turn queries and keys
    absent: dict[Picture, str] = Field(default_factory=dict)  # picture → why there is none


@dataclass(frozen=True)
class Explanation:
    """Pictures of a model as arrays; all but ``pixels`` may be absent.

    Shapes: n images, P patches, N tokens, D model width, L layers, H heads, K classes.
    """

    about: About  # what it is of
    pixels: Array  # (n, height, width, 3) uint8, the images that are shown; none without class predictions
    # (f, height, width, 3) float32, patch-embedding filters, the largest first, f ≤ ``MOST_FILTERS``
    filters: Array | None = None
    # (e, height, width) float32, first channels of the first shown image's patches, each in its place of the grid; e ≤
    # ``MOST_EMBEDDED``
    embedded: Array | None = None
    # (N - R, D) float32, what is added to the tokens but registers, those before the patches' first
    positions: Array | None = None
    similarity: Array | None = None  # (P, P) float32, of positions of patches, in [-1, 1]; P ≤ ``MOST_SIMILAR``
    # (N, N) float32, by the first head of the first layer, of the first shown image: row = query, before the softmax; N
    # ≤ ``MOST_PAIRED``
    scores: Array | None = None
    weights: Array | None = None  # (N, N) float32, what the softmax makes of them
    # (n, L, H, P) float32, attention to each patch by every layer and head
    attention: Array | None = None
    distances: Array | None = None  # (L, H) float32, mean attention distance, pixels
    norms: Array | None = None  # (n, L, N) float32, length of each token after each block
    last_layer: Array | None = None  # (n, P) float32, attention to each patch in the last layer, mean over heads
    rollouts: Array | None = None  # (n, P) float32, attention rollout to each patch
    # (K, K) int64, images by their class (row) and by the class that is predicted (column)
    confusion: Array | None = None


ARRAYS = tuple(field.name for field in fields(Explanation) if field.name != "about")
KINDS: Mapping[str, str] = {"pixels": "u1", "confusion": "i8"}
"""Array → its type, where that is not float32."""


class BadExplanation(ValueError):
    """A file that is no explanation, or a damaged one. The message says what is wrong."""


def write_explanation(path: Path, explanation: Explanation) -> Path:
    """Write or replace an explanation's file; whole or not at all.

    Raises:
        BadExplanation: where it could not be read again: it is too large.
        OSError: where it cannot be written.
    """
    if problem := _problem(explanation):
        raise AssertionError(problem)
    arrays = {name: np.ascontiguousarray(array) for name in ARRAYS if (array := getattr(explanation, name)) is not None}
    _bounded(sum(array.nbytes for array in arrays.values()))  # before as much again is made of it
    content = save(arrays, {KEY: dumps(explanation.about.model_dump(mode="json"))})
    _bounded(len(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, content)


def read_explanation(path: Path) -> Explanation:
    """The explanation in a file.

    Raises:
        BadExplanation: with the reason.
    """
    try:
        with opened(path, MAX_BYTES) as stream, safe_open(handle(stream), framework="np") as stored:
            about = About.model_validate_json(json.dumps(json.loads((stored.metadata() or {})[KEY])), context=STORED)
            # Version 0.1.0 also wrote of which images the attention is: of all that are shown, then as now.
            arrays = {name: stored.get_tensor(name) for name in {*stored.keys()} - {"mapped"}}
    except (OSError, ValidationError) as error:
        raise BadExplanation(reason(error)) from error
    except (SafetensorError, KeyError, ValueError, RecursionError, TypeError, AttributeError) as error:
        raise BadExplanation(f"no explanation: {type(error).__name__}: {str(error)[:200]}") from error
    if strange := set(arrays) - set(ARRAYS):
        raise BadExplanation(f"no explanation: unknown arrays {', '.join(sorted(strange))}")
    if "pixels" not in arrays:
        raise BadExplanation("no explanation: it has no pixels")
    explanation = Explanation(about, **arrays)
    if problem := _problem(explanation):
        raise BadExplanation(problem)
    return explanation


def _bounded(size: int) -> None:
    if size > MAX_BYTES:
        raise BadExplanation(f"{size:,} bytes, and an explanation has at most {MAX_BYTES:,}")


def _problem(explanation: Explanation) -> str | None:
    """The first contradiction in an explanation; None where there is none."""
    return next(chain(_of_model(explanation.about), _of_shapes(explanation), _of_values(explanation)), None)


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
    labels = [example.predicted for example in about.shown] + [e.label for e in about.shown if e.label is not None]
    if not all(0 <= each < spec.num_classes for each in labels):
        yield "an image is of a class that has no name"


def _of_shapes(explanation: Explanation) -> Iterator[str]:
    """Arrays whose shape or type the model cannot have."""
    spec, n, classes = explanation.about.model, len(explanation.about.shown), len(explanation.about.classes)
    tokens, patches, heads = (spec.placed, spec.patches, spec.heads) if spec.of_components else (0, 0, 0)
    sequence = tokens + spec.registers if spec.of_components else 0
    wanted: dict[str, tuple[int | None, ...]] = {
        "pixels": (n, *pair(spec.image_size), 3), "filters": (None, None, None, 3), "positions": (tokens, spec.dim),
        "embedded": (None, *(spec.grid if spec.of_components else (0, 0))), "scores": (sequence, sequence),
        "weights": (sequence, sequence), "norms": (n, spec.depth, sequence),
        "similarity": (patches, patches), "attention": (n, spec.depth, heads, patches),
        "distances": (spec.depth, heads), "last_layer": (n, patches), "rollouts": (n, patches),
        "confusion": (classes, classes),
    }  # fmt: skip
    for name, shape in wanted.items():
        array = getattr(explanation, name)
        if array is None:
            continue
        fits = array.ndim == len(shape) and all(w in (None, g) for w, g in zip(shape, array.shape, strict=True))
        empty = 0 in array.shape and name != "pixels"  # there may be no image that is shown, and nothing else is empty
        if not fits or empty or array.dtype != np.dtype(KINDS.get(name, "f4")):
            yield f"{name} is {array.dtype} {array.shape}, which is none of this model's"
    if explanation.filters is not None and len(explanation.filters) > MOST_FILTERS:
        yield f"filters are {len(explanation.filters):,}, and an explanation has at most {MOST_FILTERS}"
    if explanation.embedded is not None and len(explanation.embedded) > MOST_EMBEDDED:
        yield f"embedded are {len(explanation.embedded):,} channels, and an explanation has at most {MOST_EMBEDDED}"
    if (explanation.scores is not None or explanation.weights is not None) and sequence > MOST_PAIRED:
        yield f"scores and weights are of {sequence:,} tokens, and an explanation's of at most {MOST_PAIRED:,}"
    if explanation.similarity is not None and patches > MOST_SIMILAR:
        yield f"similarity is of {patches:,} patches, and an explanation's of at most {MOST_SIMILAR:,}"


def _of_values(explanation: Explanation) -> Iterator[str]:
    """Impossible values in arrays that have the right shapes."""
    for name in ARRAYS:
        array = getattr(explanation, name)
        if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
            yield f"{name} holds what is no finite number"
    if (counts := explanation.confusion) is not None and (counts < 0).any():
        yield "confusion counts less than nothing"
