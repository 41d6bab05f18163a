"""Stacks: seeds of a cell that are trained as one program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vitbench.config.trial import TrainTrial, Trial
from vitbench.runner.messages import Stacked
from vitbench.runner.process import Outcome
from vitbench.store import PlannedTrial, TrainValues, TuneValues
from vitbench.store.attempts import Tried


def stacks(
    pending: Iterable[PlannedTrial], attempts: Mapping[str, Sequence[Tried]]
) -> Iterator[Sequence[PlannedTrial]]:
    """Trials that one process takes together: all seeds of a cell that is to be stacked, else one.

    What has failed in a stack is tried again by itself: a stack may have been too large, or one seed the end of all.
    """
    of_cell: dict[str, list[PlannedTrial]] | None = None
    for planned in pending:
        if (cell := _stack_of(planned, attempts)) is None:
            yield [planned]
            continue
        if of_cell is None:  # not looked for in a suite without stacks, which may be large
            of_cell = {}
            for other in pending:
                if (key := _stack_of(other, attempts)) is not None:
                    of_cell.setdefault(key, []).append(other)
        together = of_cell.pop(cell, [])
        most = planned.trial.train.stack_at_most if isinstance(planned.trial, TrainTrial) else 1
        yield from (together[start : start + most] for start in range(0, len(together), most))


def _stack_of(planned: PlannedTrial, attempts: Mapping[str, Sequence[Tried]]) -> str | None:
    """Key of the stack that a trial belongs to; None where it is trained alone."""
    trial, tried = planned.trial, attempts.get(planned.id, ())
    if not isinstance(trial, TrainTrial) or not trial.train.stack_seeds:
        return None
    if any(attempt.state != "interrupted" for attempt in tried):
        return None
    return None if trial.unstackable() else trial.model_copy(update={"seed": 0}).id


TOO_LARGE = frozenset({"oom", "timeout"})
"""States of a stack that its seeds may not come to, each by itself."""


def apart(
    outcome: Outcome, kind: type[TrainValues] | type[TuneValues]
) -> Iterator[tuple[Trial, Outcome, TrainValues | TuneValues | None]]:
    """Each trial of a process, with what became of it and its values; of a stack each has its share of the time."""
    request = outcome.request
    if not request.stack:
        yield request.trial, outcome, kind.model_validate_json(outcome.values_json()) if outcome.state == "ok" else None
        return
    trials = (request.trial, *request.stack)
    outcome = replace(outcome, seconds=outcome.seconds / len(trials))
    if outcome.state in TOO_LARGE:  # which is settled for a trial alone
        why = f"{outcome.state} in a program of {len(trials)} seeds: {outcome.reason}"
        outcome = replace(outcome, state="failed", reason=why)
    members = (
        Stacked.model_validate_json(outcome.values_json()).members if outcome.state == "ok" else (None,) * len(trials)
    )
    for trial, member in zip(trials, members, strict=True):
        if isinstance(member, str):
            yield trial, replace(outcome, state="diverged", reason=member, values=None), None
        else:
            yield trial, outcome, member
