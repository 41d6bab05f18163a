"""Contention: whether runs shared their machine, from their start times, durations and the load average.

A run that is trained beside another has fewer cores, less cache and less memory bandwidth than one alone. Its accuracy
is the same; its speed says little of what a run alone would reach.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.analysis.results import Results
from vitbench.config.base import STORED
from vitbench.environment import Environment

KINDS = frozenset({"train", "tune"})
"""Trials that others of the study may run beside. A timing has its device to itself."""

SHARED = 0.05
"""Share of the runs' time from which they count as made side by side: one run's end and another's start may overlap."""

FOREIGN = 1.0
"""Load above the number of cores from which it is more than the study's own runs, one after another, leave behind."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Contention:
    """How far some runs had their machine to themselves."""

    runs: int  # how many they are
    share: float  # part of their time, in [0, 1], during which another run of the study was at work on the same machine
    at_once: int  # most runs of the study that were at work at one moment on a machine of theirs
    load: float  # highest load average, over one minute, at the start of one of them; NaN where no record has it
    cores: int  # of the machine where that was; 0 where it is not known

    @property
    def shared(self) -> bool:
        """Whether the runs were made side by side."""
        return self.share >= SHARED

    @property
    def loaded(self) -> bool:
        """Whether some began while the machine had more to do than it has cores."""
        return self.cores > 0 and self.load > self.cores + FOREIGN

    @property
    def alone(self) -> bool:
        """Whether nothing tells that a run had less than its machine."""
        return not self.shared and not self.loaded


def contention(results: Results, trials: Collection[str]) -> Contention:
    """How far some training runs had their machine to themselves.

    A run lasts from its record's ``started_at`` for its ``seconds``. What may have been at work beside it are all
    attempts at training or tuning that the study knows of, finished or not, in its plan or no longer. Records tell
    machines apart by their processor, cores and memory, so that two machines alike count as one; of several
    accelerators each counts as a machine.

    Args:
        results: what the study's records say.
        trials: ids of the runs, of which the attempts that stand are looked at.
    """
    there = [attempt.file for tried in results.tried.values() for attempt in tried if attempt.kind in KINDS]
    asked = {results.standing[trial_id].file for trial_id in trials if trial_id in results.standing}
    rows = results.of("attempts", there)
    rows = rows[rows["environment_json"].notna()]
    runs = rows["file"].isin(asked)
    if not runs.any():
        return Contention(0, 0.0, 0, math.nan, 0)
    cores, machine = _machines(rows["environment_json"])
    # By what it is beyond the cores: 3 is much for two and nothing for 64.
    loads = pd.DataFrame({"load": rows["load_average"].where(runs), "cores": cores}).dropna()
    worst = loads.assign(beyond=loads["load"] - loads["cores"]).sort_values("beyond", kind="stable").tail(1)
    shared, lasted, at_once = 0.0, 0.0, 0
    began = pd.to_datetime(rows["started_at"], utc=True, format="ISO8601")
    since = (began - began.min()).dt.total_seconds()
    table = pd.DataFrame({"machine": machine, "since": since, "seconds": rows["attempt_seconds"], "run": runs})
    for _, attempts in table.groupby("machine", sort=False):
        # Seeds that one program trains have one start, and a share of its time each.
        programs = attempts.groupby("since").agg({"seconds": "sum", "run": "any"}).reset_index()
        begin, seconds = programs["since"].to_numpy(np.float64), programs["seconds"].to_numpy(np.float64)
        beside, most = _beside(begin, begin + seconds)
        of_runs = programs["run"].to_numpy(np.bool_)
        shared, lasted = shared + float(beside[of_runs].sum()), lasted + float(seconds[of_runs].sum())
        at_once = max(at_once, most if of_runs.any() else 0)
    return Contention(
        int(runs.sum()),
        shared / lasted if lasted else 0.0,
        at_once,
        float(worst["load"].iloc[0]) if len(worst) else math.nan,
        int(worst["cores"].iloc[0]) if len(worst) else 0,
    )


def _machines(environments: "pd.Series[str]") -> tuple["pd.Series[int]", "pd.Series[str]"]:
    """Number of cores of each run's machine, and what tells that from others."""
    known = {
        text: Environment.model_validate_json(text, context=STORED) for text in environments.drop_duplicates().tolist()
    }
    cores = environments.map({text: environment.cpu_cores for text, environment in known.items()})
    names = {text: f"{e.machine}, {e.memory_gib} GiB, {_accelerator(e)}" for text, e in known.items()}
    return cores, environments.map(names)


def _accelerator(environment: Environment) -> str:
    """Which of a machine's accelerators a run had, where it had one to itself."""
    device = environment.device or ""
    return "" if device.startswith("cpu") else device


def _beside(begin: Floats, end: Floats) -> tuple[Floats, int]:
    """(n,) seconds of each of n spans during which another lasts, and the most that last at one moment."""
    at = np.concatenate([begin, end])
    change = np.concatenate([np.ones(len(begin)), -np.ones(len(end))])
    order = np.lexsort((change, at))  # what ends when another begins is not beside it
    at, lasting = at[order], np.cumsum(change[order])
    crowded = np.concatenate([[0.0], np.cumsum(np.diff(at) * (lasting[:-1] > 1))])
    return np.interp(end, at, crowded) - np.interp(begin, at, crowded), int(lasting.max())
