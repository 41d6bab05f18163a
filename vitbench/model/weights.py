"""Weights on disk: only safetensors, since other checkpoints can run code (CVE-2025-32434)."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from vitbench.config.base import STORED, dumps
from vitbench.config.model import ModelSpec
from vitbench.errors import UserError
from vitbench.model.build import Model, network
from vitbench.store.distrust import reason
from vitbench.store.files import handle, opened, write_atomically

SUFFIX = ".safetensors"
SHOWN = 5

MAX_BYTES = 1 << 40  # Largest file of weights. Files are mapped and not read whole, so the limit is generous.
OURS = "vitbench"
"""Key of the file's metadata under which it says what it holds, as JSON: ``model``, and what else is known."""

Shapes = Mapping[str, tuple[int, ...]]  # Name of a tensor → its shape


class WeightsError(UserError, ValueError):
    """A file that holds no weights, or those of another model. The message names the file and the tensor."""


def save_weights(model: nn.Module, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None) -> Path:
    """Write all parameters and buffers of a model under the names of its ``state_dict``; whole or not at all.

    A model of vitbench's is described in the file by its spec: the number of heads is in no tensor's shape.

    Args:
        model: on any device, in any dtype; both are left as they are.
        path: of the file, ending in ``.safetensors``. One that exists is replaced.
        about: further things that the file is to say of itself, of which JSON can be made.

    Raises:
        WeightsError: for another suffix.

    Source: the format is https://github.com/huggingface/safetensors: a header of JSON, then bytes.
    """
    file, spec = _checked(path), getattr(model, "spec", None)
    body = {**(about or {}), **({"model": spec.canonical()} if isinstance(spec, ModelSpec) else {})}
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    return write_atomically(file, save(tensors, {OURS: dumps(body)} if body else None))


def load_weights(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Copy the weights in a file into a model that has just these tensors, each of the same shape.

    The file is checked whole before the first value is copied, so that a model is never left half loaded. Values are
    converted to the dtype and device of the model.

    Args:
        model: as built, e.g. by :func:`vitbench.build`.
        path: a file of :func:`save_weights`, or another safetensors file with the same names.

    Raises:
        WeightsError: for a file that is missing, truncated or of another format (nothing else is tried in its place:
            a pickle is never opened), and for tensors that are missing, unexpected or of another shape.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    model.load_state_dict(read_weights(path, shapes))


def load_model(path: str | os.PathLike[str]) -> Model:
    """The model whose weights a file holds, in evaluation mode: see :func:`vitbench.load_model`."""
    if (spec := read_spec(path)) is None:
        raise WeightsError(f"{path}: does not say of which model it is; build one, and load_weights into it")
    if wrong := [f"{field}: {message}" for field, message in spec.problems()] or spec.conflicts():
        raise WeightsError(f"{path}: its model cannot be: {'; '.join(wrong)}")
    with torch.device("meta"):
        shapes = {name: tuple(tensor.shape) for name, tensor in network(spec).state_dict().items()}
    tensors = read_weights(path, shapes)  # before anything of that size is made
    model = network(spec)
    model.load_state_dict(tensors)
    return model.eval()


def read_weights(path: str | os.PathLike[str], wanted: Shapes | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, on the CPU, once their shapes are known to be those that are wanted.

    Args:
        path: of the file.
        wanted: name of each tensor → its shape; None for whatever there is.

    Raises:
        WeightsError: for a file that is missing, truncated or of another format, and for other tensors.
    """
    with _opened(path) as stored:
        shapes = _shapes(stored)
        if wanted is not None and (problem := mismatch(wanted, shapes)):
            raise WeightsError(f"{Path(path)}: {problem}")
        return {name: stored.get_tensor(name) for name in shapes}


def read_shapes(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of a safetensors file by name, of which its header alone is read.

    Raises:
        WeightsError: see :func:`read_weights`.
    """
    with _opened(path) as stored:
        return _shapes(stored)


def read_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Description of itself in a safetensors file: see :func:`save_weights`; empty, where another program wrote it.

    Raises:
        WeightsError: see :func:`read_weights`; and where what it says is no JSON.
    """
    with _opened(path) as stored:
        text = (stored.metadata() or {}).get(OURS, "{}")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{Path(path)}: what it says of itself is damaged: {error}") from error
    if not isinstance(body, dict):
        raise WeightsError(f"{Path(path)}: what it says of itself is damaged: it is no table")
    return body


def read_spec(path: str | os.PathLike[str]) -> ModelSpec | None:
    """The model of which a safetensors file holds the weights; None where it does not say.

    Raises:
        WeightsError: see :func:`read_about`; and where what it says is no model.
    """
    if (body := read_about(path).get("model")) is None:
        return None
    try:
        return ModelSpec.model_validate_json(json.dumps(body), context=STORED)
    except ValidationError as error:
        raise WeightsError(f"{path}: its model cannot be read: {reason(error)}") from error


def _shapes(stored: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118 - no mapping


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A safetensors file, open for reading. Raises WeightsError, also for what is wrong with what is read of it."""
    file = _checked(path)
    try:
        with opened(file, MAX_BYTES) as stream, safe_open(handle(stream), framework="pt") as stored:
            yield stored
    except SafetensorError as error:
        raise WeightsError(f"{file}: weights must be {SUFFIX}, and this file is none or is damaged: {error}") from error
    except FileNotFoundError as error:  # safetensors' own says no more than the path, and that twice
        raise WeightsError(f"{file}: No such file") from error
    except OSError as error:
        raise WeightsError(f"{file}: {reason(error)}") from error


def _checked(path: str | os.PathLike[str]) -> Path:
    file = Path(path)
    if file.suffix != SUFFIX:
        raise WeightsError(f"{file}: weights must be {SUFFIX}; a checkpoint of another format can run code when read")
    return file


def mismatch(wanted: Shapes, given: Shapes) -> str | None:
    """Why some tensors are not a model's: names first, then the first shape that differs. None where they are."""
    missing = [name for name in wanted if name not in given]
    unexpected = sorted(name for name in given if name not in wanted)
    if missing or unexpected:
        sides = (("missing", missing), ("unexpected", unexpected))
        return "; ".join(f"{word}: {_listed(names)}" for word, names in sides if names)
    for name, shape in wanted.items():
        if given[name] != shape:
            return f"{name} is {_shape(given[name])}, and the model's is {_shape(shape)}"
    return None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _shape(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))})"
