"""Tables by cell: a row for each planned cell, results of different origins in columns apart, and what all share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from vitbench.report.markdown import NOTHING, Md, escape
from vitbench.report.origins import states_of
from vitbench.report.view import MAX_CELLS, View

Result = Mapping[Any, Any]
"""What a cell came to at one origin: column of a frame → value."""
Results = Mapping[tuple[str, str], Result]
"""(cell, origin) → what it came to there; without those that have no result."""

SHARED = "The same for every cell"
"""Begins the sentence of what is said once, above a table, and not in each of its rows."""


def lines(
    view: View,
    rows: pd.DataFrame,
    cells: Sequence[str],
    results: Results,
    *,
    values: Callable[[str, str, Result], Mapping[str, Md]],
    absent: Callable[[Md], Mapping[str, Md]],
) -> list[dict[str, Md]]:
    """The lines of a table by cell, at most :data:`MAX_CELLS`.

    Where results come from several origins, each has columns of its own, its letter before them: "A: images/s".

    Args:
        view: the study.
        rows: the planned trials of the cells.
        cells: their labels, in the order of the lines.
        results: see :data:`Results`.
        values: a cell, an origin and its result → its columns.
        absent: the word that stands for a result that is not there → the same columns.
    """
    origins, missing = view.origins.of(rows), view.origins.missing(rows)
    told = states_told(rows, (cell for cell, _ in results))
    made = []
    for cell in cells[:MAX_CELLS]:
        line = view.identity(cell)
        for origin in origins or [""]:
            on = f"{view.origins.letter(origin)}: " if len(origins) > 1 else ""
            result = results.get((cell, origin))
            columns = absent(escape(missing[cell])) if result is None else values(cell, origin, result)
            line |= {f"{on}{name}": value for name, value in columns.items()}
        made.append(line | told[cell])
    return made


def states_told(rows: pd.DataFrame, with_result: Iterable[str]) -> dict[str, dict[str, Md]]:
    """Cell → the column of what became of its trials; without that column where the results say as much.

    A cell without any result has its state in the place of one. So there is a column only where a cell has a result,
    and not of all of its trials.
    """
    states = states_of(rows)
    in_part = any(states[cell] != "ok" for cell in with_result)
    return {cell: {"state": escape(state)} if in_part else {} for cell, state in states.items()}


def shared(made: Iterable[dict[str, Md]], names: Collection[str]) -> tuple[list[dict[str, Md]], dict[str, Md]]:
    """Lines without those of some columns in which all that have a value agree, and what they agree on.

    A column that several origins have is one, and agrees where it does in all of them. What has no result takes
    no part. One line alone keeps its columns: there is nothing to agree with.
    """
    made = list(made)
    found = {
        name: {value for line in made for column, value in line.items() if bare(column) == name} - {NOTHING}
        for name in names
    }
    agreed = {name: next(iter(values)) for name, values in found.items() if len(values) == 1} if len(made) > 1 else {}
    kept = [{column: value for column, value in line.items() if bare(column) not in agreed} for line in made]
    return kept, agreed


def bare(column: str) -> str:
    """A head without the letter of the origin before it."""
    return re.sub(r"^[A-Z?][A-Z0-9]?: ", "", column)


def right(view: View, made: Iterable[dict[str, Md]]) -> set[str]:
    """The columns of lines that are aligned to the right: all but those that name a cell, and its state."""
    naming = {name for cell in view.cells[:1] for name in view.identity(cell)}
    return {name for line in made for name in line} - {"state", *naming}
