"""No norm in the blocks."""

from torch import Tensor

from vitbench.components.contracts import Join, Placement, Transform
from vitbench.registry import component


@component(source="the control: He et al. 2015, arXiv 1512.03385, eq. 1, without normalisation")
class NoNorm(Placement):
    """x + f(x)."""

    normalizes = False

    def forward(self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Join) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return join(tokens, sublayer(tokens))
