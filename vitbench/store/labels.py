"""Labels: what the cells of a study are called, in those of earlier versions too."""

from __future__ import annotations

from collections.abc import Mapping

from vitbench.spec.suite import Fact, Value, in_label
from vitbench.store.info import StudyInfo
from vitbench.store.plan import Trials

BETWEEN = " · "


def relabelled(info: StudyInfo) -> StudyInfo:
    """What a study is about, its cells called as this version calls them.

    Earlier versions wrote a number in a label otherwise than the tables do, 2.0 for 2. A label that is no more than its
    axes' values is written anew; any other was given by a user.
    """
    trials = Trials.of(info.trials)
    if not (names := _names(trials)):
        return info
    places = tuple((names.get(cell, cell), *rest) for cell, *rest in trials.tables.places)
    return info.model_copy(
        update={
            "trials": Trials.of(trials.tables.model_copy(update={"places": places})),
            "facts": tuple(_renamed(fact, names) for fact in info.facts),
            "goals": tuple(goal.model_copy(update={"cell": names.get(goal.cell, goal.cell)}) for goal in info.goals),
            "untuned": tuple(names.get(cell, cell) for cell in info.untuned),
        }
    )


def _names(trials: Trials) -> dict[str, str]:
    """Label → the one in its place, of those that change; none where two cells would be called the same."""
    tables, found, every = trials.tables, dict[str, str](), set[str]()
    for cell, axes, values, *_ in tables.places:
        place = dict(zip(tables.axes[axes], values, strict=True))
        every.add(cell)
        if cell == BETWEEN.join(_once(axis, value) for axis, value in place.items()):
            label = BETWEEN.join(in_label(axis, value) for axis, value in place.items())
            found |= {cell: label} if label != cell else {}
    kept = [label for label in every if label not in found]
    return found if len({*found.values(), *kept}) == len(every) else {}


def _renamed(fact: Fact, names: Mapping[str, str]) -> Fact:
    """A claim; one that is of no axis names cells."""
    if fact.axis is not None:
        return fact
    cells = {name: names.get(cell, cell) for name, cell in (("value", fact.value), ("against", fact.against))}
    return fact.model_copy(update=cells)


def _once(axis: str, value: Value) -> str:
    """An axis' value as labels had it."""
    return value if isinstance(value, str) else f"{axis.rpartition('.')[2]}={str(value).lower()}"
