"""Norm of the sublayer's output."""

from torch import Tensor

from vitbench.components.contracts import Join, Placement, Transform
from vitbench.registry import component


@component(source="Liu et al. 2021, Swin Transformer V2, arXiv 2111.09883, fig. 1")
class ResPost(Placement):
    """x + norm(f(x))."""

    def forward(self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Join) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return join(tokens, norm(sublayer(tokens)))
