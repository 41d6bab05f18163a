"""Time to accuracy: the test accuracy that a suite asks of a cell, what its runs came to, and in what time."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from vitbench.analysis.grouped import ACCURACY, finished
from vitbench.analysis.paired import interval
from vitbench.report.document import Block, table
from vitbench.report.output import Files
from vitbench.report.sections.accuracy import NOT_ALONE
from vitbench.report.text import Md, escape, fixed, ranging, seeds, significant
from vitbench.report.view import View

SECONDS = {"training (s)": "training_seconds", "warm-up (s)": "warm_up_seconds"}
RIGHT = {"goal (%)", "mean test accuracy (%)", "95 % interval (%)", "seeds", *SECONDS}
EXPLAINED = Md(
    "A goal is reached where the mean test accuracy over all planned seeds is at least the goal. Training time "
    "excludes warm-up (compilation and slow first steps, listed apart) and evaluation."
)


def section(view: View, files: Files) -> list[Block]:
    """The goals and what the runs came to; nothing where the suite has none."""
    goals, results = view.study.info.goals, frame(view)
    if not goals:
        return []
    lines = [_line(view, row) for row in results.to_dict("records")]
    tables = [table(lines, right=RIGHT)] if lines else []
    without = [Md(f"No run of {escape(g.cell)} finished.") for g in goals if g.cell not in set(results["cell"])]
    link = files.table("goals", results.drop(columns=[f"{key}_std" for key in SECONDS.values()]))
    shared = [Md(NOT_ALONE)] if any(not view.contention[device].alone for device in set(results["device"])) else []
    return [EXPLAINED, *tables, *shared, *without, Md(f"As numbers: {link}.")]


def in_short(view: View) -> list[Md]:
    """A sentence on which goals are reached and in what time."""
    goals = []
    for row in frame(view).to_dict("records"):
        beside = "" if view.contention[row["device"]].alone else ", beside other work"
        after = f", in {_mean(row, 'training_seconds')} s of training{beside}" if row["reached"] else ""
        on = f" on {row['device']}" if len(view.train_devices) > 1 else ""
        goals.append(f"{significant(row['goal_pct'])} %: {_reached(row)}{after} ({escape(row['cell'])}{on})")
    form = ", in the suite's small form" if view.small else ""
    return [Md(f"**Goals{form}:** {'; '.join(goals)}.")] if goals else []


def _reached(row: Mapping[Any, Any]) -> str:
    return "seeds are missing" if row["n"] < row["planned"] else "yes" if row["reached"] else "no"


def _line(view: View, row: Mapping[Any, Any]) -> dict[str, Md]:
    on = f"{row['device']} {row['environment']}" if view.environments.several else row["device"]
    ends = ranging(row["low_pct"], row["high_pct"], view.decimals)
    line = {
        "cell": escape(row["cell"]),
        "on": escape(on),
        "goal (%)": significant(row["goal_pct"]),
        "mean test accuracy (%)": fixed(row["test_accuracy_pct_mean"], view.decimals),
        "95 % interval (%)": ends if row["n"] > 1 else Md("one seed"),
        "reached": Md(_reached(row)),
    }
    for title, key in SECONDS.items():
        line[title] = _mean(row, key)
    return line | {"seeds": seeds(row["n"], row["planned"])}


def _mean(row: Mapping[Any, Any], key: str) -> Md:
    """The mean of a time over the seeds, and its standard deviation."""
    mean, std = row[f"{key}_mean"], row[f"{key}_std"]
    return Md(f"{significant(mean)}{f' ± {significant(std, 2)}' if math.isfinite(std) else ''}")


def frame(view: View) -> pd.DataFrame:
    """A row for each goal, device and environment that has a result.

    The time is counted once what a run is made of has been compiled, as in
    https://github.com/KellerJordan/cifar10-airbench: evaluation is no part of it, pre-training and a teacher's
    training are.
    """
    lines, measured = [], finished(view.train)
    measured = measured[measured[ACCURACY].notna()]
    for goal in view.study.info.goals:
        planned = view.train.loc[view.train["cell"] == goal.cell, "device"].value_counts().to_dict()
        of_cell = measured[measured["cell"] == goal.cell]
        for (device, environment), runs in of_cell.groupby(["device", "environment"], sort=False):
            times = runs[["warm_up_seconds", "train_seconds", "preparation_seconds"]].astype("float64")
            times["training_seconds"] = times["train_seconds"] + times["preparation_seconds"] - times["warm_up_seconds"]
            mean, of_mean = float(runs[ACCURACY].mean()), interval(runs[ACCURACY].tolist())
            lines.append({
                "cell": goal.cell, "device": device, "environment": view.environments.letter(str(environment)),
                "goal_pct": goal.test_accuracy, "n": len(runs), "planned": planned[str(device)],
                "test_accuracy_pct_mean": mean, "low_pct": of_mean.low, "high_pct": of_mean.high,
                "reached": len(runs) == planned[str(device)] and mean >= goal.test_accuracy,
                **{f"{key}_{end}": times[key].agg(end) for key in SECONDS.values() for end in ("mean", "std")},
            })  # fmt: skip
    columns = ["cell", "device", "environment", "goal_pct", "n", "planned", "test_accuracy_pct_mean", "low_pct",
               "high_pct", "reached",
               *(f"{key}_{end}" for end in ("mean", "std") for key in SECONDS.values())]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)
