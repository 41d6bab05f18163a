"""Work: what the process of a trial does. One request in, progress and one reply out, as JSON."""

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from vitbench import registry
from vitbench.config.base import Strict
from vitbench.config.trial import TimeTrial, TrainTrial, TuneTrial
from vitbench.data.catalog import DataError
from vitbench.devices import DTYPES, DeviceError, Unsupported, peak_bytes, resolve, unsupported
from vitbench.environment import code_digest, fingerprint, source_commit
from vitbench.memory import keep_freed_memory
from vitbench.model.exactness import Incorrect, check
from vitbench.model.weights import WeightsError
from vitbench.processes import die_with_parent
from vitbench.runner.messages import EnsembleValues, Reply, Request, Task
from vitbench.runner.sharing import sharing
from vitbench.store import State
from vitbench.timing.measure import alone, side_by_side
from vitbench.training.checkpoint import Checkpointing, Interrupted
from vitbench.training.loop import train, train_ensemble, tune
from vitbench.training.stepper import Diverged
from vitbench.wording import sentence

# Read when the fork server loads this module, and remembered by every process that it forks: a file that is edited
# while a study runs is not the code that runs.
code_digest()
source_commit()
fingerprint("cpu", 1)  # versions and processor
for slot in registry.slots():
    for name in registry.names(slot):
        registry.facts(slot, name)


def main(request: Request, connection: Connection, log: str, compiled: str) -> None:
    """Entry point of a trial's process. A process group of its own, which ends when the driver does.

    Args:
        request: the work.
        connection: takes what is sent.
        log: file that takes what is printed.
        compiled: folder for what torch compiles, and for temporary files: compiled headers lie among those.
    """
    os.setpgid(0, 0)
    # Its parent is the fork server, which ends when the driver does. The thread ends the children too, but it never
    # runs in a process that is stuck in C code and holds the GIL.
    die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Path(compiled).mkdir(exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TMPDIR"] = compiled
    tempfile.tempdir = None  # what was found before
    threading.Thread(target=_end_with_driver, daemon=True).start()
    with Path(log).open("wb", buffering=0) as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)

    def send(kind: str, body: object) -> None:
        connection.send_bytes(json.dumps({"kind": kind, "body": body}).encode())

    reply = perform(request, send)
    send("reply", reply.model_dump(mode="json"))
    connection.close()
    sys.stdout.flush()


def _end_with_driver() -> None:
    """A driver that is killed takes its trials along: nobody would take their results."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    os.killpg(0, signal.SIGKILL)


Send = Callable[[str, object], None]
"""Tells the driver something: "progress" with words for the user, or "at" with the id of the trial at work."""


def perform(request: Request, send: Send) -> Reply:
    """Do the work, and put whatever happens into a word and a reason."""
    environment = None
    try:
        torch.set_num_threads(request.threads)
        device = resolve(request.device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        environment = fingerprint(request.device, request.threads).model_dump(mode="json")
        for plugin in request.plugins:
            registry.load_plugin(plugin.path, plugin.text)
        trial = request.trial
        if reason := trial.unsupported(device.type) or unsupported(
            trial.model, device, trial.dtype, training=trial.training
        ):
            raise Unsupported(reason)
        trains = request.task in ("train", "tune") and device.type == "cpu"
        with sharing(request.threads) if trains else contextlib.nullcontext():
            values = TASKS[request.task](request, device, send)
        return Reply(state="ok", values=values.model_dump(mode="json"), environment=environment)
    except Exception as error:
        state = _state_of(error)
        details = "" if state in ("unsupported", "incorrect", "diverged", "interrupted") else traceback.format_exc()
        return Reply(state=state, reason=_reason(error, request), details=details, environment=environment)


def _train(request: Request, device: torch.device, send: Send) -> Strict:
    trial = request.trial
    assert not isinstance(trial, TimeTrial)
    keep_freed_memory()
    check(trial.model, device, DTYPES[trial.dtype], backward=True)

    def say(text: str) -> None:
        send("progress", sentence(text))

    if request.ensemble:
        assert isinstance(trial, TrainTrial)
        members = train_ensemble((trial, *request.ensemble), device, say, request.weights)
        return EnsembleValues(members=tuple(str(m) if isinstance(m, Diverged) else m for m in members))
    if isinstance(trial, TuneTrial):
        return tune(trial, device, say, _checkpointing(request))
    return train(trial, device, say, _checkpointing(request), request.weights)


def _checkpointing(request: Request) -> Checkpointing | None:
    """Where training keeps its checkpoint, if it does; from now on SIGTERM asks for one before the end."""
    if request.checkpoint is None:
        return None
    checkpoint = Checkpointing(request.checkpoint, request.checkpoint_s)
    signal.signal(signal.SIGTERM, lambda *_: checkpoint.save_now.ask())
    return checkpoint


def _alone(request: Request, device: torch.device, send: Send) -> Strict:
    assert isinstance(request.trial, TimeTrial)
    return alone(request.trial, device)


def _panel(request: Request, device: torch.device, send: Send) -> Strict:
    assert isinstance(request.trial, TimeTrial)
    return side_by_side(request.trial, request.panel, device, request.process, lambda trial_id: send("at", trial_id))


def _nothing(request: Request, device: torch.device, send: Send) -> Strict:
    """No work at all, so that a trial's time is the harness's own; the benchmark of that asks for it."""
    return Strict()


TASKS: Mapping[Task, Callable[[Request, torch.device, Send], Strict]] = {
    "train": _train,
    "tune": _train,
    "alone": _alone,
    "panel": _panel,
    "nothing": _nothing,
}

STATES: tuple[tuple[type[BaseException], State], ...] = (
    (Unsupported, "unsupported"),
    (Incorrect, "incorrect"),
    (Diverged, "diverged"),
    (Interrupted, "interrupted"),
    (torch.OutOfMemoryError, "oom"),
    (MemoryError, "oom"),
)


# torch's CPU allocator, cuBLAS, the driver and SDPA raise plain RuntimeErrors; their text is all that tells.
BY_WORDS: Mapping[str, State] = {
    "DefaultCPUAllocator": "oom",
    "out of memory": "oom",
    "ALLOC_FAILED": "oom",
    "No available kernel": "unsupported",
}


def _state_of(error: Exception) -> State:
    for kind, state in STATES:
        if isinstance(error, kind):
            return state
    return next((state for words, state in BY_WORDS.items() if words in str(error)), "failed")


def _reason(error: Exception, request: Request) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    if _state_of(error) == "oom":
        trial = request.trial
        batch = trial.batch_size if isinstance(trial, TimeTrial) else trial.train.batch_size
        return f"batch {batch}, {peak_bytes(request.device):,} bytes at the peak: {text}"
    expected = isinstance(error, (Unsupported, Incorrect, Diverged, Interrupted, DataError, DeviceError, WeightsError))
    return text if expected else f"{type(error).__name__}: {text}"
