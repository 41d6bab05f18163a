"""Leaderboard: cells of several studies that were trained on the same images by the same recipe."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from vitbench.analysis.arms import names_of
from vitbench.config.base import digest
from vitbench.config.dead_fields import dead
from vitbench.report.view import HIGH, LOW, MEAN, STD, View
from vitbench.store import StudyFolder
from vitbench.wording import plural

COLUMNS = (
    "board", "images", "recipe", "rank", "study", "cell", "device", "on", "n", MEAN, STD, "low", "high", "parameters",
    "forward_flops",
)  # fmt: skip

COUNTED = ("name", "path", "train_images", "validation_images", "identity")
"""Fields of the images that a board's head says in other words."""


def leaderboard(studies: Sequence[StudyFolder], having: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Finished cells of some studies, on boards of what may be compared, the highest mean first. Equivalent
    implementations are one row; no test compares cells of different studies.

    Columns: board (a number for each combination of images and recipe, the one with most cells first), images, recipe
    (in words); rank, on its board; study (its folder), cell, device, on (of a study with several
    devices or environments the one, as its report names it), n (seeds), test_accuracy_pct_mean and _std, low and high
    (ends of its 95 % interval, percent), parameters, forward_flops (of one image).

    Args:
        having: field of the model → its value as text; cells with others are left out.
    """
    names = names_of([study.path for study in studies])
    rows = [row for study, name in zip(studies, names, strict=True) for row in _rows(View(study), name, having or {})]
    frame = pd.DataFrame(rows, columns=["key", *COLUMNS[1:3], *COLUMNS[4:]])
    frame = frame.sort_values(MEAN, ascending=False, kind="stable", ignore_index=True)
    sizes = frame["key"].value_counts(sort=False).sort_values(ascending=False, kind="stable")
    frame["board"] = frame["key"].map({key: number for number, key in enumerate(sizes.index, 1)})
    frame = frame.sort_values("board", kind="stable", ignore_index=True)
    frame["rank"] = frame.groupby("board").cumcount() + 1
    return frame[[*COLUMNS]]


def _rows(view: View, name: str, having: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    info, labels = view.study.info, {(each.device, each.environment): each.label for each in view.groups}
    for row in view.by_cell.to_dict("records"):
        trial, other = view.trained[row["cell"]], view.function_of[row["cell"]] != row["cell"]
        # Equivalent implementations are one row.
        if other or any(str(getattr(trial.model, field, None)) != value for field, value in having.items()):
            continue
        body, n = trial.canonical(), trial.data.train_images
        counted = [f"{n - trial.data.validation_images:,} training images"] if n else []
        # Seeds of one program are trained as each alone.
        train = {k: v for k, v in body.get("train", {}).items() if k not in ("ensemble_seeds", "ensemble_at_most")}
        recipe = [] if dead("epochs", [trial.train]) else [plural(trial.train.epochs, "epoch")]
        recipe += [f"batch size {trial.train.batch_size}"]
        recipe += [_setting(k, v) for k, v in train.items() if k not in ("epochs", "batch_size")]
        images = [_setting(k, v) for k, v in body.get("data", {}).items() if k not in COUNTED]
        yield {
            "key": digest([info.data_identity or info.data_name, body.get("data"), train]),
            "images": ", ".join([info.data_name, *counted, *images]), "recipe": ", ".join(recipe), "study": name,
            "cell": row["cell"], "device": row["device"],
            "on": labels.get((row["device"], row["environment"]), ""), "n": row["n"], MEAN: row[MEAN], STD: row[STD],
            "low": row[LOW], "high": row[HIGH],
            "parameters": row["parameters"], "forward_flops": row["forward_flops"],
        }  # fmt: skip


def _setting(name: str, value: Any) -> str:
    """A field and its value as a suite has it."""
    return f"{name} {value if isinstance(value, str) else json.dumps(value)}"
