"""This machine: trials share its cores and GPUs, timings have their device to themselves."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from vitbench.devices import resolve, unsupported
from vitbench.environment import Environment, fingerprint
from vitbench.runner.driver import Driven
from vitbench.runner.launchers.places import LauncherError, Site
from vitbench.runner.overview import device_kind
from vitbench.runner.process import Pool, Slot, Started
from vitbench.spec.trial import Trial

PREFIX = "vitbench-"


class Local(Driven):
    """Places of one machine.

    ``--device cuda`` with several workers deals them out to all GPUs, each pinned to one; ``cuda:1`` keeps them there.
    """

    def __init__(self, site: Site) -> None:
        """Raises DeviceError where the device is not there."""
        self.site = site
        self.first = resolve(site.device)
        self.device = device_kind(self.first.type)
        several = self.device == "cuda" and site.device in ("auto", "cuda")
        self.devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if several else [str(self.first)]
        self.workers = site.workers or 1
        used = self.devices[: self.workers]
        self.where = f"{'device' if len(used) == 1 else 'devices'} {', '.join(used)}"

    def refuses(self, trial: Trial) -> tuple[str, Environment | None] | None:
        """Why a trial cannot run on this machine's devices, which are alike."""
        reason = trial.unsupported(self.device) or unsupported(
            trial.model, self.first, trial.dtype, training=trial.training
        )
        return (reason, fingerprint(str(self.first), self.threads(1))) if reason else None

    def threads(self, workers: int) -> int:
        """CPU threads of each process: what the suite asks for, or the cores, divided by the processes at once."""
        return self.site.resources.cpus or max(cores() // workers, 1)

    @contextlib.contextmanager
    def training(self, started: Started) -> Iterator[Pool]:
        """As many slots as workers, dealt over the devices."""
        count = self.workers
        slots = [Slot(self.devices[i % len(self.devices)], self.threads(count)) for i in range(count)]
        with (
            _shared_devices([s.device for s in slots], self.site, exclusive=False),
            scratch() as folder,
            contextlib.closing(Pool(slots, folder, self.site.stop, started)) as pool,
        ):
            yield pool

    @contextlib.contextmanager
    def timing(self, started: Started) -> Iterator[Pool]:
        """One slot on the first device."""
        slot = Slot(str(self.first), self.threads(1))
        with (
            _shared_devices([slot.device], self.site, exclusive=True),
            scratch() as folder,
            contextlib.closing(Pool([slot], folder, self.site.stop, started)) as pool,
        ):
            yield pool

    def close(self) -> None:
        """Nothing to let go."""


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the logs of running processes. Those that killed drivers left are removed."""
    for stray in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = stray.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(stray, ignore_errors=True)  # another user's, or another driver is at it
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def _shared_devices(devices: list[str], site: Site, *, exclusive: bool) -> Iterator[None]:
    """Hold devices against the other drivers of this user on this machine: trainings share one, a timing does not."""
    folder = Path(tempfile.gettempdir()) / f"vitbench-devices-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise LauncherError(f"{folder}: belongs to another user; it must be removed before anything is run")
    with contextlib.ExitStack() as stack:
        for device in sorted(set(devices)):
            stream = stack.enter_context((folder / device.replace(":", "-")).open("a"))
            _lock(stream.fileno(), device, site, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


def _lock(handle: int, device: str, site: Site, how: int) -> None:
    told = False
    while site.stop.signal is None:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                site.say(f"waiting for {device}: another vitbench on this machine times on it, or trains while this "
                         f"one is to time")  # fmt: skip
                told = True
            time.sleep(0.2)
        else:
            return
