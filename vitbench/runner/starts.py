"""Starting weights named by recipes, identified by their content before a run."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from pathlib import Path

from vitbench.config.architectures import OF_TIMM
from vitbench.config.base import by_identity
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import CONTENT, TrainTable
from vitbench.config.suite import Cell, ExpandedSuite
from vitbench.config.suite_errors import SpecError
from vitbench.model import timm_names

DIGEST_LENGTH = 16


def with_starts(suite: ExpandedSuite, *, planning: bool) -> ExpandedSuite:
    """The suite with each file of weights identified by its content, too, which goes into the trials' ids.

    Where it is only planned, timm need not be installed.

    Raises:
        SpecError: where a file is not there, timm has no weights of a name, or a cell's model cannot take them.
    """
    problems: dict[str, None] = {}

    def fits(model: ModelSpec, table: TrainTable) -> None:
        from vitbench.model.start import check_start  # with torch, for which suites without such weights do not wait
        from vitbench.model.weights import WeightsError

        try:
            check_start(model, table.start or "")
        except WeightsError as error:
            problems[f"{suite.file}: train.start: {error}"] = None

    def identified(table: TrainTable) -> TrainTable:
        if table.start is None or CONTENT in table.start:
            return table
        if table.start.startswith(OF_TIMM):
            if problem := timm_names.problem(table.start.removeprefix(OF_TIMM), planning=planning):
                problems[f"{suite.file}: train.start: {table.start}: {problem}"] = None
            return table
        try:
            return table.model_copy(update={"start": f"{table.start}{CONTENT}{_digest(Path(table.start))}"})
        except OSError as error:
            problems[f"{suite.file}: train.start: {table.start}: {error.strerror}; give a .safetensors file of "
                  f"vitbench's or timm's weights, or {OF_TIMM}NAME where timm can download them"] = None  # fmt: skip
            return table

    identify, check = by_identity(identified), by_identity(fits)

    def cell_with_content(cell: Cell) -> Cell:
        if cell.train is None or cell.train.start is None:
            return cell
        settings = tuple(each.model_copy(update={"train": identify(each.train)}) for each in cell.settings)
        return replace(cell, train=identify(cell.train), settings=settings)

    cells = tuple(map(cell_with_content, suite.cells))
    if not problems:
        for cell in suite.cells:
            if cell.train is not None and cell.train.start is not None and CONTENT not in cell.train.start:
                check(cell.model, cell.train)
    if problems:
        raise SpecError(problems)
    return suite.model_copy(update={"cells": cells})


@functools.cache
def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:DIGEST_LENGTH]
