"""This machine: trials share its cores and GPUs, timings have their device to themselves."""

import contextlib
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
from vitbench.store.files import lock


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
    another namespace, a container, that has the same folder for temporary files. Where nothing can be locked, nobody
    can tell a stray, and none is removed.
    """
    prefix = f"vitbench-{os.getuid()}-"
    for stray in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with _locked(stray) as unowned:
            if unowned:
                shutil.rmtree(stray, ignore_errors=True)
    while True:
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name, _locked(Path(name)) as own:
            if own is not False and Path(name).is_dir():  # else it was taken for a stray before it was locked
                yield Path(name)
                return


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool | None]:
    """Hold the lock on a folder; what it gives is that of :func:`lock`, or False where the folder is gone."""
    with contextlib.ExitStack() as stack:
        handle = None
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, handle)
        yield False if handle is None else lock(handle)
