"""``[[facts]]`` and ``[[goals]]``: the effects that a suite expects beforehand, and the accuracies that it aims at."""

from collections.abc import Mapping, Sequence

from vitbench.config.suite import Goal, Hypothesis, Value, as_text
from vitbench.config.suite_errors import quote
from vitbench.config.suite_tables import SuiteTables
from vitbench.wording import nearest


def read_facts(
    tables: SuiteTables, axes: Mapping[str, tuple[Value, ...]], labels: Sequence[str], margin: float | None
) -> tuple[Hypothesis, ...]:
    """``[[facts]]``: claims about values of the suite's axes, or about its cells by their labels."""
    known = {axis: [as_text(value) for value in values] for axis, values in axes.items()}
    facts = []
    for where, hypothesis in tables.each("facts", tables.array("facts"), Hypothesis):
        facts.append(hypothesis)
        if hypothesis.value == hypothesis.against:
            tables.complain(f"{where}.value", f"{quote(hypothesis.value)} is what it is compared with")
        if hypothesis.expected == "equal" and margin is None:
            tables.complain(f"{where}.expected", '"equal" needs suite.margin: the difference that does not matter')
        if hypothesis.axis is not None and hypothesis.axis not in known:
            tables.complain(f"{where}.axis", f"{quote(hypothesis.axis)} is no axis{nearest(hypothesis.axis, known)}")
            continue
        values = labels if hypothesis.axis is None else known[hypothesis.axis]
        what = "label of a cell" if hypothesis.axis is None else f"value of {hypothesis.axis}"
        for key, value in (("value", hypothesis.value), ("against", hypothesis.against)):
            if value not in values:
                tables.complain(f"{where}.{key}", f"{quote(value)} is no {what}{nearest(value, values)}")
        for axis, value in hypothesis.where.items():
            if axis not in known or axis == hypothesis.axis:
                tables.complain(f"{where}.where", f"{quote(axis)} is no other axis{nearest(axis, known)}")
            elif value not in known[axis]:
                hint = nearest(value, known[axis])
                tables.complain(f"{where}.where.{axis}", f"{quote(value)} is no value of {axis}{hint}")
    return tuple(facts)


def read_goals(tables: SuiteTables, labels: Sequence[str]) -> tuple[Goal, ...]:
    """``[[goals]]``: test accuracies that cells are to reach, the cells by their labels."""
    goals = []
    for where, goal in tables.each("goals", tables.array("goals"), Goal):
        if goal in goals:
            tables.complain(where, f"says again that {quote(goal.cell)} is to reach {goal.test_accuracy:g} %")
        goals.append(goal)
        if goal.cell not in labels:
            tables.complain(f"{where}.cell", f"{quote(goal.cell)} is no label of a cell{nearest(goal.cell, labels)}")
    return tuple(goals)
