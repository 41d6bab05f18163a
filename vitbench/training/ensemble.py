"""Ensemble: several seeds of a cell trained as one program.

Their parameters lie in one tensor each, models first, and torch.vmap runs them side by side. A product of a batch and a
matrix becomes one of S batches and S matrices; attention, which has no parameters, sees S times the batch. So a small
model fills the device that it alone would leave idle, and S of them cost the host no more than one.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from vitbench.components.contracts import SelfAttention

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


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
        weights, buffers = stack_module_state(list(models))
        self.names, self.buffer_names = tuple(weights), tuple(buffers)
        # A module's own names may not hold dots.
        self.weights = nn.ParameterList([nn.Parameter(weights[name].detach()) for name in self.names])
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
