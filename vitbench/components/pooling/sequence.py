"""Sequence pooling."""

from torch import Tensor, nn

from vitbench.components.contracts import Pooling
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("patches",),
    flops={"nd": 4},
    source="Hassani et al. 2021, Escaping the Big Data Paradigm with Compact Transformers, arXiv 2104.05704, §3.2",
)
class SequencePooling(Pooling):
    """softmax(x w + b)ᵀ x: a mean of the tokens, each with a weight that it gives itself; no class token."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.score = nn.Linear(spec.dim, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, D)."""
        return (self.shares(tokens).unsqueeze(1) @ tokens).squeeze(1)

    def shares(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N)."""
        weights: Tensor = self.score(tokens).softmax(dim=1)
        return weights.squeeze(-1)
