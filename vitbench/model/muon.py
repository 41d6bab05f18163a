"""Muon, batched over all matrices of one shape."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of X, (X Xᵀ) X and (X Xᵀ)² X in a step of the iteration."""

SIZE = 0.2
"""Root mean square of an update at rate 1, as of AdamW's."""

ITERATIONS = 5
LEAST_NORM = 1e-7


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made nearly orthogonal before they are subtracted; weight decay is decoupled.

    An update is scaled by ``SIZE`` · sqrt(max(m, n)). Its learning rate may be a tensor () on the device; a step then
    reads nothing from the host, and can be captured as a CUDA graph.
    The same update as ``torch.optim.Muon(…, adjust_lr_fn="match_rms_adamw")``, which takes one matrix at a time.
    Sources: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv 2502.16982, eq. 4.

    Args:
        params: matrices (m, n), filters (m, in, height, width), whose n is all but m, or stacks of either (S, …).
        lr: learning rate.
        weight_decay: of each step, times the rate.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all matrices that have a gradient."""
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if not moved:
                continue
            gradients = [p.grad for p in moved]
            momenta = [self._momentum(p) for p in moved]
            torch._foreach_lerp_(momenta, gradients, 1.0 - MOMENTUM)
            ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # Nesterov's
            rate = group["lr"]
            torch._foreach_mul_(moved, 1.0 - rate * group["weight_decay"])
            shapes: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
            for index, p in enumerate(moved):
                m, n = sides(p)
                shapes.setdefault((min(m, n), max(m, n)), ([], []))[m > n].append(index)
            changes = list(ahead)
            for shape, (wide, tall) in shapes.items():  # tall ones lie down with the wide ones
                stacks = [ahead[index].reshape(-1, *shape) for index in wide]
                lying = [ahead[index].reshape(-1, *sides(moved[index])).mT for index in tall]
                directions = orthogonal(torch.cat(stacks + lying)).to(ahead[0].dtype)
                ends = sum(map(len, stacks))
                parts = [*directions[:ends].split([len(each) for each in stacks])] if wide else []
                # Of the parameters' own strides: else torch adds them one by one.
                parts += directions[ends:].mT.contiguous().split([len(each) for each in lying]) if tall else []
                for index, part in zip(wide + tall, parts, strict=True):
                    changes[index] = part.view(moved[index].shape)
            sizes = [-SIZE * max(sides(p)) ** 0.5 for p in moved]
            if isinstance(rate, Tensor):
                torch._foreach_mul_(changes, sizes)
                torch._foreach_mul_(changes, rate)
            else:
                torch._foreach_mul_(changes, [size * rate for size in sizes])
            torch._foreach_add_(moved, changes)

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        state: dict[str, Any] = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum_buffer"]
        return momentum


def sides(parameter: Tensor) -> tuple[int, int]:
    """(m, n) of a parameter of :class:`Muon`."""
    m, *rest = parameter.shape[-4:] if parameter.ndim >= 4 else parameter.shape[-2:]
    return m, math.prod(rest)


def orthogonal(matrices: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Matrices U S Vᵀ, (G, m, n), as about U Vᵀ: of singular values from 0.7 to 1.2, by Newton and Schulz's iteration.

    Args:
        matrices: of any scale, m ≤ n: the iteration's products are (m, m).
        dtype: of the iteration and of what it gives.
    """
    x = matrices.to(dtype)
    x = x / torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True).clamp(min=LEAST_NORM)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=third, alpha=fifth), x, beta=first)
    return x
