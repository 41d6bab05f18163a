"""Tuning: the setting of the nuisance axes that each cell is trained with, chosen by validation accuracy."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from vitbench.config.base import dumps
from vitbench.config.suite import ExpandedSuite, Setting
from vitbench.store import PlannedTrial, Record, TuneValues
from vitbench.store.attempts import finished, standing

FIRST_SEED = 900
"""Tuning runs have seeds of their own, behind those that a master seed gives to runs: a setting that was lucky with
one of these is not judged by that luck again."""


def tuning_seeds(suite: ExpandedSuite) -> tuple[int, ...]:
    """Seeds of the runs of each setting."""
    assert suite.tune is not None
    taken = {seed for cell in suite.cells for seed in cell.seeds}
    free = (seed for seed in itertools.count(1000 * suite.info.seed + FIRST_SEED) if seed not in taken)
    return tuple(itertools.islice(free, suite.tune.seeds))


def choose(
    suite: ExpandedSuite, planned: Sequence[PlannedTrial], records: Mapping[str, list[Record]]
) -> tuple[dict[str, Setting], list[str]]:
    """(cell → its best setting, cells of which no setting finished), of the cells that have been tuned.

    The best setting has the highest validation accuracy after the last epoch, in the mean over its runs; of equals,
    the lowest loss, then the first in the suite's order. A setting of which a run has no result cannot be chosen.
    A cell with runs that are still to be done is in neither.
    """
    runs: dict[tuple[str, str], list[PlannedTrial]] = {}
    for trial in planned:
        if trial.trial.kind == "tune":
            runs.setdefault((trial.cell, dumps(trial.setting)), []).append(trial)
    chosen, hopeless = {}, []
    for cell in suite.cells:
        by_setting = [runs.get((cell.label, dumps(setting.values)), []) for setting in cell.settings]
        tried = [p for of_setting in by_setting for p in of_setting]
        if not tried or not all(finished(records.get(p.id, []), suite.info.max_attempts) for p in tried):
            continue
        scores = [_score([records[p.id] for p in of_setting]) for of_setting in by_setting]
        best = max(range(len(scores)), key=lambda i: scores[i])
        if scores[best][0] == -math.inf:
            hopeless.append(cell.label)
        else:
            chosen[cell.label] = cell.settings[best]
    return chosen, hopeless


def _score(runs: Sequence[list[Record]]) -> tuple[float, float]:
    """(accuracy, less the loss) in the mean over a setting's runs; the lowest score where one has no result."""
    values = [standing(attempts).values for attempts in runs]
    measured = [v for v in values if isinstance(v, TuneValues)]
    if len(measured) < len(values):
        return -math.inf, -math.inf
    accuracy = statistics.fmean(v.validation_accuracy_pct for v in measured)
    return accuracy, -statistics.fmean(v.validation_loss for v in measured)
