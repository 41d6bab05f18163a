"""Backends: where trials run. States, retries, time-outs and records are the driver's, whatever the backend."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vitbench.config.recipe import Device
from vitbench.config.suite import Resources
from vitbench.config.trial import Trial
from vitbench.environment import Environment
from vitbench.errors import UserError
from vitbench.runner.messages import Request
from vitbench.runner.process import Outcome, Say, Started, Stop


class BackendError(UserError, ValueError):
    """A backend that cannot be reached or used. The message says which, where, and what to do."""


class Workers(Protocol):
    """Processes that run requests, so many at a time."""

    def run(self, requests: Iterator[Request], say: Say) -> Iterator[Outcome]:
        """Outcomes as they come. A request is drawn when a process can be started for it."""


class Machines(Protocol):
    """The machines of a study, whoever drives it there."""

    device: Device  # Type of device on which all trials run
    where: str  # The machines in words, for the user

    def close(self) -> None:
        """Let the machines go."""


class Backend(Machines, Protocol):
    """Machines on which a driver in this process runs trials."""

    def refuses(self, trial: Trial) -> tuple[str, Environment | None] | None:
        """Why a trial cannot run here, and where "here" is; None where it can, or its own process will know."""

    def training(self, started: Started) -> AbstractContextManager[Workers]:
        """Workers for trials that are trained, several at a time.

        ``started`` is called with each process group that is one of this machine.
        """

    def timing(self, started: Started) -> AbstractContextManager[Workers]:
        """One worker, whose device is shared with nothing for as long as it is held."""


@dataclass(frozen=True)
class BackendOptions:
    """A study's needs, and the user's choices for its backend."""

    study: Path
    device: str  # As the user named it: auto, cpu, cuda, cuda:1, mps
    workers: int | None  # Trials at once; None for the backend's own choice
    resources: Resources
    stop: Stop
    say: Callable[[str], None]  # Shows the user a sentence
    address: str | None = None  # Address of a cluster, where there is a choice
    engine: tuple[tuple[str, str | int], ...] = ()  # Further parameters of the engine
    patient: bool = True  # Whether to wait for a device that another vitbench on this machine has
    repeat: tuple[str, ...] = ()
    """Arguments of the command that runs the same suite, for a backend that starts drivers elsewhere."""
