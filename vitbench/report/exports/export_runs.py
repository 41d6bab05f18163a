"""Runs for experiment trackers: what each record says, in the form that all of them know.

One way: a tracker shows what vitbench measured, and nothing is read back from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitbench.config.suite import as_text
from vitbench.config.trial import TimeTrial, images_body
from vitbench.report.view import View
from vitbench.store import Epoch, PlannedTrial, Record
from vitbench.store.trials import Trials

OF_EPOCHS = tuple(name for name in Epoch.model_fields if name not in ("epoch", "seconds"))
"""Metrics of an epoch: all that it holds but its number and its time."""
STAGES = {"pretraining": "pretraining/", "teaching": "teacher/", "epochs": ""}
"""Epochs of a record → what their metrics' names begin with."""


@dataclass(frozen=True)
class LoggedStep:
    """Metrics of one epoch: its number, when it ended (seconds since 1970), and name → value."""

    number: int
    at: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """A record as trackers know it.

    Attributes:
        planned: whose it is.
        name: the trial in words.
        parameters: what the trial is: fields of its specs, by dotted names, and the suite's axes.
        steps: metrics by epoch.
        final: metrics of the whole.
        tags: state, device, commit and what else tells where the numbers come from.
        began: seconds since 1970.
        ended: likewise.
        ok: whether it finished.
    """

    planned: PlannedTrial
    name: str
    parameters: Mapping[str, Any]
    steps: Sequence[LoggedStep]
    final: Mapping[str, float]
    tags: Mapping[str, str]
    began: float
    ended: float
    ok: bool


def runs(view: View) -> Iterator[TrackedRun]:
    """The record that stands for each planned trial, in no order; a trial without one has no run."""
    trials = Trials.of(view.study.info.trials)
    planned = set(trials.ids())
    standing = [attempt for trial_id, attempt in view.results.standing.items() if trial_id in planned]
    for _, record in view.study.records_of(standing):
        yield _run(view, trials.of_id(record.trial_id), record)


def _run(view: View, planned: PlannedTrial, record: Record) -> TrackedRun:
    began = record.started_at.timestamp()
    final = {} if record.values is None else {
        name: float(value) for name, value in record.values
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }  # fmt: skip
    return TrackedRun(
        planned, planned.description, _parameters(planned), [*_steps(record, began)], final,
        _tags(view, planned, record), began, began + record.seconds, record.state == "ok",
    )  # fmt: skip


def _parameters(planned: PlannedTrial) -> dict[str, Any]:
    trial = planned.trial
    parts: dict[str, Any] = {"model": trial.model.model_dump(mode="json")}
    if isinstance(trial, TimeTrial):
        parts["time"] = trial.protocol.model_dump(mode="json")
        rest: dict[str, Any] = {"level": trial.level, "batch_size": trial.batch_size, "mode": trial.mode}
    else:
        # Where the images lie is the machine's own: what they are stands in its place, as in a trial's id.
        parts["data"] = images_body(trial.data, trial.data_identity)
        parts["train"] = trial.train.model_dump(mode="json")
        rest = {"seed": trial.seed}
    fields = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    axes = {f"axis.{axis}": as_text(value) for axis, value in planned.axes.items()}
    given = {**axes, "cell": planned.cell, "dtype": trial.dtype, **rest, **fields}
    return {name: value for name, value in given.items() if value is not None}


def _steps(record: Record, began: float) -> Iterator[LoggedStep]:
    at = began
    for stage, prefix in STAGES.items():
        epochs: Sequence[Epoch] = getattr(record.values, stage, ())
        for epoch in epochs:
            at += epoch.seconds
            values = {f"{prefix}{name}": getattr(epoch, name) for name in OF_EPOCHS}
            yield LoggedStep(epoch.epoch, at, {name: value for name, value in values.items() if value is not None})


def _tags(view: View, planned: PlannedTrial, record: Record) -> dict[str, str]:
    environment = record.environment
    found: dict[str, str] = {
        "study": view.study.info.suite.name, "cell": planned.cell, "kind": planned.trial.kind, "state": record.state,
        "reason": record.reason, "device": planned.trial.device, "trial": planned.id, "attempt": str(record.attempt),
        "data": view.study.info.data_name if planned.trial.kind != "time" else "", "notices": "; ".join(record.notices),
    }  # fmt: skip
    if environment is not None:
        dirty = " with local changes" if environment.dirty else ""
        found |= {
            "machine": environment.machine, "software": environment.software, "code": environment.code,
            "commit": f"{environment.commit}{dirty}" if environment.commit else "",
        }  # fmt: skip
    return {name: value for name, value in found.items() if value}
