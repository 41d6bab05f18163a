"""Design: which axes of a grid are under study, equivalent implementations, or change the task. Imports no numpy."""

from collections.abc import Hashable, Iterable, Mapping

from vitbench.config.base import dumps
from vitbench.config.recipe import DataSpec


def images(data: DataSpec, classes: int) -> str:
    """Identity of what is classified: equal for two cells whose accuracies are of the same images and classes.

    A recipe's resizing, counts of training images and validation are choices under study; what is classified is not.
    """
    fields = data.canonical()
    for name in ("resize", "train_images", "validation_images", "normalize", "path", "download", "fallback"):
        fields.pop(name, None)
    return dumps({"data": fields, "classes": classes})


def task_axes(cells: Iterable[tuple[Mapping[str, Hashable], str]]) -> set[str]:
    """The axes whose values change what is classified: cells that differ in such an axis have other images or classes.

    Their values are compared with one another by no verdict, since 90 % of four classes is neither better nor worse
    than 90 % of two. What other axes do under each of them is.

    Args:
        cells: (axis → value, :func:`images`) of each cell of the grid.
    """
    cells = list(cells)
    if len({identity for _, identity in cells}) < 2:
        return set()
    return {axis for axis in dict.fromkeys(a for values, _ in cells for a in values) if _tells_images(axis, cells)}


def _tells_images(axis: str, cells: Iterable[tuple[Mapping[str, Hashable], str]]) -> bool:
    """Whether two cells that are alike in all other axes have other images or classes."""
    blocks: dict[tuple[tuple[str, Hashable], ...], str] = {}
    for values, identity in cells:
        if axis in values:
            others = tuple((name, value) for name, value in values.items() if name != axis)
            if blocks.setdefault(others, identity) != identity:
                return True
    return False
