"""This machine: trials share its cores and GPUs, timings have their device to themselves."""

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from vitbench.config.trial import Trial
from vitbench.environment import Environment
from vitbench.runner import spinning
from vitbench.runner.backends.backend import BackendOptions
from vitbench.runner.device_kind import device_kind, is_cpu
from vitbench.runner.forked import forked
from vitbench.runner.process import Pool, Slot, Started
from vitbench.runner.turns import turns

PREFIX = "vitbench-"


class LocalBackend:
    """One machine's CPU or GPUs.

    ``--device cuda`` with several workers deals them out to all GPUs, each pinned to one; ``cuda:1`` keeps them there.
    """

    def __init__(self, options: BackendOptions) -> None:
        """Raises DeviceError where the device is not there."""
        self.options = options
        if (threads := options.resources.cpus or 1) > cores():
            options.say(
                f"resources.cpus is {threads}, and here are {cores()} cores: threads that wait for one another are slow"
            )
        spinning.choose(self.threads())  # before the server is started, which reads it
        self.devices: list[str] = (
            ["cpu"] if is_cpu(options.device) else forked("vitbench.devices:names", options.device)
        )
        self.first = self.devices[0]
        self.device = device_kind(self.first)
        self.workers = options.workers or self._side_by_side()
        used = self.devices[: self.workers]
        self.where = f"{'device' if len(used) == 1 else 'devices'} {', '.join(used)}"

    def refuses(self, trial: Trial) -> tuple[str, Environment | None] | None:
        """Why a trial cannot run on this machine's devices, which are alike."""
        reason = trial.unsupported(self.device) or trial.model.missing_package()
        return (reason, self.environment) if reason else None

    @functools.cached_property
    def environment(self) -> Environment:
        """The environment of a trial on the first device."""
        environment: Environment = forked("vitbench.environment:fingerprint", self.first, self.threads())
        return environment

    def _side_by_side(self) -> int:
        """Trainings at once where the user does not say: as many as the cores allow of what the suite gives to each."""
        cpus = self.options.resources.cpus
        return max(cores() // cpus, 1) if cpus is not None and self.device == "cpu" else 1

    def threads(self) -> int:
        """CPU threads of each training: what the suite gives to it, or the cores, divided by the trainings at once."""
        return self.options.resources.cpus or max(cores() // (self.options.workers or 1), 1)

    def training(self, started: Started) -> AbstractContextManager[Pool]:
        """A pool with as many slots as workers, dealt over the devices."""
        slots = [Slot(self.devices[i % len(self.devices)], self.threads()) for i in range(self.workers)]
        return self._pool(slots, started, alone=False)

    def timing(self, started: Started) -> AbstractContextManager[Pool]:
        """A pool with one slot on the first device, with all cores."""
        return self._pool([Slot(self.first, cores())], started, alone=True)

    @contextlib.contextmanager
    def _pool(self, slots: list[Slot], started: Started, *, alone: bool) -> Iterator[Pool]:
        """A pool of some slots, whose devices are held against other drivers."""
        options, devices = self.options, [slot.device for slot in slots]
        with (
            turns(devices, options.study, options.stop, options.say, alone=alone, patient=not options.no_wait),
            scratch() as folder,
            contextlib.closing(Pool(slots, folder, options.stop, started)) as pool,
        ):
            yield pool

    def close(self) -> None:
        """A machine stays."""


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the logs of running processes. Folders that killed drivers left are removed.

    The owner of a folder has a lock on it, which ends with the owner: process numbers mean nothing to a vitbench in
    another namespace, a container, that has the same folder for temporary files.
    """
    with contextlib.suppress(OSError):  # where nothing can be locked, nobody can tell a stray, and none is removed
        for stray in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getuid()}-*"):
            if (of_stray := _lock_folder(stray)) is not None:
                shutil.rmtree(stray, ignore_errors=True)
                os.close(of_stray)
    handle: int | None = None
    while True:
        folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getuid()}-", ignore_cleanup_errors=True)
        with contextlib.suppress(OSError):
            if (handle := _lock_folder(Path(folder.name))) is None:
                continue  # it was taken for a stray before it was locked
        break
    with folder as name:
        try:
            yield Path(name)
        finally:
            if handle is not None:
                os.close(handle)


def _lock_folder(folder: Path) -> int | None:
    """Take the lock on a folder, and the handle that holds it; None where another has it, or the folder is gone.

    Raises:
        OSError: on a file system without locks, as network ones may be.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    if folder.is_dir():
        return handle
    os.close(handle)
    return None
