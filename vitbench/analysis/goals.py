"""Goals: whether runs reach the test accuracy that a suite sets for a cell, and after how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from vitbench.analysis.grouped import ACCURACY, finished
from vitbench.analysis.paired import Interval, interval
from vitbench.config.suite import Goal


@dataclass(frozen=True)
class Timed:
    """The runs of a goal's cell on one device and from one origin.

    Attributes:
        goal: what is asked.
        device: where.
        origin: of the runs.
        n: runs that finished.
        planned: runs that there should be.
        accuracy_pct: mean test accuracy.
        interval: of that mean, 95 %.
        seconds: of training once it has warmed up, for each run: evaluation, like compilation, is no part of it, and
            pre-training and a teacher's training are.
        warm_up_seconds: of compilation and what else the first steps took longer, for each run.
    """

    goal: Goal
    device: str
    origin: str
    n: int
    planned: int
    accuracy_pct: float
    interval: Interval
    seconds: Sequence[float]
    warm_up_seconds: Sequence[float]

    @property
    def reached(self) -> bool:
        """Whether the mean is as high as is asked, all planned runs finished."""
        return self.n == self.planned and self.accuracy_pct >= self.goal.test_accuracy


def timed(train: pd.DataFrame, goals: Sequence[Goal]) -> list[Timed]:
    """Each goal's runs, in the order of goals, devices and origins.

    The time is counted once what a run is made of has been compiled, as in https://github.com/KellerJordan/cifar10-airbench.

    Args:
        train: training trials, as :func:`vitbench.analysis.frames.trials_frame` makes them.
        goals: of the suite.
    """
    found, measured = [], finished(train)
    for goal in goals:
        planned = train[train["cell"] == goal.cell].groupby("device", sort=False).size().to_dict()
        mine = measured[(measured["cell"] == goal.cell) & measured[ACCURACY].notna()]
        for (device, origin), runs in mine.groupby(["device", "origin"], sort=False):
            warm_up = runs["warm_up_seconds"].astype("float64")
            accuracy = runs[ACCURACY].astype("float64")
            taken = runs["train_seconds"].astype("float64") + runs["preparation_seconds"].astype("float64") - warm_up
            found.append(
                Timed(
                    goal, str(device), str(origin), len(runs), int(planned[str(device)]), float(accuracy.mean()),
                    interval(accuracy.tolist()), taken.tolist(), warm_up.tolist(),
                )
            )  # fmt: skip
    return found
