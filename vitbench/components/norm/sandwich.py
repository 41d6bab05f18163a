"""Norms before and after the sublayer."""

from collections.abc import Callable

from torch import Tensor

from vitbench.components.contracts import Placement, Transform
from vitbench.registry import component


@component(source="Ding et al. 2021, CogView, arXiv 2105.13290, §2.4; Kim et al. 2025, Peri-LN, arXiv 2502.02732")
class Sandwich(Placement):
    """x + norm(f(norm(x))), each norm with weights of its own."""

    normalizes_output = True

    def forward(
        self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return join(tokens, sublayer(norm(tokens)))
