"""Turns: locks on the devices of this machine, so that a timing has its device to itself.

Trainings share a device, a timing has it to itself: a lock on a file of the device in a folder of this user's, which
ends with the process that has it. Who has a turn, and who waits for one, is written beside it, for `vitbench status`
and for the one that waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from vitbench.config.base import Strict
from vitbench.errors import UserError
from vitbench.processes import lives, machine_id, start_time
from vitbench.store.files import write_atomically
from vitbench.wording import printable

if TYPE_CHECKING:
    from vitbench.runner.process import Stop

LOOK_SECONDS = 0.2


class InUse(UserError, RuntimeError):
    """A device that another vitbench has, where nobody wants to wait."""


class Turn(Strict):
    """A vitbench that has a device, or waits for it."""

    device: str
    study: str
    machine: str
    pid: int
    started: float
    since: float  # Seconds since 1970
    waits: bool

    def __str__(self) -> str:
        return f"process {self.pid}, for {self.study}"


def waiting(study: Path) -> list[str]:
    """Drivers of a study that wait for a device of this machine: which device, how long, and who has it."""
    known = _turns()
    return [
        f"process {turn.pid} has waited {max(time.time() - turn.since, 0.0):.0f} s for {turn.device}, "
        f"{_holders(known, turn)}"
        for turn in known
        if turn.waits and turn.study == printable(str(study.resolve()))
    ]


@contextlib.contextmanager
def turns(
    devices: list[str], study: Path, stop: Stop, say: Callable[[str], None], *, alone: bool, patient: bool = True
) -> Iterator[None]:
    """Hold devices against the other drivers of this user on this machine, or until it is to stop.

    Args:
        devices: their names; one may be there more than once.
        study: the study that they are needed for.
        stop: ends the wait.
        say: prints who has the device.
        alone: whether nothing else may use them meanwhile.
        patient: whether to wait at all.

    Raises:
        InUse: where a device is in use and ``patient`` is false, or somebody else made the folder.
    """
    folder = _folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise InUse(f"{folder}: belongs to another user; it must be removed before anything is run")
    with contextlib.ExitStack() as stack:
        for device in sorted(set(devices)):
            stream = stack.enter_context((folder / device.replace(":", "-")).open("a"))
            turn = Turn(device=device, study=printable(str(study.resolve())), machine=machine_id(), pid=os.getpid(),
                        started=start_time(os.getpid()) or 0.0, since=time.time(), waits=True)  # fmt: skip
            file = folder / f"{device.replace(':', '-')}.{os.getpid()}.json"
            stack.callback(file.unlink, missing_ok=True)
            announced = False
            while stop.signal is None:
                try:
                    fcntl.flock(stream.fileno(), (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                except BlockingIOError:
                    if not announced:
                        write_atomically(file, turn.model_dump_json(), durable=False)
                        reason = f"{device}: {_holders(_turns(), turn)}; a timing has its device to itself"
                        if not patient:
                            raise InUse(f"{reason}, and --no-wait was asked for") from None
                        say(f"waiting for {reason}")
                        announced = True
                    time.sleep(LOOK_SECONDS)
                else:
                    held = turn.model_copy(update={"waits": False, "since": time.time()})
                    write_atomically(file, held.model_dump_json(), durable=False)
                    break
        yield


def _folder() -> Path:
    """The folder of this user's turns."""
    return Path(tempfile.gettempdir()) / f"vitbench-devices-{os.getuid()}"


def _turns() -> list[Turn]:
    """The turns of living processes in this namespace; files of dead ones are removed."""
    living = []
    for file in sorted(_folder().glob("*.json")):
        with contextlib.suppress(OSError, ValidationError):
            turn = Turn.model_validate_json(file.read_bytes())
            if turn.machine == machine_id() and lives(turn.pid, turn.started):
                living.append(turn)
            elif turn.machine == machine_id():
                file.unlink()
    return living


def _holders(known: list[Turn], waits: Turn) -> str:
    """Who has the device that one waits for."""
    held = [str(turn) for turn in known if turn.device == waits.device and not turn.waits]
    return f"in use by {', '.join(held)}" if held else "in use by another vitbench"
