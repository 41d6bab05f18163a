"""Asked: a study's questions and rules as flat values, to compare two versions of a plan."""

import json
from collections.abc import Mapping
from typing import Any

from vitbench.config.base import by_identity, dumps
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import TrainSpec
from vitbench.config.trial import TrainTrial, images_body
from vitbench.store.info import StudyInfo

Asked = dict[str, Any]
"""Name, such as "suite.margin" or "train.learning_rate" → JSON value; one at its default has no entry. What cells
differ in is a mapping of all of them, under :data:`BY_CELL`."""

BY_CELL = "by cell"
CELLS, SEEDS, HYPOTHESIS, GOAL, TUNED = "cells", "seeds", "claim.", "goal.", "tuned"

APART = frozenset(
    {
        "schema_version", "suite", "suite_file", "options", "commands", "axes", "data_name", "fallback", "class_names",
        "excluded", "facts", "goals", "untuned", "split", "looks", "history", "trials",
    }
)  # fmt: skip
"""Fields of StudyInfo that are shown in another form here, are redundant, or change during a run."""


def asked(info: StudyInfo) -> Asked:
    """A study's questions: the words and settings of its suite, its claims and goals, and what its cells train.

    Fields at their default are left out, so that a new field changes no study's digest.
    """
    trials = info.trials
    fields: Asked = info.model_dump(mode="json", exclude_defaults=True, exclude=set(APART))
    fields |= {f"suite.{name}": value for name, value in info.suite.canonical().items()}
    for hypothesis in info.facts:
        body = hypothesis.canonical()
        name = HYPOTHESIS + body.pop("claim")
        fields[name if name not in fields else f"{name} ({len(fields)})"] = body
    if info.looks:
        fields["suite.looks"] = list(info.looks.at)
    fields |= {GOAL + goal.cell: goal.test_accuracy for goal in info.goals}
    cells = {p.cell: p.trial for p in reversed(trials.up_to_seed) if isinstance(p.trial, TrainTrial)}
    cells = dict(reversed(cells.items()))
    if cells:
        images, model = by_identity(images_body), by_identity(ModelSpec.canonical)
        recipe = by_identity(TrainSpec.canonical)
        fields[CELLS] = list(cells)
        to_come = info.looks.seeds if info.looks else ()  # a look of the plan has been reckoned with
        fields[SEEDS] = sorted({*to_come, *(row[8] for row in trials.tables.rows if row[1] == "train")})
        fields |= _over("model", {cell: model(trial.model) for cell, trial in cells.items()})
        fields |= _over("data", {cell: images(trial.data, trial.data_identity) for cell, trial in cells.items()})
        fields |= _over("train", {cell: recipe(trial.train) for cell, trial in cells.items()})
    plain: Asked = json.loads(dumps(fields))
    return plain


def _over(table: str, bodies: Mapping[str, Mapping[str, Any]]) -> Asked:
    """The fields of one table: a value that all cells share once, one that varies by cell."""
    fields, distinct = Asked(), list({id(body): body for body in bodies.values()}.values())
    for name in sorted({name for body in distinct for name in body}):
        first = distinct[0].get(name)
        alike = all(body.get(name) == first for body in distinct)
        fields[f"{table}.{name}"] = first if alike else {BY_CELL: {c: body.get(name) for c, body in bodies.items()}}
    return fields


def by_cell(value: Any) -> Mapping[str, Any] | None:
    """Cell → value, of a field in which cells differ; None of one that they share."""
    values = value.get(BY_CELL) if isinstance(value, dict) else None
    return values if isinstance(values, dict) else None


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Name → (old value, new value) of what is not the same."""
    names = sorted({*before, *after})
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}
