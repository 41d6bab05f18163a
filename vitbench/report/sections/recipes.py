"""Settings: which cells have which value of a field, where cells differ in one that is not itself an axis."""

from __future__ import annotations

from collections.abc import Mapping

from vitbench.analysis.frames import level
from vitbench.config.trial import TrainTrial
from vitbench.report.inline import Md, escape
from vitbench.report.text import plural
from vitbench.report.view import View

MOST_NAMED = 3
"""Values of an axis, or cells, that are named for one value of a field before they are counted."""
MOST_VALUES = 4
"""Values of a field that are told apart by who has them."""


def whose(view: View, field: str) -> dict[str, str]:
    """Value of a field of the recipe → who has it, escaped: values of the axis that sets it, or cells by name.

    Where an axis is the field itself, or every cell has one value, nothing.
    """
    if f"train.{field}" in view.axes:
        return {}
    of_cell = {p.cell: level(getattr(p.trial.train, field)) for p in view.planned if isinstance(p.trial, TrainTrial)}
    values = dict.fromkeys(of_cell.values())
    if len(values) < 2:
        return {}
    return _by_axis(view, of_cell) or {value: _cells(of_cell, value) for value in values}


def in_words(view: View, field: str) -> Md | None:
    """The values of a field of the recipe with who has each; None where all have one, or it is an axis of its own."""
    found = whose(view, field)
    if not found:
        return None
    shown = [f"{escape(value)} ({who})" for value, who in list(found.items())[:MOST_VALUES]]
    shown += [plural(len(found) - MOST_VALUES, "further value")] if len(found) > MOST_VALUES else []
    return Md(f"{', '.join(shown[:-1])} or {shown[-1]}")


def _by_axis(view: View, of_cell: Mapping[str, str]) -> dict[str, str]:
    """Value → the values of the one axis that decides it; nothing where no axis alone does."""
    for axis in view.axes if view.factorial else ():
        chosen: dict[str, set[str]] = {}
        for cell, value in of_cell.items():
            chosen.setdefault(view.values_of(cell)[axis], set()).add(value)
        if all(len(values) == 1 for values in chosen.values()):
            having: dict[str, list[str]] = {}
            for name, (value,) in chosen.items():
                having.setdefault(value, []).append(name)
            return {value: _listed(names) for value, names in having.items()}
    return {}


def _cells(of_cell: Mapping[str, str], value: str) -> str:
    names = [cell for cell, has in of_cell.items() if has == value]
    return _listed(names) if len(names) <= MOST_NAMED else plural(len(names), "cell")


def _listed(names: list[str]) -> str:
    shown = [escape(name) for name in names[:MOST_NAMED]]
    return ", ".join([*shown, *([f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else [])])
