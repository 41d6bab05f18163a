"""Files of pretrained weights that are named by recipes, identified by their content before a run."""

import functools
from dataclasses import replace
from pathlib import Path

from vitbench.config.architectures import OF_TIMM
from vitbench.config.base import by_identity
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import CONTENT, TrainTable
from vitbench.config.suite import Cell, ExpandedSuite
from vitbench.config.suite_errors import SpecError
from vitbench.model import timm_names
from vitbench.store.files import digest

DIGEST_LENGTH = 16


def with_pretrained_digests(suite: ExpandedSuite, *, planning: bool) -> ExpandedSuite:
    """The suite with each file of weights identified by its content, too, which goes into the trials' ids.

    Where it is only planned, timm need not be installed.

    Raises:
        SpecError: where a file is not there, timm has no weights of a name, or a cell's model cannot take them.
    """
    problems: dict[str, None] = {}
    digest_of = functools.cache(digest)  # several recipes may name one file

    def misfit(model: ModelSpec, table: TrainTable) -> str | None:
        from vitbench.model.pretrained import (
            check_pretrained,  # with torch, for which suites without such weights do not wait
        )
        from vitbench.model.weights import WeightsError

        try:
            check_pretrained(model, table.pretrained or "", head=not table.frozen)
        except WeightsError as error:
            return str(error)
        return None

    def identified(table: TrainTable) -> TrainTable:
        source = table.pretrained
        if source is None or CONTENT in source:
            return table
        if source.startswith(OF_TIMM):
            if problem := timm_names.problem(source.removeprefix(OF_TIMM), planning=planning):
                problems[f"{suite.file}: train.pretrained: {source}: {problem}"] = None
            return table
        try:
            content = digest_of(Path(source))[:DIGEST_LENGTH]
            return table.model_copy(update={"pretrained": f"{source}{CONTENT}{content}"})
        except OSError as error:
            problems[f"{suite.file}: train.pretrained: {source}: {error.strerror}; give a .safetensors file of "
                  f"vitbench's or timm's weights, or {OF_TIMM}NAME where timm can download them"] = None  # fmt: skip
            return table

    identify, check = by_identity(identified), by_identity(misfit)

    def cell_with_content(cell: Cell) -> Cell:
        if cell.train is None or cell.train.pretrained is None:
            return cell
        settings = tuple(each.model_copy(update={"train": identify(each.train)}) for each in cell.settings)
        return replace(cell, train=identify(cell.train), settings=settings)

    cells = tuple(map(cell_with_content, suite.cells))
    if not problems:
        for cell in suite.cells:
            table = cell.train
            new = table is not None and table.pretrained is not None and CONTENT not in table.pretrained
            if table and new and (problem := check(cell.model, table)):
                problems[f"{suite.file}: {cell.label}: train.pretrained: {problem}"] = None
    if problems:
        raise SpecError(problems)
    return replace(suite, cells=cells)
