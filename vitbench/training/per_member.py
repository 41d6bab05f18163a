"""Logits, gradient norms and clipping by member of an ensemble, along a first axis; a single model is one member."""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from vitbench.model.optimiser import Weight, weights
from vitbench.training.ensemble import Ensemble

Run = Callable[..., Tensor]  # A model as it is called with what it takes, images first


@weights.register
def _(model: Ensemble) -> list[Weight]:
    tensors = dict(zip(model.names, model.weights, strict=True))
    return [Weight(w.name, tensors[w.name], w.decays, w.hidden) for w in weights(model.single)]


def beside(of_members: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape, one a member, along a first axis; of a single member a view, which costs a step nothing."""
    return torch.stack(list(of_members)) if len(of_members) > 1 else of_members[0].unsqueeze(0)


@functools.singledispatch
def logits(model: nn.Module, run: Run, images: Sequence[Tensor]) -> Tensor:
    """Logits (S, B, classes) of each member's own images (B, C, height, width).

    Args:
        model: says what it is made of.
        run: the same model, or its compiled form.
        images: of each member.
    """
    (pixels,) = images
    return run(pixels).unsqueeze(0)


@logits.register
def _(model: Ensemble, run: Run, images: Sequence[Tensor]) -> Tensor:
    return run(beside(images))


@functools.singledispatch
def gradient_norms(model: nn.Module) -> Tensor:
    """The global norm of each member's gradients, (S,)."""
    return nn.utils.get_total_norm(_gradients(model)).unsqueeze(0)


@gradient_norms.register
def _(model: Ensemble) -> Tensor:
    of_each = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in _gradients(model)])
    norms: Tensor = torch.linalg.vector_norm(of_each, dim=0)
    return norms


def _gradients(model: nn.Module) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


@functools.singledispatch
def clip(model: nn.Module, most: float) -> Tensor:
    """Scale each member's gradients down to a global norm of ``most``; the norms before, (S,)."""
    return nn.utils.clip_grad_norm_(model.parameters(), most).unsqueeze(0)


@clip.register
def _(model: Ensemble, most: float) -> Tensor:
    norms = gradient_norms(model)
    scale = (most / (norms + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
    for gradient in _gradients(model):
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
    return norms
