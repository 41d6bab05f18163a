"""Starting weights of a model: a file of vitbench's or timm's, or what timm downloads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from vitbench.data import catalog
from vitbench.model.timm_weights import load_timm
from vitbench.model.vit import VisionTransformer
from vitbench.model.weights import SUFFIX, WeightsError, mismatch, read_weights, save_weights
from vitbench.spec.recipe import CONTENT, OF_TIMM


def load_start(model: VisionTransformer, source: str) -> None:
    """Copy weights into a model; its head stays as it is where theirs tells other classes.

    Args:
        model: as built.
        source: ``FILE.safetensors``, as it is in a recipe with the digest of its content, or ``timm:NAME``.

    Raises:
        WeightsError: where they are not there, are of another model, or are others than those that were planned with.
    """
    name = source.removeprefix(OF_TIMM)
    tensors = _from_timm(name) if name != source else _from_file(source)
    classes = tensors.get("head.bias")
    head = classes is not None and len(classes) == model.spec.num_classes
    try:
        _own(model, tensors, head=head) if _is_ours(model, tensors) else load_timm(model, tensors, head=head)
    except WeightsError as error:
        raise WeightsError(f"{source.partition(CONTENT)[0]}: {error}") from error


HEADS = ("head.", "teacher_head.")
"""How names of tensors begin that tell classes."""


def _is_ours(model: VisionTransformer, tensors: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of our models: timm's have only the head's in common with them."""
    return any(name in tensors for name in model.state_dict() if not name.startswith(HEADS))


def _own(model: VisionTransformer, tensors: Mapping[str, Tensor], *, head: bool) -> None:
    mine = model.state_dict()
    wanted, found = (
        {name: tensor for name, tensor in each.items() if head or not name.startswith(HEADS)}
        for each in (mine, tensors)
    )
    shapes = ({name: tuple(tensor.shape) for name, tensor in each.items()} for each in (wanted, found))
    if problem := mismatch(*shapes):
        raise WeightsError(problem)
    model.load_state_dict({**mine, **found})


def _from_file(source: str) -> dict[str, Tensor]:
    path, _, digest = source.partition(CONTENT)
    tensors = read_weights(path)
    if digest and not hashlib.sha256(Path(path).read_bytes()).hexdigest().startswith(digest):
        raise WeightsError(f"{path}: its content is not that of the plan ({digest}): it was changed since")
    return tensors


def _from_timm(name: str) -> dict[str, Tensor]:
    """From the data folder; downloaded into it first where they are not there."""
    local = catalog.root() / "weights" / f"{name}{SUFFIX}"
    if not local.exists():
        instead = f"or put a file of its weights at {local}"
        try:
            import timm
        except ImportError as error:
            raise WeightsError(f"{OF_TIMM}{name}: timm is not installed: pip install timm, {instead}") from error
        try:
            theirs = timm.create_model(name, pretrained=True)
        except Exception as error:  # whatever timm, its hub or the network raise
            why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
            raise WeightsError(f"{OF_TIMM}{name} cannot be had ({why}): give access to it, {instead}") from error
        local.parent.mkdir(parents=True, exist_ok=True)
        save_weights(theirs, local)
    return read_weights(local)
