"""Weights of a model on disk: safetensors alone, since any other checkpoint can be a program (CVE-2025-32434)."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    file = _checked(path)
    wanted = _tensors(model)
    try:
        with safe_open(file, framework="pt") as stored:
            names = list(stored.keys())
            _compare(file, wanted, {name: tuple(stored.get_slice(name).get_shape()) for name in names})
            found: dict[str, Tensor] = {name: stored.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise WeightsError(f"{file}: weights must be {SUFFIX}, and this file is none or is damaged: {error}") from error
    except OSError as error:
        raise WeightsError(f"{file}: {error.strerror or error}") from error
    model.load_state_dict(found)


def _checked(path: str | os.PathLike[str]) -> Path:
    file = Path(path)
    if file.suffix != SUFFIX:
        raise WeightsError(f"{file}: weights must be {SUFFIX}; a checkpoint of another format can run code when read")
    return file


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.state_dict())


def _compare(file: Path, wanted: dict[str, Tensor], found: dict[str, tuple[int, ...]]) -> None:
    """Raise WeightsError unless a file has the model's tensors: names first, then the first shape that differs."""
    missing = [name for name in wanted if name not in found]
    unexpected = sorted(name for name in found if name not in wanted)
    if missing or unexpected:
        sides = (("missing", missing), ("unexpected", unexpected))
        raise WeightsError(f"{file}: {'; '.join(f'{word}: {_listed(names)}' for word, names in sides if names)}")
    for name, tensor in wanted.items():
        if found[name] != tuple(tensor.shape):
            raise WeightsError(f"{file}: {name} is {_shape(found[name])}, and the model's is {_shape(tensor.shape)}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _shape(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))})"
