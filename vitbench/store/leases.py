"""Leases: several drivers share one study, and each trial runs in only one of them.

A lease is a file ``leases/<trial>.<generation>.json`` that is created by one driver and touched by it at intervals, its
heartbeat. Another driver that finds the heartbeat stopped for three intervals takes the trial over by creating the next
generation; of several that try, the file system lets one succeed. No file is ever renamed or taken away from its owner,
so that no race can end with two owners: the highest generation owns the trial, and an owner that was only slow finds
out when it asks :meth:`Leases.holds`, before it writes a record.

A driver on this machine is alive as long as its process is there, and be it stopped for hours. One on another machine
is dead when a driver has watched its heartbeat stand still for three intervals, by a clock that
nobody sets. So no clock's step, and no clock that is wrong, takes a trial from a driver that is at work on it.
"""

import contextlib
import os
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from vitbench.config.base import Strict
from vitbench.processes import end_group, lives, machine_id, mark, start_time, wall_clock
from vitbench.store.files import content, publish, write_atomically

INTERVAL_SECONDS = 10.0  # Time between two signs of life
MAX_BYTES = 1 << 16  # Largest file of a lease
MISSED = 3  # Intervals without a sign of life after which an owner is taken for dead


class Owner(Strict):
    """Driver that has a lease. It has no host name: machines are distinguished by a hash."""

    driver: str = Field(description="drawn when the driver started")
    machine: str = Field(description="hash of the machine's boot and of the process namespace")
    pid: int
    started: float = Field(description="when the process was started, see processes.start_time")
    mark: str = Field(description="in the environment of all that it starts, see processes.MARK")
    interval_s: Annotated[float, Field(gt=0.0, le=86_400.0)]
    groups: tuple[tuple[int, float], ...] = Field(
        (), description="process groups of the trial: leader, and when it was started, see processes.start_time"
    )


@dataclass(frozen=True)
class Lease:
    """A living driver's hold on a trial, as this process sees it."""

    trial_id: str
    owner: Owner | None  # None where the file cannot be read
    quiet_s: float  # Seconds without a sign of life, as this process has watched

    def __str__(self) -> str:
        if self.owner is not None and self.owner.machine == machine_id():
            return f"pid {self.owner.pid}"
        where = "another machine" if self.owner else "unknown: its lease cannot be read"
        return f"{where}, no heartbeat for {self.quiet_s:.0f} s"


@dataclass(frozen=True)
class AtWork:
    """A trial on which a living driver has a lease."""

    trial_id: str  # id of the trial
    driver: str  # name of the driver; empty where the lease cannot be read
    driver_since: float | None  # when that driver was started, seconds since 1970; None where that is not known
    since: float | None  # when the trial's process was started; None where it has none yet, or shares one


def at_work(folder: Path) -> list[AtWork]:
    """Trials at work in a study, for a reader who writes nothing.

    A driver on another machine is judged by the age of its last sign of life on this machine's clock: good enough for a
    look, and not for taking a trial over.
    """
    latest: dict[str, Path] = {}
    for path in sorted(folder.glob("*.*.json"), key=_generation):
        if _generation(path):
            latest[path.name.partition(".")[0]] = path
    working = []
    for trial_id, path in sorted(latest.items()):
        owner = _read(path)
        here = owner if owner is not None and owner.machine == machine_id() else None
        with contextlib.suppress(FileNotFoundError):  # given up since
            if _lives(owner, time.time() - path.lstat().st_mtime):
                since = min((wall_clock(each) for _, each in here.groups if each), default=None) if here else None
                began = wall_clock(here.started) if here else None
                working.append(AtWork(trial_id, owner.driver if owner else "", began, since))
    return working


