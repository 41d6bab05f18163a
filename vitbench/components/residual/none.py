"""No residual connection."""

from torch import Tensor

from vitbench.components.contracts import Residual
from vitbench.registry import component


@component(source="the control of the attention ladder; Dong et al. 2021, arXiv 2103.03404")
class NoResidual(Residual):
    """f(x)."""

    passes = False

    def forward(self, tokens: Tensor, output: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return output
