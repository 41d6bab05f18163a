"""Budgets: how long each cell is trained where the suite counts operations, or makes its cells alike in something."""

import bisect
from collections.abc import Callable
from dataclasses import replace

from vitbench.config.base import by_identity
from vitbench.config.model import LEAST_HIDDEN, ModelSpec
from vitbench.config.recipe import DataSpec, TrainTable
from vitbench.config.suite import Cell, ExpandedSuite
from vitbench.config.suite_errors import SpecError
from vitbench.errors import UserError
from vitbench.runner.cost import approximate_flops, image_flops, preparation_flops, training_flops


def with_budgets(suite: ExpandedSuite, images_of: Callable[[DataSpec], int]) -> ExpandedSuite:
    """The suite with every cell's budget in images, and its parameters matched where that is asked.

    Args:
        suite: as it was read.
        images_of: training images of one epoch of some data, after validation has been cut.

    Raises:
        SpecError: where a cell cannot be matched, or its budget is spent before its first image.
    """
    suite = with_matched_parameters(suite)
    first = next((cell for cell in suite.cells if cell.train is not None), None)
    if first is None or not any(cell.train and _counts_flops(cell.train) for cell in suite.cells):
        return suite
    images, forward = by_identity(images_of), by_identity(approximate_flops)
    cells = [_with_images(cell, first, images, forward, suite.file) for cell in suite.cells]
    return replace(suite, cells=tuple(cells))


def _counts_flops(train: TrainTable) -> bool:
    return train.flops is not None or train.match == "flops"


def _with_images(cell: Cell, first: Cell, images: Callable[..., int], forward: Callable[..., int], file: str) -> Cell:
    """A cell whose recipe, and each of its settings, says how many images it sees."""
    if cell.train is None or not _counts_flops(cell.train):
        return cell
    if missing := cell.model.missing_package() or first.model.missing_package():
        raise UserError(f"{missing}, and so its operations are not known")
    train_images = images(cell.data)

    def budgeted(train: TrainTable) -> TrainTable:
        """The recipe for as many images as take the operations that it names, or the first cell in as many epochs."""
        budget = train.flops
        if budget is None:
            assert first.train is not None
            of_first = first.train.model_copy(update={"images": train.images, "epochs": train.epochs})
            budget = training_flops(first.model, of_first, images(first.data), forward)
            if budget == training_flops(cell.model, train, train_images, forward):
                return train
        before = preparation_flops(cell.model, train, train_images, forward)
        each = image_flops(cell.model, train, forward)
        if budget < before + each:
            raise SpecError([f"{file}: {cell.label}: a budget of {budget:.3g} operations leaves no image to train on: "
                             f"an image takes {each:.3g}, and what comes before it {before:.3g}"])  # fmt: skip
        return train.model_copy(update={"images": round((budget - before) / each)})

    settings = tuple(s.model_copy(update={"train": budgeted(s.train)}) for s in cell.settings)
    return replace(cell, train=budgeted(cell.train), settings=settings)


def with_matched_parameters(suite: ExpandedSuite) -> ExpandedSuite:
    """The suite with models that have the parameters of the first cell's, where that is asked.

    Raises:
        SpecError: where a cell cannot be matched.
    """
    first = next((cell for cell in suite.cells if cell.train is not None), None)
    cells = [
        replace(cell, model=matched_parameters(cell.model, first.model, f"{suite.file}: {cell.label}"))
        if first and cell.train and cell.train.match == "parameters" else cell
        for cell in suite.cells
    ]  # fmt: skip
    return replace(suite, cells=tuple(cells))


MOST_HIDDEN = 1 << 20
"""The largest hidden width that is tried for an MLP."""


def matched_parameters(model: ModelSpec, wanted: ModelSpec, where: str) -> ModelSpec:
    """A model whose MLP is as wide as gives it the parameters of another, as nearly as its widths allow.

    Counted on the meta device, so that every component counts itself; by bisection, since a component may round its
    width.

    Raises:
        SpecError: where it has no MLP, or is larger with the narrowest one.
    """
    from vitbench.model.counting import parameters_of  # torch: in suites that ask for it alone

    def of(hidden: int) -> ModelSpec:
        # Half a unit more, so that the product with dim cannot round down to one less.
        return model.model_copy(update={"mlp_ratio": (hidden + 0.5) / model.dim})

    goal = parameters_of(wanted)
    if parameters_of(model) == goal:
        return model
    if model.leaves_out("mlp"):
        raise SpecError([f"{where}: has no MLP whose width could match the parameters of the first cell"])
    if (least := parameters_of(of(LEAST_HIDDEN))) > goal:
        raise SpecError([f"{where}: {least:,} parameters with the narrowest MLP, and the first cell has {goal:,}"])
    widths = range(LEAST_HIDDEN, MOST_HIDDEN + 1)
    above = bisect.bisect_left(widths, goal, lo=1, key=lambda hidden: parameters_of(of(hidden)))
    return of(min(widths[above - 1 : above + 1], key=lambda hidden: abs(parameters_of(of(hidden)) - goal)))
