"""Messages: what a driver asks of the process of a trial, and how that answers. No torch: the driver has none."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vitbench.config.base import Strict
from vitbench.config.trial import TimeTrial, TrainTrial, Trial
from vitbench.registry import Plugin
from vitbench.store import State, TrainValues
from vitbench.store.record import Details, Reason

Task = Literal["train", "tune", "alone", "panel", "nothing"]


@dataclass(frozen=True)
class Request:
    """One process's work. It is handed to the process as it is; what comes back is JSON."""

    task: Task
    trial: Trial  # of a panel, the baseline
    timeout_s: float
    device: str = ""  # with its index, e.g. "cuda:0"; of the slot in which it runs
    threads: int = 1  # CPU threads; of the slot in which it runs
    panel: tuple[TimeTrial, ...] = ()
    ensemble: tuple[TrainTrial, ...] = ()  # further seeds that are trained in the same program
    process: int = 0  # number of the process among those of the panel's trials
    plugins: tuple[Plugin, ...] = ()  # those that a component of its trials comes from, as the driver read them
    checkpoint: Path | None = None  # file of a training trial's checkpoint; None: none is kept
    checkpoint_s: float = 60.0  # seconds between two of them
    weights: Path | None = None  # folder that gets the weights of what is trained; None: none are kept


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
