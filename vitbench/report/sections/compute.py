"""Budget: what the runs of a study were given, what they took, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd

from vitbench.config.recipe import TrainSpec
from vitbench.config.trial import TrainTrial
from vitbench.report.inline import Md, escape
from vitbench.report.text import count, enumerated, plural, significant
from vitbench.report.view import View

A_MINUTE, AN_HOUR = 60.0, 3600.0

UNEQUAL = 1.1
"""Largest over smallest budget, in operations, from which cells count as differently paid."""


def budget(view: View, recipes: list[TrainSpec]) -> Md:
    """What a run is given, what that is in steps and operations, and what all runs took."""
    images = list(dict.fromkeys(recipe.images for recipe in recipes))
    epochs = list(dict.fromkeys(recipe.epochs for recipe in recipes if recipe.images is None))
    given = [f"{_range(epochs)} {_epochs(epochs)}"] if epochs else []
    given += [f"{_range([n for n in images if n is not None])} images"] if any(images) else []
    of_cells = view.by_cell[["steps", "train_flops"]].dropna()
    steps = f" ({_range(of_cells['steps'].tolist())} steps)" if len(of_cells) else ""
    before = [f"{_or(epochs)} of {what}" for what, epochs in _stages(recipes).items()]
    said = f"{' or '.join(given)} a run{steps}"
    said += f" after {' and '.join(before)}" if before else ""
    if len(of_cells):
        said += f"; {_spent(of_cells['train_flops'])} TFLOP a run{', all of that included' if before else ''}"
    if (seconds := float(view.train.loc[view.train["state"] == "ok", "seconds"].sum())) > 0:
        said += f"; those that finished add up to {duration(seconds)}"
    return Md(said)


def together(view: View) -> list[tuple[str, Md]]:
    """How the seeds of a cell were trained, where the suite asks for all of them in one program."""
    asked = [p.trial for p in view.planned if isinstance(p.trial, TrainTrial) and p.trial.train.stack_seeds]
    alone = Counter(reason for trial in asked if (reason := trial.unstackable()))
    parts = [Md(f"{plural(len(asked) - alone.total(), 'cell')}, each trained as programs of several seeds")]
    parts += [Md(f"{plural(n, 'cell')} seed by seed: {escape(reason)}") for reason, n in alone.items()]
    return [("seeds of a cell", Md("; ".join(parts)))] if asked else []


def differing(view: View) -> dict[str, str] | None:
    """How far cells that are compared differ in the operations of a run, in words; None where they hardly do."""
    found = view.by_cell[["cell", "train_flops", "steps"]].dropna()
    found = found[found["train_flops"] > 0]
    tasks = dict(iter(found.groupby(found["cell"].map(view.task), sort=False)))
    if not tasks:
        return None
    widest = max(tasks, key=lambda name: _apart(tasks[name]["train_flops"]))
    rows = tasks[widest]
    if _apart(rows["train_flops"]) < UNEQUAL:
        return None
    axes = [escape(axis) for axis in _deciding(view, rows)]
    stages = _stages([p.trial.train for p in view.planned if isinstance(p.trial, TrainTrial)])
    same = rows["steps"].nunique() == 1
    return {
        "by": f" by {enumerated(axes)}" if axes else "",
        "flops": _spent(rows["train_flops"]),
        "where": f' (in the task "{escape(widest)}", where they differ most)' if widest else "",
        "before": f", {' and '.join(stages)} included" if stages else "",
        "steps": ", all in the same number of steps" if same else f", in {_range(rows['steps'].tolist())} steps",
    }


def _apart(flops: pd.Series[float]) -> float:
    return float(flops.max() / flops.min())


def _deciding(view: View, rows: pd.DataFrame) -> list[str]:
    """The axes between whose values some cells' operations differ on average."""
    found = []
    for axis in view.axes if view.factorial else ():
        values = rows["cell"].map({cell: view.values_of(cell)[axis] for cell in rows["cell"]})
        means = rows.groupby(values)["train_flops"].mean()
        found += [axis] if _apart(means) >= UNEQUAL else []
    return found


def _stages(recipes: Sequence[TrainSpec]) -> dict[str, list[int]]:
    """What comes before the epochs of some runs, or of all → its epochs in them."""
    epochs = {
        "masked pre-training": {recipe.pretrain_epochs for recipe in recipes},
        "a teacher's training": {recipe.teacher_epochs if recipe.has_teacher else 0 for recipe in recipes},
    }
    return {what: sorted(some) for what, some in epochs.items() if any(some)}


def _or(epochs: Sequence[int]) -> str:
    shown = " or ".join(f"{n:,}" for n in epochs) if len(epochs) < 4 else _range(epochs)
    return f"{shown} {_epochs(epochs)}"


def _epochs(epochs: Sequence[int]) -> str:
    return "epoch" if list(epochs) == [1] else "epochs"


def duration(seconds: float) -> str:
    """Hours, minutes or seconds, whichever says it in the fewest digits."""
    if seconds >= AN_HOUR:
        return f"{significant(seconds / AN_HOUR)} hours"
    return f"{significant(seconds / A_MINUTE)} minutes" if seconds >= A_MINUTE else f"{significant(seconds)} seconds"


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{count(low)}" if low == high else f"{count(low)} to {count(high)}"


def _spent(flops: pd.Series[float]) -> str:
    low, high = (significant(float(end) / 1e12) for end in (flops.min(), flops.max()))
    return f"{low}" if low == high else f"{low} to {high}"


def dates(view: View) -> Md | None:
    """When the trials were begun, by their records; None where there are none."""
    moments = [_utc(attempt.started_at) for attempts in view.results.tried.values() for attempt in attempts]
    if not moments:
        return None
    first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (min(moments), max(moments)))
    return Md(f"{first} UTC" if first == last else f"{first} to {last} UTC (starts of the first and last trial)")


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
