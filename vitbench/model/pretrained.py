"""Pretrained weights of a model: a file of vitbench's or timm's, or what timm downloads."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from vitbench import registry
from vitbench.config.architectures import OF_TIMM
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import CONTENT
from vitbench.model import timm_names
from vitbench.model.build import Model, network
from vitbench.model.timm_weights import load_timm
from vitbench.model.vit import VisionTransformer
from vitbench.model.weights import WeightsError, mismatch, read_shapes, read_spec, read_weights, save_weights
from vitbench.store.files import digest

HEADS = ("head.", "teacher_head.")  # How names of tensors begin that tell classes


def load_pretrained(model: Model, source: str, *, head: bool = True) -> None:
    """Copy weights into a model; its head stays as it is where theirs tells other classes.

    Args:
        model: as built.
        source: ``FILE.safetensors``, as it is in a recipe with the digest of its content, or ``timm:NAME``. It is of
            vitbench, or of timm; of a ResNet-18 torchvision's is the same.
        head: whether to copy their head, too, if it has as many classes as the model's.

    Raises:
        WeightsError: where they are not there, are of another model, or are others than those that were planned with.
    """
    name = source.removeprefix(OF_TIMM)
    file = _from_timm(name) if name != source else _from_file(source)
    _take(model, source, read_weights(file), read_spec(file), head=head)


def check_pretrained(spec: ModelSpec, source: str, *, head: bool = True) -> None:
    """Whether a model can start from weights, as far as their file's header tells: nothing of their size is made.

    Args:
        spec: of the model.
        source: see :func:`load_pretrained`. Of weights that are still to be downloaded the heads alone are judged.
        head: see :func:`load_pretrained`.

    Raises:
        WeightsError: see :func:`load_pretrained`; and where timm's model of this name has other heads.
    """
    name = source.removeprefix(OF_TIMM)
    file = Path(source.partition(CONTENT)[0]) if name == source else timm_names.path_of(name)
    if name != source:
        if spec.of_components and (heads := timm_names.heads_of(name)) not in (None, spec.heads):
            raise WeightsError(f"{source}: has {heads} heads, and the model {spec.heads}: another function")
        if not file.exists():
            return
    with torch.device("meta"):
        model = network(spec)
        tensors = {tensor: torch.empty(shape) for tensor, shape in read_shapes(file).items()}
        _take(model, source, tensors, read_spec(file), head=head)


def _take(model: Model, source: str, tensors: Mapping[str, Tensor], spec: ModelSpec | None, *, head: bool) -> None:
    """Copy the tensors of a source into a model, if their own model, as far as it is known, is the same function."""
    # Timm's names have only the head's in common with ours.
    ours = any(name in tensors for name in model.state_dict() if not name.startswith(HEADS))
    if not ours and not isinstance(model, VisionTransformer):
        if model.classifier is None:
            raise WeightsError(
                f'{source}: architecture "{model.spec.architecture}" has several heads, and takes no pretrained weights'
            )
        of_head = f"{model.classifier}."
        tensors = {f"head.{name[len(of_head) :]}" if name.startswith(of_head) else f"body.{name}": tensor
                   for name, tensor in tensors.items()}  # fmt: skip
    head = head and _head_of(tensors) == _head_of(model.state_dict()) != {}
    try:
        if spec is not None and (other := differences(spec, model.spec, head=head)):
            raise WeightsError(f"its weights are of another function: {'; '.join(other)}")
        if isinstance(model, VisionTransformer) and not ours:
            load_timm(model, tensors, head=head)
        else:
            if spec is not None and spec.grid != model.spec.grid and _has_places(model.spec):
                rows, columns = zip(spec.grid, model.spec.grid, strict=True)
                raise WeightsError(
                    f"its patches lie in {rows[0]} × {columns[0]}, the model's in {rows[1]} × {columns[1]}, and "
                    "some of its weights are of places"
                )
            _own(model, tensors, head=head)
    except WeightsError as error:
        raise WeightsError(f"{source.partition(CONTENT)[0]}: {error}") from error


def differences(theirs: ModelSpec, ours: ModelSpec, *, head: bool) -> list[str]:
    """Fields in which two models of the same tensors are other functions, as far as their specs say.

    Args:
        theirs: the model of which the weights are.
        ours: the model that takes them.
        head: whether the head is taken, too, which has learnt from what the pooling gives.
    """
    fields = ["architecture", "heads", *(slot for slot in registry.slots() if head or slot != "pooling")]
    return [
        f"their {field} is {getattr(theirs, field)}, the model's {getattr(ours, field)}"
        for field in fields
        if _function(theirs, field) != _function(ours, field)
    ]


def _has_places(spec: ModelSpec) -> bool:
    """Whether a model has weights for each place of its grid of patches, which grow with the image."""
    height, width = pair(spec.image_size)
    with torch.device("meta"):
        small, large = (network(each).state_dict() for each in
                        (spec, spec.model_copy(update={"image_size": (2 * height, 2 * width)})))  # fmt: skip
    return any(tensor.shape != large[name].shape for name, tensor in small.items())


def _function(spec: ModelSpec, field: str) -> object:
    """A field's value; an exact component is its slot's reference."""
    value = getattr(spec, field)
    if field in registry.slots() and value in registry.names(field) and registry.facts(field, value).exact:
        return registry.reference(field)
    return value


def _head_of(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Shapes of a head's tensors by their names, which tell its classes and its form."""
    return {name: tensor.shape for name, tensor in tensors.items() if name.startswith("head.")}


def _own(model: Model, tensors: Mapping[str, Tensor], *, head: bool) -> None:
    state = model.state_dict()
    wanted, given = (
        {name: tensor for name, tensor in each.items() if head or not name.startswith(HEADS)}
        for each in (state, tensors)
    )
    shapes = ({name: tuple(tensor.shape) for name, tensor in each.items()} for each in (wanted, given))
    if problem := mismatch(*shapes):
        raise WeightsError(problem)
    model.load_state_dict({**state, **given})


def _from_file(source: str) -> Path:
    path, _, planned = source.partition(CONTENT)
    file = Path(path)
    if planned and file.is_file() and not digest(file).startswith(planned):
        raise WeightsError(f"{path}: its content is not that of the plan ({planned}): it was changed since")
    return file


def _from_timm(name: str) -> Path:
    """File of timm's weights in the data folder; downloaded into it first where it is not there."""
    local = timm_names.path_of(name)
    if not local.exists():
        if problem := timm_names.problem(name):
            raise WeightsError(f"{OF_TIMM}{name}: {problem}")
        import timm

        try:
            theirs = timm.create_model(name, pretrained=True)
        except Exception as error:  # whatever timm, its hub or the network raise
            why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
            instead = timm_names.instead_of(name)
            raise WeightsError(f"{OF_TIMM}{name} cannot be had ({why}): give access to it, {instead}") from error
        local.parent.mkdir(parents=True, exist_ok=True)
        save_weights(theirs, local)
    return local
