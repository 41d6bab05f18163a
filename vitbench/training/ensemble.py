"""Ensemble: several seeds of a cell trained as one program.

Their parameters lie in one tensor each, models first, and torch.vmap runs them side by side. A product of a batch and a
matrix becomes one of S batches and S matrices; attention, which has no parameters, sees S times the batch. So a small
model fills the device that it alone would leave idle, and S of them cost the host no more than one.

Logits, gradient norms and clipping are by member, along a first axis; a single model is one member.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from vitbench.components.contracts import SelfAttention
from vitbench.model.optimiser import Weight, weights

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Run = Callable[..., Tensor]  # A model as it is called with what it takes, images first


class Ensemble(nn.Module):
    """S models of one specification as one.

    Attributes:
        single: one of them, on no device: what is called, with the weights of each handed in.
        names: of the parameters, as each model has them.

    Args:
        models: alike in all but their weights, which are copied.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        stacked, buffers = stack_module_state(list(models))
        self.names, self.buffer_names = tuple(stacked), tuple(buffers)
        # A module's own names may not hold dots.
        self.weights = nn.ParameterList([nn.Parameter(stacked[name].detach()) for name in self.names])
        for index, tensor in enumerate(buffers.values()):
            self.register_buffer(f"buffer_{index}", tensor)
        self._single = [_folding(copy.deepcopy(models[0]))]  # in a list: its weights are not this module's

    @property
    def single(self) -> nn.Module:
        """See above."""
        return self._single[0]

    def forward(self, images: Tensor) -> Tensor:
        """(S, B, C, height, width) → logits (S, B, classes), each model's of its own images."""
        called = self.single.train(self.training)

        def logits_of(tensors: dict[str, Tensor], pixels: Tensor) -> Tensor:
            logits: Tensor = functional_call(called, tensors, (pixels,))
            return logits

        out: Tensor = torch.vmap(logits_of)(self.tensors(), images)
        return out

    def tensors(self) -> dict[str, Tensor]:
        """Name → parameter or buffer of all models, (S, …)."""
        buffers = {name: getattr(self, f"buffer_{index}") for index, name in enumerate(self.buffer_names)}
        return {**dict(zip(self.names, self.weights, strict=True)), **buffers}


class _Folded(torch.autograd.Function):
    """A function of (B, H, N, K) tensors that sees S stacked batches as one of S times the size.

    torch.vmap has no rule for the fused attention of a CPU, and would call it once for each model. Gradients are those
    of the function itself: the rule runs where autograd looks on, and nothing is ever differentiated here.
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(attend: Attend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], attend: Attend, *inputs: Tensor) -> tuple[Tensor, int]:
        """The rule: (S, B, …) → (S · B, …) → (S, B, …)."""
        size = info.batch_size
        folded = [
            (x.unsqueeze(0).expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
            for x, dim in zip(inputs, in_dims[1:], strict=True)
        ]
        return attend(*folded).unflatten(0, (size, -1)), 0


def _folding(module: nn.Module) -> nn.Module:
    """The module, on no device and with all of its attentions folded."""
    for attention in module.modules():
        if isinstance(attention, SelfAttention):
            attention.attend = functools.partial(_Folded.apply, attention.attend)  # type: ignore[method-assign]
    return module.to("meta")


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
