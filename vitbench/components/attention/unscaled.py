"""Attention without a scale."""

from torch import Tensor

from vitbench.components.attention.batched import Batched
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    source="what Vaswani et al. 2017, arXiv 1706.03762, footnote 4, argue against: scores of a variance of K",
)
class Unscaled(Batched):
    """softmax(Q Kᵀ) V: scores are not divided by √K."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.scale = 1.0

    def maps(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, H, N, N), without the scale."""
        return super().maps(tokens, rotation)