class Leases:
    """One driver's leases in a study's folder. A thread keeps them alive; use as a context manager."""

    def __init__(self, folder: Path, interval_s: float = INTERVAL_SECONDS) -> None:
        """``folder``: holds the leases of all drivers; made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        pid = os.getpid()
        self.folder = folder
        self.me = Owner(
            driver=secrets.token_hex(3), machine=machine_id(), pid=pid, started=start_time(pid) or 0.0, mark=mark(),
            interval_s=interval_s,
        )  # fmt: skip
        self.files: dict[str, Path] = {}  # Trial id → file of the lease that this driver has on it
        self._watched: dict[Path, tuple[int, float]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> "Leases":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        for trial_id in list(self.files):
            self.release(trial_id)

    def take(self, trial_id: str) -> Lease | None:
        """Lease a trial: None if it is this driver's now, else the lease of another.

        Whoever takes a trial must look at its records afterwards: the former owner may have finished it.
        """
        generation, path = self._latest(trial_id)
        if path is not None and (lease := self._living(trial_id, path)):
            return lease
        if path is not None and (owner := _read(path)) is not None and owner.machine == self.me.machine:
            for leader, _ in owner.groups:  # what a dead driver left running would go on for nobody
                end_group(leader, owner.mark)
        file = self.folder / f"{trial_id}.{generation + 1}.json"
        try:
            publish(file, self.me.model_dump_json(), durable=False)
        except FileExistsError:
            return self._living(trial_id, file) or Lease(trial_id, None, 0.0)
        self.files[trial_id] = file
        return None

    def current(self, trial_id: str) -> Lease | None:
        """The lease of this driver or another on a trial; None where nobody has one who is alive."""
        _, path = self._latest(trial_id)
        return None if path is None else self._living(trial_id, path)

    def note_group(self, trial_id: str, leader: int) -> None:
        """Say which process group is at work on a trial, so that a later driver can end what this one leaves."""
        if self._is_own(path := self.files[trial_id]):
            owner = self.me.model_copy(update={"groups": ((leader, start_time(leader) or 0.0),)})
            write_atomically(path, owner.model_dump_json(), durable=False)

    def holds(self, trial_id: str) -> bool:
        """Whether a trial is still this driver's: nobody has taken it over, let alone finished it."""
        path = self.files.get(trial_id)
        return path is not None and self._latest(trial_id)[1] == path and self._is_own(path)

    def release(self, trial_id: str) -> None:
        """Give a trial up, its record written or not. The files of former owners go, too.

        Where the folder cannot be written any more the lease stays: it stops nobody once this process has ended.
        """
        file = self.files.pop(trial_id)
        if not self._is_own(file):
            return
        with contextlib.suppress(OSError):
            for path in self.folder.glob(f"{trial_id}.*.json"):
                if 0 < _generation(path) <= _generation(file):
                    path.unlink(missing_ok=True)

    def _latest(self, trial_id: str) -> tuple[int, Path | None]:
        """The highest generation of a trial's leases; 0 and None where there is none."""
        files = [(n, p) for p in self.folder.glob(f"{trial_id}.*.json") if (n := _generation(p))]
        return max(files, default=(0, None), key=lambda pair: pair[0])

    def _living(self, trial_id: str, path: Path) -> Lease | None:
        """The lease in a file, or None if its owner is dead or it has just been given up."""
        try:
            changed, now = path.lstat().st_mtime_ns, time.monotonic()
        except FileNotFoundError:
            return None
        seen, since = self._watched.get(path, (changed, now))
        since = since if seen == changed else now
        self._watched[path] = (changed, since)
        owner = _read(path)
        return Lease(trial_id, owner, now - since) if _lives(owner, now - since) else None

    def _beat(self) -> None:
        while not self._stopped.wait(self.me.interval_s / 2):
            for path in list(self.files.values()):
                with contextlib.suppress(OSError):  # a file system that is away for a while: the age will tell
                    if self._is_own(path):
                        os.utime(path)

    def _is_own(self, path: Path) -> bool:
        """Whether a file is still this driver's lease: its name is free again once a trial is given up."""
        owner = _read(path)
        return owner is not None and owner.driver == self.me.driver


def _lives(owner: Owner | None, quiet_s: float) -> bool:
    """Whether the owner of a lease is alive: by its process on this machine, elsewhere by its last sign of life."""
    if owner is not None and owner.machine == machine_id():
        return lives(owner.pid, owner.started)
    return quiet_s <= MISSED * (owner.interval_s if owner else INTERVAL_SECONDS)


def _generation(path: Path) -> int:
    """The number in a lease's name, from 1; 0 of another file, such as a copy by a program that synchronises."""
    number = path.name.removesuffix(".json").partition(".")[2]
    return int(number) if number.isascii() and number.isdigit() else 0


def _read(path: Path) -> Owner | None:
    try:
        return Owner.model_validate_json(content(path, MAX_BYTES))
    except (OSError, ValidationError):
        return None
