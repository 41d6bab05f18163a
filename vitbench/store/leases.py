"""Claims: several drivers share one study, and each trial is at work in one of them only.

A claim is a file ``claims/<trial>.<generation>.json`` that is created by one driver and touched by it at intervals, its
heartbeat. Another driver that finds the heartbeat stopped for three intervals takes the trial over by creating the next
generation; of several that try, the file system lets one succeed. No file is ever renamed or taken away from its owner,
so that no race can end with two owners: the highest generation owns the trial, and an owner that was only slow finds
out when it asks :meth:`Claims.holds`, before it writes a record.

Of a driver on this machine it counts whether its process is there, and nothing else: it may be stopped for hours. One
on another machine is dead when a driver has watched its heartbeat stand still for three intervals, by a clock that
nobody sets. So no clock's step, and no clock that is wrong, takes a trial from a driver that is at work on it.
"""

from __future__ import annotations

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
from vitbench.store.files import content, publish, write_atomically
from vitbench.store.processes import born, end_group, lives, mark, place, wall_clock

INTERVAL_SECONDS = 10.0
"""Between two signs of life."""

MAX_BYTES = 1 << 16
"""Largest file of a claim."""

MISSED = 3
"""Intervals without a sign of life after which an owner is taken for dead."""


class Owner(Strict):
    """Who holds a claim. No host name: places are told apart by a hash."""

    driver: str = Field(description="drawn when the driver started")
    place: str = Field(description="hash of the machine's boot and of the process namespace")
    pid: int
    born: float = Field(description="when the process was started, see processes.born")
    mark: str = Field(description="in the environment of all that it starts, see processes.MARK")
    interval_s: Annotated[float, Field(gt=0.0, le=86_400.0)]
    groups: tuple[tuple[int, float], ...] = Field(
        (), description="process groups of the trial: leader, and when it was started, see processes.born"
    )


@dataclass(frozen=True)
class Held:
    """Another driver is at work on a trial."""

    trial_id: str
    owner: Owner | None
    """None where the claim cannot be read."""
    quiet_s: float
    """Seconds without a sign of life, as this process has watched."""

    def __str__(self) -> str:
        if self.owner is not None and self.owner.place == place():
            return f"driver {self.owner.driver}, process {self.owner.pid} on this machine"
        name = f"driver {self.owner.driver} on another machine" if self.owner else "a driver of an unreadable claim"
        return f"{name}, watched for {self.quiet_s:.0f} s without a sign of life"


@dataclass(frozen=True)
class AtWork:
    """A trial that a living driver has claimed.

    Attributes:
        trial_id: which.
        driver: whose; empty where the claim cannot be read.
        driver_since: when that driver was started, seconds since 1970; None where that is not known.
        since: when the trial's process was started; None where it has none yet, or shares one.
    """

    trial_id: str
    driver: str
    driver_since: float | None
    since: float | None


def at_work(folder: Path) -> list[AtWork]:
    """What is at work in a study, as a reader sees it who writes nothing.

    Of a driver on another machine the age of its last sign of life is judged by this machine's clock: for a look, and
    not for taking a trial over.
    """
    latest: dict[str, Path] = {}
    for path in sorted(folder.glob("*.*.json"), key=_generation):
        if _generation(path):
            latest[path.name.partition(".")[0]] = path
    found = []
    for trial_id, path in sorted(latest.items()):
        owner = _read(path)
        with contextlib.suppress(FileNotFoundError):  # given up since
            quiet = time.time() - path.lstat().st_mtime
            if owner is not None and owner.place == place():
                alive = lives(owner.pid, owner.born)
            else:
                alive = quiet <= MISSED * (owner.interval_s if owner else INTERVAL_SECONDS)
            if alive:
                here = owner if owner is not None and owner.place == place() else None
                since = min((wall_clock(each) for _, each in here.groups if each), default=None) if here else None
                began = wall_clock(here.born) if here else None
                found.append(AtWork(trial_id, owner.driver if owner else "", began, since))
    return found


