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
from vitbench.runner.plan import KINDS
from vitbench.runner.process import Outcome, Say, Started, Stop
from vitbench.store.leases import INTERVAL_SECONDS


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
class Options:
    """How a study is run; none of it changes what is run."""

    device: str  # As the user named it: auto, cpu, cuda, cuda:1, mps
    workers: int | None = None  # Trials at once; None for the backend's own choice
    kinds: tuple[str, ...] = KINDS
    launcher: str = "local"
    address: str | None = None  # Address of a cluster, where there is a choice
    engine: tuple[tuple[str, str | int], ...] = ()  # Further parameters of the engine
    repeat: tuple[str, ...] = ()
    """Arguments of the command that runs the same suite, for a backend that starts drivers elsewhere."""
    command: tuple[str, ...] = ()
    """Arguments of the command that plans the same study, without the device; the study keeps them."""
    leave_leased: bool = False
    """Whether to end when all that is left is at work in other drivers, instead of waiting for them."""
    this_look: bool = False  # Whether what results ask for further is left to who submitted this driver as a job
    no_wait: bool = False  # Whether to end where another vitbench on this machine has the device
    rerun_changed: bool = False  # Whether results of other code count as missing
    keep_weights: bool = False  # Whether the weights of what is trained stay with the study
    heartbeat_s: float = INTERVAL_SECONDS

    @property
    def planned_elsewhere(self) -> tuple[str, ...]:
        """Kinds of trials that another driver plans."""
        return tuple(kind for kind in KINDS if kind not in self.kinds) if self.leave_leased else ()


@dataclass(frozen=True, kw_only=True)
class BackendOptions(Options):
    """The user's options, and what a backend has to know of the study."""

    study: Path
    resources: Resources
    stop: Stop
    say: Callable[[str], None]  # Shows the user a sentence
