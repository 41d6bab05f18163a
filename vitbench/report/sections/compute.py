"""Budgets: how far cells that are compared differ in the operations of a run."""

from __future__ import annotations

import pandas as pd

from vitbench.config.trial import TrainTrial
from vitbench.report.inline import escape
from vitbench.report.text import enumerated, significant, span
from vitbench.report.view import View

UNEQUAL = 1.1
"""Largest over smallest budget, in operations, from which cells count as differently paid."""


def differing(view: View) -> dict[str, str] | None:
    """How far cells that are compared differ in the operations of a run, in words; None where they hardly do."""
    found = view.by_cell[["cell", "train_flops", "steps"]].dropna()
    found = found[found["train_flops"] > 0]
    tasks = dict(iter(found.groupby(found["cell"].map(view.task), sort=False)))
    widest = max(tasks, key=lambda name: _apart(tasks[name]["train_flops"]), default="")
    if widest not in tasks or _apart(tasks[widest]["train_flops"]) < UNEQUAL:
        return None
    rows = tasks[widest]
    axes = [escape(axis) for axis in _deciding(view, rows)]
    recipes = [p.trial.train for p in view.planned if isinstance(p.trial, TrainTrial)]
    stages = ["masked pre-training"] if any(recipe.pretrain_epochs for recipe in recipes) else []
    stages += ["a teacher's training"] if any(r.has_teacher and r.teacher_epochs for r in recipes) else []
    return {
        "by": f" by {enumerated(axes)}" if axes else "",
        "flops": span(rows["train_flops"] / 1e12, significant),
        "where": f' (in the task "{escape(widest)}", where they differ most)' if widest else "",
        "before": f", {' and '.join(stages)} included" if stages else "",
        "steps": f", in {span(rows['steps'])} steps",
    }


def _apart(flops: pd.Series[float]) -> float:
    return float(flops.max() / flops.min())


def _deciding(view: View, rows: pd.DataFrame) -> list[str]:
    """The axes between whose values some cells' operations differ on average."""
    values = {
        axis: rows["cell"].map({cell: view.values_of(cell)[axis] for cell in rows["cell"]})
        for axis in (view.axes if view.factorial else ())
    }
    return [axis for axis, of in values.items() if _apart(rows.groupby(of)["train_flops"].mean()) >= UNEQUAL]
