"""Parameters and floating-point operations of a model, counted without running it."""

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.model.build import network


def parameters(model: nn.Module) -> int:
    """Number of trainable values."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def parameters_of(spec: ModelSpec) -> int:
    """Number of trainable values of a model that is not built in memory: on the ``meta`` device."""
    with torch.device("meta"):
        return parameters(network(spec))


def forward_flops(spec: ModelSpec, *, training: bool = False) -> int:
    """Floating-point operations of one image's forward pass; see :func:`flops_by_module`."""
    return flops_by_module(spec, training=training)[""]


def flops_of_call(module: nn.Module, *inputs: Tensor) -> dict[str, int]:
    """Path of a module in one that is called → floating-point operations in it, ``""`` for all; of products alone."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*inputs)
    flops = {path.partition(".")[2]: int(sum(each.values())) for path, each in counter.get_flop_counts().items()}
    return {**flops, "": int(counter.get_total_flops())}


def flops_by_module(spec: ModelSpec, *, training: bool = False) -> dict[str, int]:
    """Path of a module → floating-point operations of one image in it, ``""`` for all; a multiply-add counts two.

    Counts the function, not the implementation: exact components are counted as their slot's reference, on the
    ``meta`` device, because the counter sees nothing inside a fused CPU kernel. Products only (linear layers,
    convolutions, attention), as is the field's habit; softmax, norms and activations are left out. In training the
    blocks go without the patches that ``patch_drop`` leaves out.
    """
    with torch.device("meta"):
        model = network(spec.reference()).train(training and spec.patch_drop > 0).requires_grad_(False)
        images = torch.empty(1, spec.channels, *pair(spec.image_size))
    return flops_of_call(model, images)
