"""Norm after the residual."""

from torch import Tensor

from vitbench.components.contracts import Join, Placement, Transform
from vitbench.registry import component


@component(source="Vaswani et al. 2017, arXiv 1706.03762, §3.1; Xiong et al. 2020, arXiv 2002.04745, fig. 1a")
class Post(Placement):
    """norm(x + f(x))."""

    def forward(self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Join) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return norm(join(tokens, sublayer(tokens)))
