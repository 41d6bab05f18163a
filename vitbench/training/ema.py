"""EMA: exponential moving average of a model's weights, evaluated in place of the last weights."""

import copy

import torch
from torch import Tensor, nn

from vitbench.devices import copy_all


class Ema:
    """Exponential moving average of parameters.

    After step t (from 0) it moves by 1 - min(decay, (1 + t) / (10 + t)) of the way to the model, so that a short run is
    not mostly its initial weights.

    Args:
        module: on its device; copied. Buffers (of batch norms) are those of its last step.
        decay: between 0 and 1; 0.999 averages over some thousand steps.

    Sources: Polyak and Juditsky 1992; the schedule is TensorFlow's ExponentialMovingAverage with ``num_updates``, and
    that of timm's ModelEmaV3 in kind.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.module = copy.deepcopy(module).requires_grad_(requires_grad=False)

    def share(self, step: int) -> float:
        """By how much of the way it moves after a step, counted from 0."""
        return 1.0 - min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, module: nn.Module, share: float | Tensor) -> None:
        """Take in the weights after a step, by its :meth:`share`; a tensor () where the device knows it alone."""
        means, weights = ([p.detach() for p in each.parameters()] for each in (self.module, module))
        if isinstance(share, Tensor):  # torch interpolates many tensors at once by a number alone
            way = list(torch._foreach_sub(weights, means))
            torch._foreach_mul_(way, share)
            torch._foreach_add_(means, way)
        else:
            torch._foreach_lerp_(means, weights, share)
        copy_all(zip(self.module.buffers(), module.buffers(), strict=True))
