"""Differential attention."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("dropout", "gate", "head_dim"),
    multiple_of={"head_width": 2},
    flops={"ndi": 8, "nni": 6},
    source="Ye et al. 2024, Differential Transformer, arXiv 2410.05258, eq. 1 to 3; microsoft/unilm, Diff-Transformer, "
    "multihead_diffattn.py",
)
class Differential(SelfAttention):
    """The difference of two attentions, each of half of a head's queries and keys: (A₁ - λ A₂) V, then an RMS norm.

    λ is learned, exp(λq₁ · λk₁) - exp(λq₂ · λk₂) + λ₀, and λ₀ = 0.8 - 0.6 exp(-0.3 l) in block l = 0, 1, …; heads are
    scaled by 1 - λ₀. The paper has half as many heads, of twice the width, as the Transformer beside it.
    """

    token_tables = ("lambdas",)
    spreads = (("lambdas", 0.1),)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.scale = (spec.head_width // 2) ** -0.5
        self.lambdas = nn.Parameter(torch.empty(4, spec.head_width // 2))  # q₁, k₁, q₂, k₂
        self.norm = nn.RMSNorm(spec.head_width, eps=1e-5)

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, 3HK) → (B, N, HK)."""
        assert rotation is None, "components that rotate need a feature which this one does not offer"
        q, k, v = self.split(qkv, rotation)
        (q1, q2), (k1, k2) = q.chunk(2, dim=-1), k.chunk(2, dim=-1)
        lq1, lk1, lq2, lk2 = self.lambdas
        start = 0.8 - 0.6 * math.exp(-0.3 * self.block)
        weight = (lq1 @ lk1).exp() - (lq2 @ lk2).exp() + start
        mixed = self._weights(q1, k1) @ v - weight * (self._weights(q2, k2) @ v)
        normed: Tensor = self.norm(mixed).to(v.dtype)  # autocast gives float32
        return (normed * (1.0 - start)).transpose(1, 2).flatten(2)

    def _weights(self, q: Tensor, k: Tensor) -> Tensor:
        return F.dropout(self.scores(q, k).softmax(dim=-1), self.dropout_now)
