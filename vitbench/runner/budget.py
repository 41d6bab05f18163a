"""Budgets: how long each cell is trained where the suite counts operations, or makes its cells alike in something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from vitbench.config.base import by_identity
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, TrainTable
from vitbench.config.suite import Cell, ExpandedSuite
from vitbench.config.suite_errors import SpecError
from vitbench.errors import UserError
from vitbench.runner.cost import approximate_flops

FORWARD_AND_BACKWARD = 3
"""Operations of a training step over those of its forward pass: the backward pass makes two products for each."""


def with_budgets(suite: ExpandedSuite, images_of: Callable[[DataSpec], int]) -> ExpandedSuite:
    """The suite with every cell's budget in images, and its parameters matched where that is asked.

    Args:
        suite: as it was read.
        images_of: training images of one epoch of some data, after validation has been cut.

    Raises:
        SpecError: where a cell cannot be matched.
    """
    first = next((cell for cell in suite.cells if cell.train is not None), None)
    if first is None:
        return suite
    cells = [_as_large(cell, first.model, suite.file) for cell in suite.cells]
    images, budgeted = by_identity(images_of), by_identity(partial(_budgeted, first=first.model))
    return suite.model_copy(update={"cells": tuple(_with_images(cell, images(cell.data), budgeted) for cell in cells)})


def _as_large(cell: Cell, wanted: ModelSpec, file: str) -> Cell:
    """A cell whose model has the parameters of another, where its recipe asks for that."""
    if cell.train is None or cell.train.match != "parameters":
        return cell
    return replace(cell, model=matched_parameters(cell.model, wanted, f"{file}: {cell.label}"))


def _with_images(cell: Cell, train_images: int, budgeted: Callable[..., TrainTable]) -> Cell:
    """A cell whose recipe, and each of its settings, says how many images it sees. ``budgeted``: :func:`_budgeted`."""
    tables = [cell.train, *(s.train for s in cell.settings)]
    if cell.train is None or not any(table.flops or table.match == "flops" for table in tables if table):
        return cell
    settings = tuple(s.model_copy(update={"train": budgeted(s.train, cell.model, train_images)}) for s in cell.settings)
    return replace(cell, train=budgeted(cell.train, cell.model, train_images), settings=settings)


def _budgeted(train: TrainTable, model: ModelSpec, train_images: int, *, first: ModelSpec) -> TrainTable:
    if missing := model.missing_package() or first.missing_package():
        raise UserError(f"{missing}, and so its operations are not known")
    each = FORWARD_AND_BACKWARD * approximate_flops(model, training=True)
    if train.flops is not None:
        return train.model_copy(update={"images": max(int(train.flops / each), 1)})
    if train.match == "flops":
        images = train.images or train.epochs * train_images
        share = approximate_flops(first, training=True) / approximate_flops(model, training=True)
        return train if share == 1 else train.model_copy(update={"images": max(round(images * share), 1)})
    return train


LEAST_HIDDEN, MOST_HIDDEN = 2, 1 << 20
"""Hidden widths between which an MLP is looked for; with less a gated one, two thirds as wide, would have none."""


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
    low, high = LEAST_HIDDEN, 2 * LEAST_HIDDEN
    while parameters_of(of(high)) < goal and high < MOST_HIDDEN:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters_of(of(middle)) < goal else (low, middle)
    return of(min((low, high), key=lambda hidden: abs(parameters_of(of(hidden)) - goal)))
