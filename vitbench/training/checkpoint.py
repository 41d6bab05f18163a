"""Checkpoints of running trials, from which an interrupted trial continues.

A checkpoint is one safetensors file; its header's metadata holds everything that is no tensor as one JSON text, so that
numbers and tensors are always of one moment. It is written to the side, flushed to disk and renamed: there is a whole
one or none. Nothing in it is executed. Whether it may be used is decided by what made it (:data:`Identity`).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from
from safetensors.torch import save as bytes_of
from torch import Tensor

from vitbench.config.base import STORED, Strict, dumps
from vitbench.store import Epoch
from vitbench.store.files import content as contents
from vitbench.store.files import write_atomically
from vitbench.store.record import NonNegative

Identity = Mapping[str, str]
"""What a checkpoint depends on beside the moment, by its name in messages: the trial, the code, the machine, …"""


class Interrupted(RuntimeError):
    """Training ended because it was asked to, by :class:`SaveNow`; a checkpoint holds what was done."""


class BadCheckpoint(ValueError):
    """A file that is no checkpoint, or a damaged one. The message says what is wrong."""


class OtherCheckpoint(ValueError):
    """A sound checkpoint that is of something else. The message says of what."""


MAX_BYTES = 16 << 30  # Largest checkpoint: weights, averages and optimiser state of a billion parameters


@dataclass
class SaveNow:
    """Asks a training loop to save a checkpoint after the step at hand, and to end with :class:`Interrupted`.

    ``signal.signal(signal.SIGTERM, lambda *_: flag.ask())``: a handler that does nothing else.
    """

    asked: bool = False

    def ask(self) -> None:
        """Set the flag."""
        self.asked = True


@dataclass(frozen=True)
class Checkpointing:
    """Where a trial keeps its checkpoint, and how often."""

    path: Path  # of the file, which is this trial's alone; its folder is made when the file is written
    every_s: float = 60.0  # least seconds between two saves, and before the first: a trial that is shorter writes none
    save_now: SaveNow = field(default_factory=SaveNow)  # looked at after each step and each batch of an evaluation


class Moment(Strict):
    """All numbers that the rest of a trial depends on, after one of its steps; see ``TrainState`` and ``Stepper``."""

    steps: int
    left: int | None = Field(description="images of the budget; None where it is in epochs")
    epoch: int
    batches: int
    seen: int
    seconds: NonNegative
    epochs: tuple[tuple[Epoch, ...], ...] = Field(description="of each member")
    train_seconds: NonNegative
    elapsed_s: NonNegative = Field(description="of all processes so far, from building the model to this save")
    peak_memory_mib: NonNegative
    resumed_at: tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """A moment, and the tensors of the same moment, on the CPU."""

    moment: Moment
    tensors: dict[str, Tensor]


def write(path: Path, checkpoint: Checkpoint, identity: Identity) -> None:
    """Write or replace a checkpoint: on return it has reached the disk.

    Raises:
        OSError: where it cannot be written; the one before is still there then.
    """
    text = dumps({"identity": dict(identity), "moment": checkpoint.moment.model_dump(mode="json")})
    metadata = {"checkpoint": text, "sha256": _digest(text, checkpoint.tensors)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, bytes_of(checkpoint.tensors, metadata))


def read(path: Path, identity: Identity) -> Checkpoint:
    """The checkpoint in a file.

    Raises:
        FileNotFoundError: where there is none.
        BadCheckpoint: where the file is not what :func:`write` wrote.
        OtherCheckpoint: where it was made by another trial, other code, on another machine, …
    """
    content = contents(path, MAX_BYTES)
    try:
        tensors = tensors_from(content)
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        text, checksum = metadata["checkpoint"], metadata["sha256"]
        actual = _digest(text, tensors)
        body: dict[str, Any] = json.loads(text)
        made_by: dict[str, str] = body["identity"]
    except (SafetensorError, ValueError, LookupError, TypeError, RuntimeError, OverflowError) as error:
        raise BadCheckpoint(f"{type(error).__name__}: {str(error)[:200]}") from error
    if checksum != actual:
        raise BadCheckpoint(f"checksum {str(checksum)[:12]}… does not match the content's {actual[:12]}…")
    differences = [
        f"{what} {made_by.get(what, 'unknown')}, here {identity.get(what, 'unknown')}"
        for what in {**identity, **made_by}
        if made_by.get(what) != identity.get(what)
    ]
    if differences:
        raise OtherCheckpoint("; ".join(differences))
    # Only now, since another version of the code may have written another kind of moment.
    return Checkpoint(Moment.model_validate_json(json.dumps(body["moment"]), context=STORED), tensors)


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the JSON text and of each tensor's name, type, shape and bytes."""
    whole = hashlib.sha256(text.encode() + b"\0")
    for name, tensor in sorted(tensors.items()):
        whole.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        whole.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
