"""Weights of a model on disk: safetensors alone, since any other checkpoint can be a program (CVE-2025-32434)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from vitbench.store.files import write_atomically

SUFFIX = ".safetensors"
SHOWN = 5


class WeightsError(ValueError):
    """A file that holds no weights, or those of another model. The message names the file and the tensor."""


def save_weights(model: nn.Module, path: str | os.PathLike[str]) -> Path:
    """Write all parameters and buffers of a model under the names of its ``state_dict``; whole or not at all.

    Args:
        model: on any device, in any dtype; both are left as they are.
        path: of the file, ending in ``.safetensors``. One that exists is replaced.

    Raises:
        WeightsError: for another suffix.

    Source: the format is https://github.com/huggingface/safetensors: a header of JSON, then bytes.
    """
    file = _checked(path)
    return write_atomically(file, save({name: t.detach().cpu().contiguous() for name, t in _tensors(model).items()}))


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
    wanted = _tensors(model)
    model.load_state_dict(_read(path, lambda file, found: _compare(file, wanted, found)))


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, on the CPU, whatever model they are of.

    Raises:
        WeightsError: for a file that is missing, truncated or of another format.
    """
    return _read(path, lambda _, __: None)


Shapes = Mapping[str, tuple[int, ...]]


def _read(path: str | os.PathLike[str], check: Callable[[Path, Shapes], None]) -> dict[str, Tensor]:
    file = _checked(path)
    try:
        with safe_open(file, framework="pt") as stored:
            names = list(stored.keys())
            check(file, {name: tuple(stored.get_slice(name).get_shape()) for name in names})
            return {name: stored.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise WeightsError(f"{file}: weights must be {SUFFIX}, and this file is none or is damaged: {error}") from error
    except OSError as error:
        raise WeightsError(f"{file}: {error.strerror or error}") from error


def _checked(path: str | os.PathLike[str]) -> Path:
    file = Path(path)
    if file.suffix != SUFFIX:
        raise WeightsError(f"{file}: weights must be {SUFFIX}; a checkpoint of another format can run code when read")
    return file


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.state_dict())


def _compare(file: Path, wanted: Mapping[str, Tensor], found: Shapes) -> None:
    if problem := mismatch({name: tuple(tensor.shape) for name, tensor in wanted.items()}, found):
        raise WeightsError(f"{file}: {problem}")


def mismatch(wanted: Shapes, found: Shapes) -> str | None:
    """Why some tensors are not a model's: names first, then the first shape that differs. None where they are."""
    missing = [name for name in wanted if name not in found]
    unexpected = sorted(name for name in found if name not in wanted)
    if missing or unexpected:
        sides = (("missing", missing), ("unexpected", unexpected))
        return "; ".join(f"{word}: {_listed(names)}" for word, names in sides if names)
    for name, shape in wanted.items():
        if found[name] != shape:
            return f"{name} is {_shape(found[name])}, and the model's is {_shape(shape)}"
    return None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _shape(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))})"
