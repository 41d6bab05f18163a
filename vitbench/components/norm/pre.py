"""Norm before the sublayer."""

from torch import Tensor

from vitbench.components.contracts import Join, Placement, Transform
from vitbench.registry import component


@component(source="Xiong et al. 2020, arXiv 2002.04745, fig. 1b; Dosovitskiy et al. 2020, arXiv 2010.11929, eq. 2-3")
class Pre(Placement):
    """x + f(norm(x))."""

    def forward(self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Join) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return join(tokens, sublayer(norm(tokens)))
