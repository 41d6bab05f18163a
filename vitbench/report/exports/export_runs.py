"""Runs for experiment trackers: what each record says, in the form that all of them know, and what each export takes.

One way: a tracker shows what vitbench measured, and nothing is read back from it.
"""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vitbench.config.dead_fields import dead
from vitbench.config.suite import as_text
from vitbench.config.trial import TimeTrial, TrainTrial, images_body
from vitbench.errors import UserError
from vitbench.report.view import View
from vitbench.store import Epoch, PlannedTrial, Record, TrainValues

EXTRAS: Mapping[str, Sequence[str]] = {
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "explore": ("plotly",),
}
"""Extra of vitbench → the packages that it needs."""


class MissingExtra(UserError, RuntimeError):
    """A package that an export needs is not installed. The message says how to install it."""


def require(name: str) -> None:
    """Raise MissingExtra where a package that an export needs is not installed."""
    missing = [module for module in EXTRAS.get(name, ()) if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingExtra(
            f"--export {name} takes {', '.join(missing)}, not installed here: pip install 'vitbench[{name}]' (in a "
            f"checkout: pip install '.[{name}]')"
        )


OF_EPOCHS = tuple(name for name in Epoch.model_fields if name not in ("epoch", "seconds"))
"""Metrics of an epoch: all that it holds but its number and its time."""
STAGES = {"pretraining": "pretraining/", "teaching": "teacher/", "epochs": ""}
"""Epochs of a record → what their metrics' names begin with."""


class LoggedStep(NamedTuple):
    """Metrics of one epoch: its number, when it ended (seconds since 1970), and name → value."""

    number: int
    at: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """A record as trackers know it."""

    planned: PlannedTrial  # whose it is
    record: Record  # the record
    tags: Mapping[str, str]  # state, device, commit and other environments of the numbers

    @property
    def began(self) -> float:
        """Seconds since 1970."""
        return self.record.started_at.timestamp()

    @property
    def ended(self) -> float:
        """Seconds since 1970."""
        return self.began + self.record.seconds

    @property
    def final(self) -> dict[str, float]:
        """Metrics of the whole."""
        values = [*(self.record.values or ())]
        if isinstance(self.record.values, TrainValues) and isinstance(trial := self.planned.trial, TrainTrial):
            at = zip(trial.train.test_sizes, self.record.values.test_accuracies_at, strict=False)
            values += [(f"test_accuracy_pct_at_{size}", accuracy) for size, accuracy in at]
        return {name: float(v) for name, v in values if isinstance(v, (int, float)) and not isinstance(v, bool)}

    @property
    def parameters(self) -> dict[str, Any]:
        """Settings of the trial: fields of its specs, by dotted names, and the suite's axes."""
        planned, trial = self.planned, self.planned.trial
        parts: dict[str, Any] = {"model": trial.model.model_dump(mode="json")}
        if isinstance(trial, TimeTrial):
            parts["time"] = trial.protocol.model_dump(mode="json")
            rest: dict[str, Any] = {"level": trial.level, "batch_size": trial.batch_size, "mode": trial.mode}
        else:
            # Where the images lie is the machine's own: what they are stands in its place, as in a trial's id.
            parts["data"] = images_body(trial.data, trial.data_identity)
            recipe = trial.train.model_dump(mode="json")
            parts["train"] = {name: value for name, value in recipe.items() if not dead(name, [trial.train])}
            rest = {"seed": trial.seed}
        fields = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        axes = {f"axis.{axis}": as_text(value) for axis, value in planned.axes.items()}
        given = {**axes, "cell": planned.cell, "dtype": trial.dtype, **rest, **fields}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def steps(self) -> Iterator[LoggedStep]:
        """Metrics by epoch."""
        at = self.began
        for stage, prefix in STAGES.items():
            epochs: Sequence[Epoch] = getattr(self.record.values, stage, ())
            for epoch in epochs:
                at += epoch.seconds
                values = {f"{prefix}{name}": getattr(epoch, name) for name in OF_EPOCHS}
                yield LoggedStep(epoch.epoch, at, {name: value for name, value in values.items() if value is not None})


def runs(view: View) -> Iterator[TrackedRun]:
    """The record that stands for each planned trial, in no order; a trial without one has no run."""
    trials = view.study.info.trials
    planned = set(trials.ids())
    standing = [attempt for trial_id, attempt in view.results.standing.items() if trial_id in planned]
    for _, record in view.study.records_of(standing):
        of_trial = trials.of_id(record.trial_id)
        yield TrackedRun(of_trial, record, _tags(view, of_trial, record))


def _tags(view: View, planned: PlannedTrial, record: Record) -> dict[str, str]:
    environment = record.environment
    tags: dict[str, str] = {
        "study": view.study.info.suite.name, "cell": planned.cell, "kind": planned.trial.kind, "state": record.state,
        "reason": record.reason, "device": planned.trial.device, "trial": planned.id, "attempt": str(record.attempt),
        "data": view.study.info.data_name if planned.trial.kind != "time" else "", "notices": "; ".join(record.notices),
    }  # fmt: skip
    if environment is not None:
        dirty = " with local changes" if environment.dirty else ""
        tags |= {
            "machine": environment.machine, "software": environment.software, "code": environment.code,
            "commit": f"{environment.commit}{dirty}" if environment.commit else "",
        }  # fmt: skip
    return {name: value for name, value in tags.items() if value}
