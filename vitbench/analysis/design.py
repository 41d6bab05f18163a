"""What the axes of a grid are: under study, exact twins, or conditions. Neither numpy nor pandas nor torch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from vitbench.spec.base import dumps
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import DataSpec


def images(data: DataSpec, model: ModelSpec) -> str:
    """What two cells must share for their accuracies to be of the same images and classes.

    A recipe's resizing, counts of training images and validation are choices under study; what is classified is not.
    """
    shown = data.canonical()
    for name in ("resize", "train_images", "validation_images", "normalize", "path", "download", "fallback"):
        shown.pop(name, None)
    return dumps({"data": shown, "classes": model.num_classes})


def conditions(cells: Iterable[tuple[Mapping[str, Hashable], str]]) -> set[str]:
    """The axes whose values change what is classified: cells that differ in such an axis have other images or classes.

    Their values are compared with one another by no verdict, since 90 % of four classes is neither better nor worse
    than 90 % of two. What other axes do under each of them is.

    Args:
        cells: (axis → value, :func:`images`) of each cell of the grid.
    """
    blocks: dict[tuple[str, tuple[tuple[str, Hashable], ...]], set[str]] = {}
    for values, shown in cells:
        for axis in values:
            others = tuple((name, value) for name, value in values.items() if name != axis)
            blocks.setdefault((axis, others), set()).add(shown)
    return {axis for (axis, _), found in blocks.items() if len(found) > 1}
