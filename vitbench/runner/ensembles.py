"""Ensembles: seeds of a cell that are trained as one program."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vitbench.config.trial import TrainTrial, Trial
from vitbench.runner.messages import EnsembleValues
from vitbench.runner.process import Outcome
from vitbench.store import PlannedTrial, TimeValues, TrainValues, TuneValues
from vitbench.store.attempts import Attempt
from vitbench.store.record import VALUES


def ensembles(
    pending: Iterable[PlannedTrial], attempts: Mapping[str, Sequence[Attempt]]
) -> Iterator[Sequence[PlannedTrial]]:
    """Trials that one process takes together: all seeds of a cell that trains them as an ensemble, else one.

    What has failed in an ensemble is tried again by itself: it may have been too large, or one seed the end of all.
    """
    of_cell: dict[str, list[PlannedTrial]] | None = None
    for planned in pending:
        if (cell := _ensemble_key(planned, attempts)) is None:
            yield [planned]
            continue
        if of_cell is None:  # not looked for in a suite without ensembles, which may be large
            of_cell = {}
            for other in pending:
                if (key := _ensemble_key(other, attempts)) is not None:
                    of_cell.setdefault(key, []).append(other)
        together = of_cell.pop(cell, [])
        most = planned.trial.train.ensemble_at_most if isinstance(planned.trial, TrainTrial) else 1
        yield from (together[start : start + most] for start in range(0, len(together), most))


def _ensemble_key(planned: PlannedTrial, attempts: Mapping[str, Sequence[Attempt]]) -> str | None:
    """Key of the ensemble that a trial belongs to; None where it is trained alone."""
    trial, tried = planned.trial, attempts.get(planned.id, ())
    if not isinstance(trial, TrainTrial) or not trial.train.ensemble_seeds:
        return None
    if any(attempt.state != "interrupted" for attempt in tried):
        return None
    return None if trial.ensemble_problem() else trial.model_copy(update={"seed": 0}).id


TOO_LARGE = frozenset({"oom", "timeout"})  # States of an ensemble that its seeds may not come to, each by itself


def apart(outcome: Outcome) -> Iterator[tuple[Trial, Outcome, TrainValues | TuneValues | TimeValues | None]]:
    """Each trial of a process, with what became of it and its values; of an ensemble each has its share of the time."""
    request = outcome.request
    if not request.ensemble:
        kind = VALUES[request.trial.kind]
        yield request.trial, outcome, kind.model_validate_json(outcome.values_json()) if outcome.state == "ok" else None
        return
    trials = (request.trial, *request.ensemble)
    outcome = replace(outcome, seconds=outcome.seconds / len(trials))
    if outcome.state in TOO_LARGE:  # which is settled for a trial alone
        why = f"{outcome.state} in a program of {len(trials)} seeds: {outcome.reason}"
        outcome = replace(outcome, state="failed", reason=why)
    values = (
        EnsembleValues.model_validate_json(outcome.values_json()).members
        if outcome.state == "ok"
        else (None,) * len(trials)
    )
    for trial, member in zip(trials, values, strict=True):
        if isinstance(member, str):
            yield trial, replace(outcome, state="diverged", reason=member, values=None), None
        else:
            yield trial, outcome, member
