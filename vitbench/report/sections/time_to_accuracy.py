"""Goals in tables: the test accuracy that a suite asks of a cell, what its runs came to, and in what time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pandas as pd

from vitbench.analysis.goals import Timed, timed
from vitbench.report.document import Block, table
from vitbench.report.inline import Md, escape
from vitbench.report.output import Files
from vitbench.report.text import fixed, seeds, significant
from vitbench.report.view import View

GOAL, MEAN, INTERVAL, SECONDS, WARM_UP = (
    "goal (%)", "mean test accuracy (%)", "95 % interval (%)", "training (s)", "warm-up (s)",
)  # fmt: skip


def section(view: View, files: Files) -> list[Block]:
    """The goals and what the runs came to; nothing where the suite has none."""
    blocks = by_cell(view)
    return [*blocks, Md(f"As numbers: {files.table('goals', frame(view))}.")] if blocks else []


def by_cell(view: View) -> list[Block]:
    """What the goals say, and their table; nothing where the suite has none."""
    goals = view.study.info.goals
    if not goals:
        return []
    found, decimals, several = timed(view.train, goals), view.decimals, view.origins.several
    lines = [_line(view, each, decimals, several=several) for each in found]
    without = [goal.cell for goal in goals if goal.cell not in {each.goal.cell for each in found}]
    said: list[Block] = [
        Md("A goal is reached where the mean test accuracy over all planned seeds is at least the goal. Training time "
           "excludes warm-up (compilation and slow first steps, listed apart) and evaluation.")
    ]  # fmt: skip
    said += [table(lines, right={GOAL, MEAN, INTERVAL, SECONDS, WARM_UP, "seeds"})] if lines else []
    return [*said, *(Md(f"No run of {escape(cell)} finished.") for cell in without)]


def _line(view: View, each: Timed, decimals: int, *, several: bool) -> dict[str, Md]:
    ends = " to ".join(fixed(end, decimals) for end in (each.interval.low, each.interval.high))
    on = f"{each.device} {view.origins.letter(each.origin)}" if several else each.device
    return {
        "cell": escape(each.goal.cell),
        "on": escape(on),
        GOAL: significant(each.goal.test_accuracy),
        MEAN: fixed(each.accuracy_pct, decimals),
        INTERVAL: Md(ends if each.n > 1 else "one seed"),
        "reached": Md("seeds are missing" if each.n < each.planned else "yes" if each.reached else "no"),
        SECONDS: _spread(each.seconds),
        WARM_UP: _spread(each.warm_up_seconds),
        "seeds": seeds(each.n, each.planned),
    }


def _spread(values: Sequence[float]) -> Md:
    width = f" ± {significant(statistics.stdev(values), 2)}" if len(values) > 1 else ""
    return Md(f"{significant(statistics.mean(values))}{width}")


def frame(view: View) -> pd.DataFrame:
    """The same as numbers: a row for each goal, device and origin that has a result."""
    columns = ["cell", "device", "origin", "goal_pct", "n", "planned", "test_accuracy_pct_mean", "low_pct", "high_pct",
               "reached", "training_seconds_mean", "warm_up_seconds_mean"]  # fmt: skip
    rows = [
        (each.goal.cell, each.device, view.origins.letter(each.origin), each.goal.test_accuracy, each.n, each.planned,
         each.accuracy_pct, each.interval.low, each.interval.high, each.reached, statistics.mean(each.seconds),
         statistics.mean(each.warm_up_seconds))
        for each in timed(view.train, view.study.info.goals)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)
