"""Twins in one row: cells that compute the same function and agree to the last digit are one experiment, repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from vitbench.spec.suite import BETWEEN

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Together:
    """Cells that share a row: what it is called, and their labels."""

    name: str
    cells: Sequence[str]


def together(
    results: pd.DataFrame, cells: Iterable[str], value: str, colours: Mapping[str, str]
) -> dict[str, Together]:
    """First cell of a row → the cells that share it, of those rows that two cells or more share.

    Args:
        results: finished trials, rows of :func:`vitbench.analysis.frames.trials_frame`.
        cells: in the order of their rows.
        value: column in which exact twins of one colour must be equal, seed by seed and origin by origin.
        colours: cell → what colours its row.
    """
    known = results[results[value].notna()]
    of_cell = {
        str(cell): (str(rows["twin"].iloc[0]), *sorted(zip(rows["origin"], rows["seed"], rows[value], strict=True)))
        for cell, rows in known.groupby("cell", sort=False)
    }
    alike: dict[object, list[str]] = {}
    for cell in cells:
        if cell in of_cell:
            alike.setdefault((colours[cell], of_cell[cell]), []).append(cell)
    rows, names = [row for row in alike.values() if len(row) > 1], set[str]()
    found = {}
    for row in rows:
        name = next(name for name in (_shared(row), row[0]) if name and name not in names)
        names.add(name)
        found[row[0]] = Together(f"{name} ({TIMES} {len(row)} twins)", row)
    return found


def _shared(labels: Sequence[str]) -> str:
    """What all of some cells are called, as far as their labels are made of as many parts; may be empty."""
    parts = [label.split(BETWEEN) for label in labels]
    if len({len(each) for each in parts}) > 1:
        return ""
    return BETWEEN.join(one for one, *others in zip(*parts, strict=True) if all(other == one for other in others))
