"""Pooling by the mean."""

from torch import Tensor

from vitbench.components.contracts import Pooling
from vitbench.registry import component


@component(offers=("patches",), source="Beyer et al. 2022, arXiv 2205.01580; Zhai et al. 2021, arXiv 2106.04560, §3.3")
class Mean(Pooling):
    """The mean of the patches' outputs; no class token."""

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, D)."""
        return tokens.mean(dim=1)

    def shares(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N)."""
        return tokens.new_full(tokens.shape[:2], 1.0 / tokens.shape[1])