class Claims:
    """One driver's claims in a study's folder. A thread keeps them alive; use as a context manager."""

    def __init__(self, folder: Path, interval_s: float = INTERVAL_SECONDS) -> None:
        """``folder``: of all claims, made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        pid = os.getpid()
        self.folder = folder
        self.me = Owner(
            driver=secrets.token_hex(3), place=place(), pid=pid, born=born(pid) or 0.0, mark=mark(),
            interval_s=interval_s,
        )  # fmt: skip
        self.mine: dict[str, Path] = {}
        self._watched: dict[Path, tuple[int, float]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Claims:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        for trial_id in list(self.mine):
            self.release(trial_id)

    def take(self, trial_id: str) -> Held | None:
        """Claim a trial: None if it is this driver's now, else who holds it.

        Whoever takes a trial must look at its records afterwards: the former owner may have finished it.
        """
        generation, path = self._latest(trial_id)
        if path is not None and (held := self._held(trial_id, path)):
            return held
        if path is not None and (owner := _read(path)) is not None and owner.place == self.me.place:
            for leader, _ in owner.groups:  # what a dead driver left running would go on for nobody
                end_group(leader, owner.mark)
        mine = self._path(trial_id, generation + 1)
        try:
            publish(mine, self.me.model_dump_json(), durable=False)
        except FileExistsError:
            return self._held(trial_id, mine) or Held(trial_id, None, 0.0)
        self.mine[trial_id] = mine
        return None

    def holder(self, trial_id: str) -> Held | None:
        """Who holds a trial, this driver or another; None where nobody does who is alive."""
        _, path = self._latest(trial_id)
        return None if path is None else self._held(trial_id, path)

    def note_group(self, trial_id: str, leader: int) -> None:
        """Say which process group is at work on a trial, so that a later driver can end what this one leaves."""
        if self._is_mine(path := self.mine[trial_id]):
            owner = self.me.model_copy(update={"groups": ((leader, born(leader) or 0.0),)})
            write_atomically(path, owner.model_dump_json(), durable=False)

    def holds(self, trial_id: str) -> bool:
        """Whether a trial is still this driver's: nobody has taken it over, let alone finished it."""
        path = self.mine.get(trial_id)
        return path is not None and self._latest(trial_id)[1] == path and self._is_mine(path)

    def release(self, trial_id: str) -> None:
        """Give a trial up, its record written or not. What former owners left goes, too.

        Where the folder cannot be written any more the claim stays: it holds nobody up once this process has ended.
        """
        mine = self.mine.pop(trial_id)
        if not self._is_mine(mine):
            return
        with contextlib.suppress(OSError):
            for path in self.folder.glob(f"{trial_id}.*.json"):
                if 0 < _generation(path) <= _generation(mine):
                    path.unlink(missing_ok=True)

    def _latest(self, trial_id: str) -> tuple[int, Path | None]:
        """The highest generation of a trial's claims; 0 and None where there is none."""
        found = [(n, p) for p in self.folder.glob(f"{trial_id}.*.json") if (n := _generation(p))]
        return max(found, default=(0, None), key=lambda pair: pair[0])

    def _path(self, trial_id: str, generation: int) -> Path:
        return self.folder / f"{trial_id}.{generation}.json"

    def _held(self, trial_id: str, path: Path) -> Held | None:
        """Who holds a claim, or None if its owner is dead or it has just been given up."""
        try:
            changed, now = path.lstat().st_mtime_ns, time.monotonic()
        except FileNotFoundError:
            return None
        owner = _read(path)
        if owner is not None and owner.place == self.me.place:
            return Held(trial_id, owner, 0.0) if lives(owner.pid, owner.born) else None
        seen, since = self._watched.get(path, (changed, now))
        since = since if seen == changed else now
        self._watched[path] = (changed, since)
        interval = owner.interval_s if owner else INTERVAL_SECONDS
        return None if now - since > MISSED * interval else Held(trial_id, owner, now - since)

    def _beat(self) -> None:
        while not self._stopped.wait(self.me.interval_s / 2):
            for path in list(self.mine.values()):
                with contextlib.suppress(OSError):  # a file system that is away for a while: the age will tell
                    if self._is_mine(path):
                        os.utime(path)

    def _is_mine(self, path: Path) -> bool:
        """Whether a file is still the claim that was made there: its name is free again once a trial is given up."""
        owner = _read(path)
        return owner is not None and owner.driver == self.me.driver


def _generation(path: Path) -> int:
    """The number in a claim's name, from 1; 0 of a file that is none, as a copy by a program that synchronises is."""
    number = path.name.removesuffix(".json").partition(".")[2]
    return int(number) if number.isascii() and number.isdigit() else 0


def _read(path: Path) -> Owner | None:
    try:
        return Owner.model_validate_json(content(path, MAX_BYTES))
    except (OSError, ValidationError):
        return None
