"""Leaderboard: cells of several studies that were trained on the same images by the same recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from vitbench.config.base import digest
from vitbench.config.trial import TrainTrial
from vitbench.report.view import MEAN, STD, View
from vitbench.store import StudyFolder

COLUMNS = (
    "board", "images", "recipe", "rank", "study", "cell", "device", "n", MEAN, STD, "low", "high", "parameters",
    "forward_flops",
)  # fmt: skip


def leaderboard(studies: Sequence[StudyFolder], having: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Finished cells of some studies, on boards of what may be compared, the highest mean first. Equivalent
    implementations are one row.

    Columns: board (a number for each combination of images and recipe, the one with most cells first), images, recipe
    (in words); rank, on its board; study, cell, device, n (seeds), test_accuracy_pct_mean and _std, low and high (ends
    of its 95 % interval, percent), parameters, forward_flops (of one image). No test compares cells of different
    studies: the order is that of the means.

    Args:
        studies: any.
        having: field of the model → its value as text; cells with others are left out.
    """
    rows = [row for study in studies for row in _rows(View(study), having or {})]
    frame = pd.DataFrame(rows, columns=["key", *COLUMNS[1:3], *COLUMNS[4:]])
    frame = frame.sort_values(MEAN, ascending=False, kind="stable", ignore_index=True)
    sizes = frame["key"].value_counts(sort=False).sort_values(ascending=False, kind="stable")
    frame["board"] = frame["key"].map({key: number for number, key in enumerate(sizes.index, 1)})
    frame = frame.sort_values("board", kind="stable", ignore_index=True)
    frame["rank"] = frame.groupby("board").cumcount() + 1
    return frame[[*COLUMNS]]


def _rows(view: View, having: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    info = view.study.info
    trials = {p.cell: p.trial for p in view.planned if isinstance(p.trial, TrainTrial)}
    for row in view.by_cell.to_dict("records"):
        trial = trials[row["cell"]]
        model = trial.model
        other = view.function_of[row["cell"]] != row["cell"]  # equivalent implementations are one row
        if other or any(str(getattr(model, field, None)) != value for field, value in having.items()):
            continue
        body = trial.canonical()
        interval = view.intervals(row["device"]).get((row["cell"], row["origin"]))
        yield {
            "key": digest([info.data_identity or info.data_name, body.get("data"), body.get("train")]),
            "images": _images(trial, info.data_name), "recipe": _recipe(trial), "study": info.suite.name,
            "cell": row["cell"], "device": row["device"], "n": row["n"], MEAN: row[MEAN], STD: row[STD],
            "low": interval.low if interval else None, "high": interval.high if interval else None,
            "parameters": row["parameters"], "forward_flops": row["forward_flops"],
        }  # fmt: skip


def _images(trial: TrainTrial, name: str) -> str:
    counted = f", {trial.data.train_images:,} training images" if trial.data.train_images else ""
    return f"{name}{counted}"


def _recipe(trial: TrainTrial) -> str:
    recipe = trial.train
    given = {key: value for key, value in recipe.canonical().items() if key not in ("epochs", "batch_size")}
    others = ", ".join(f"{key} {value}" for key, value in given.items())
    return f"{recipe.epochs} epochs, batch size {recipe.batch_size}{', ' if others else ''}{others}"
