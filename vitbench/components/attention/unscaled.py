"""Attention whose scores are not scaled by the width of a head."""

from typing import Literal

from torch import Tensor

from vitbench.components.attention.batched import Batched
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    options={"divisor": ("one", "model")},
    source="what Vaswani et al. 2017, arXiv 1706.03762, footnote 4, argue against: scores of a variance of K; "
    "divided by the root of the model's width: omihub777/ViT-CIFAR, layers.py, MultiHeadSelfAttention",
)
class Unscaled(Batched):
    """softmax(Q Kᵀ / c) V: scores are not divided by √K, but by 1, or by √D."""

    def __init__(self, spec: ModelSpec, *, divisor: Literal["one", "model"] = "one") -> None:
        super().__init__(spec)
        self.scale = 1.0 if divisor == "one" else spec.dim**-0.5

    def maps(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, H, N, N), with its own divisor."""
        return super().maps(tokens, rotation)
