"""Recipes: which cells have which value of a field, where cells differ in one that is not itself an axis."""

from __future__ import annotations

from collections.abc import Mapping

from vitbench.analysis.frames import level
from vitbench.config.trial import TrainTrial
from vitbench.report.inline import Md, escape, listed
from vitbench.report.view import View
from vitbench.wording import plural

MOST_NAMED = 3
"""Values of an axis, or cells, that are named for one value of a field before they are counted."""
MOST_VALUES = 4
"""Values of a field that are told apart by who has them."""


def in_words(view: View, field: str) -> Md | None:
    """The values of a field of the recipe, each with the values of the axis that sets it, or with its cells by name.

    None where all cells have one value, or where the field is an axis of its own.
    """
    of_cell = {p.cell: level(getattr(p.trial.train, field)) for p in view.planned if isinstance(p.trial, TrainTrial)}
    if f"train.{field}" in view.axes or len(set(of_cell.values())) < 2:
        return None
    found = _by_axis(view, of_cell)
    for cell, value in of_cell.items() if not found else ():
        found.setdefault(value, []).append(cell)
    shown = [f"{escape(value)} ({listed(who, MOST_NAMED)})" for value, who in list(found.items())[:MOST_VALUES]]
    shown += [plural(len(found) - MOST_VALUES, "further value")] if len(found) > MOST_VALUES else []
    return Md(f"{', '.join(shown[:-1])} or {shown[-1]}")


def _by_axis(view: View, of_cell: Mapping[str, str]) -> dict[str, list[str]]:
    """Value → the values of the one axis that decides it; nothing where no axis alone does."""
    for axis in view.axes if view.factorial else ():
        chosen: dict[str, set[str]] = {}
        for cell, value in of_cell.items():
            chosen.setdefault(view.values_of(cell)[axis], set()).add(value)
        if all(len(values) == 1 for values in chosen.values()):
            having: dict[str, list[str]] = {}
            for name, (value,) in chosen.items():
                having.setdefault(value, []).append(name)
            return having
    return {}
