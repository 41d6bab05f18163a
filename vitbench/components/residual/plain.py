"""The residual connection as it is."""

from torch import Tensor

from vitbench.components.contracts import Residual
from vitbench.registry import component


@component(source="He et al. 2015, arXiv 1512.03385, eq. 1")
class Plain(Residual):
    """x + f(x)."""

    def forward(self, tokens: Tensor, output: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + output
