"""Messages: what a driver asks of the process of a trial, and how that answers. No torch: the driver has none."""

import os
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo

from vitbench.config.base import Strict
from vitbench.config.trial import TimeTrial, TrainTrial, Trial
from vitbench.store import State, TrainValues
from vitbench.store.record import Details, Reason

Task = Literal["train", "tune", "alone", "panel", "ceilings", "nothing"]


def _path(text: str, info: ValidationInfo) -> str:
    return os.fsdecode(text.encode("latin-1")) if info.mode == "json" else text


HostPath = Annotated[
    str,
    BeforeValidator(_path),
    PlainSerializer(lambda path: os.fsencode(path).decode("latin-1"), when_used="json"),
]
"""A path. In JSON each byte of it is a character: a name need not be UTF-8."""


class PluginText(Strict):
    """A plug-in as the driver read it: one that is edited meanwhile does not change the later trials of a run."""

    path: HostPath
    text: str


class Request(Strict):
    """One process's work."""

    task: Task
    trial: Trial = Field(description="of a panel, the baseline")
    device: str = Field("", description='with its index, e.g. "cuda:0"; of the slot in which it runs')
    threads: int = Field(1, description="CPU threads; of the slot in which it runs")
    timeout_s: float
    panel: tuple[TimeTrial, ...] = ()
    ensemble: tuple[TrainTrial, ...] = Field((), description="further seeds that are trained in the same program")
    process: int = Field(0, description="number of the process among those of the panel's trials")
    plugins: tuple[PluginText, ...] = Field((), description="those that a component of its trials comes from")
    checkpoint: HostPath | None = Field(None, description="file of a training trial's checkpoint; None: none is kept")
    checkpoint_s: float = Field(60.0, description="seconds between two of them")
    weights: HostPath | None = Field(
        None, description="folder that gets the weights of what is trained; None: none are kept"
    )


class EnsembleValues(Strict):
    """The values of each member of an ensemble, or the reason why it has none."""

    members: tuple[TrainValues | str, ...]


class Reply(Strict):
    """How a process ended, in its own words."""

    state: State
    reason: Reason = ""
    details: Details = ""
    values: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
