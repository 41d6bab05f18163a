"""No norm in the blocks."""

from collections.abc import Callable

from torch import Tensor

from vitbench.components.contracts import Placement, Transform
from vitbench.registry import component


@component(source="the control: He et al. 2015, arXiv 1512.03385, eq. 1, without normalisation")
class NoNorm(Placement):
    """x + f(x)."""

    normalizes = False

    def forward(
        self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return join(tokens, sublayer(tokens))
