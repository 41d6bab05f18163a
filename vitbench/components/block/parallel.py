"""The MLP beside attention."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from vitbench.components.contracts import BlockForm, Step, Transform
from vitbench.registry import component


@component(source="Dehghani et al. 2023, ViT-22B, arXiv 2302.05442, §2.1; Wang and Komatsuzaki 2021, GPT-J")
class Parallel(BlockForm):
    """x + attention(norm(x)) + mlp(norm(x)): both sublayers have one norm, one input and one residual."""

    shares_norm = True

    def forward(self, tokens: Tensor, sublayers: Sequence[Transform], step: Step) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        if not sublayers:
            return tokens
        return step(0, tokens, lambda x: functools.reduce(torch.add, [sublayer(x) for sublayer in sublayers]))
