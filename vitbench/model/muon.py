"""Muon, batched over matrices of like shapes."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vitbench.environment import has_bfloat16

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Of X, (X Xᵀ) X and (X Xᵀ)² X in a step of the iteration
SIZE = 0.2  # Root mean square of an update at rate 1, as of AdamW's
ITERATIONS = 5
LEAST_NORM = 1e-7

Shape = tuple[int, int]

WORTH_OF_A_STACK: dict[str, float] = {"cuda": 1e10}
"""Type of device → floating-point operations that it does in the time of one stack's launches. Others pad nothing.

By arithmetic: 18 launches of 3.6 µs in a CUDA graph on an H200 (docs/training-notes.md), at a sixth of its peak.
"""


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
        self._made: dict[tuple[torch.Size, ...], Stacks] = {}

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
            changes = self._stacks(moved).directions(ahead)
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

    def _stacks(self, moved: Sequence[Tensor]) -> "Stacks":
        key = tuple(p.shape for p in moved)
        if key not in self._made:
            self._made[key] = Stacks(moved)
        return self._made[key]


class Stacks:
    """Matrices of many shapes as few stacks, for each of which the iteration is launched once.

    Matrices that are taller than wide are transposed. Where a stack holds several shapes, smaller matrices are padded
    with zeros, which stay zeros and change nothing else. The iteration runs in bfloat16; on a CPU without instructions
    for bfloat16, in float32.

    Args:
        tensors: parameters of :class:`Muon`, or others of their shapes on the same device.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        device, self.numbers = tensors[0].device, [each.numel() for each in tensors]
        total = sum(self.numbers)
        # Indices of elements in the tensors laid end to end; a zero follows them, at index ``total``.
        places: dict[Shape, list[Tensor]] = {}
        numbered = torch.arange(total, dtype=torch.int32, device=device)
        for each, own in zip(tensors, numbered.split(self.numbers), strict=True):
            m, n = sides(each)
            matrices = own.view(-1, m, n)
            places.setdefault((min(m, n), max(m, n)), []).append(matrices if m <= n else matrices.mT)
        shapes = {shape: torch.cat(parts) for shape, parts in places.items()}
        counts = {shape: len(matrices) for shape, matrices in shapes.items()}
        stacks: list[Tensor] = []
        for members in shared_stacks(counts, WORTH_OF_A_STACK.get(device.type, 0.0)):
            m, n = around(members)
            filled = [nn.functional.pad(shapes[s], (0, n - s[1], 0, m - s[0]), value=total) for s in members]
            stacks.append(torch.cat(filled))
        self.into = torch.cat([stack.flatten() for stack in stacks])
        back = self.into.new_empty(total + 1)
        back[self.into.long()] = torch.arange(len(self.into), dtype=torch.int32, device=device)
        self.back = back[:total]
        self.shapes = [stack.shape for stack in stacks]
        self.zero = tensors[0].new_zeros(1)
        slow = device.type == "cpu" and not has_bfloat16()
        self.dtype = torch.float32 if slow else torch.bfloat16

    def directions(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Direction of each tensor (:func:`orthogonal`), of its shape and type, and contiguous."""
        flat = torch.cat([*(each.reshape(-1) for each in tensors), self.zero])
        filled = flat.to(self.dtype).index_select(0, self.into).split([shape.numel() for shape in self.shapes])
        stacks = [orthogonal(each.view(shape)).flatten() for each, shape in zip(filled, self.shapes, strict=True)]
        parts = torch.cat(stacks).index_select(0, self.back).to(flat.dtype).split(self.numbers)
        return [part.view(each.shape) for part, each in zip(parts, tensors, strict=True)]


def shared_stacks(counts: Mapping[Shape, int], worth: float) -> list[tuple[Shape, ...]]:
    """Shapes of each stack: two stacks become one, the cheapest first, where padding costs no more than ``worth``.

    Args:
        counts: (m, n), m ≤ n → matrices of that shape.
        worth: floating-point operations.
    """
    stacks: list[tuple[Shape, ...]] = [(shape,) for shape in counts]

    def operations(shapes: tuple[Shape, ...]) -> int:
        m, n = around(shapes)
        return ITERATIONS * sum(counts[shape] for shape in shapes) * 2 * m * m * (2 * n + m)

    while len(stacks) > 1:
        zeros, one, other = min(
            (operations(one + other) - operations(one) - operations(other), one, other)
            for one, other in itertools.combinations(stacks, 2)
        )
        if zeros > worth:
            break
        stacks = [each for each in stacks if each not in (one, other)] + [one + other]
    return stacks


def around(shapes: Iterable[Shape]) -> Shape:
    """The smallest (m, n) that all of them fit into."""
    m, n = zip(*shapes, strict=True)
    return max(m), max(n)


def sides(parameter: Tensor) -> tuple[int, int]:
    """(m, n) of a parameter of :class:`Muon`."""
    m, *rest = parameter.shape[-4:] if parameter.ndim >= 4 else parameter.shape[-2:]
    return m, math.prod(rest)


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices U S Vᵀ, (G, m, n), as about U Vᵀ: of singular values from 0.7 to 1.2, by Newton and Schulz's iteration.

    Args:
        matrices: of any scale, m ≤ n: the iteration's products are (m, m). Their type is the iteration's.
    """
    x: Tensor = matrices / torch.linalg.vector_norm(matrices, dim=(-2, -1), keepdim=True).clamp(min=LEAST_NORM)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=third, alpha=fifth), x, beta=first)
    return x
