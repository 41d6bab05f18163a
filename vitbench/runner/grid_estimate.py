"""Estimate of the time of a grid that is too large to expand, by one of its cells."""

from vitbench.config.suite import Cell, ExpandedSuite
from vitbench.config.suite_errors import SpecError, TooManyTrials
from vitbench.runner.cost import Estimate
from vitbench.runner.device_kind import device_kind
from vitbench.runner.plan import plan
from vitbench.wording import duration


def with_time(error: TooManyTrials, device: str) -> SpecError:
    """The error with the estimated time: that of the suite's base cell, as often as the grid has cells."""
    seconds = _seconds(error, device)
    time = "its time is unknown until a trial has been measured" if seconds is None else f"about {duration(seconds)}"
    return SpecError([f"{message} (estimated cost: {time})" for message in error.messages])


def _seconds(error: TooManyTrials, device: str) -> float | None:
    tables = error.tables
    cell = Cell(label="base", axes={}, model=tables["model"], data=tables["data"], train=tables["train"],
                time=tables["time"], seeds=(0,) if tables["train"] else ())  # fmt: skip
    suite = ExpandedSuite(file=error.file, info=tables["suite"], axes={}, cells=(cell,), data=tables["data"])
    kind = device_kind(device)
    try:
        trials = plan(suite, kind).trials
    except ValueError:  # the base alone is no cell that could run: only its axes make it one
        return None
    estimate = Estimate(kind, None)
    for planned in trials:
        estimate.add(planned.trial, error.cells * (error.runs if planned.trial.kind == "train" else 1))
    return estimate.seconds
