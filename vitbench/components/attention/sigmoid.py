"""Attention by sigmoids."""

import math

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    source="Ramapuram et al. 2024, Sigmoid Self-Attention, arXiv 2409.04431, eq. 3",
)
class Sigmoid(SelfAttention):
    """σ(Q Kᵀ / √K - log N) V: weights need not sum to one; at zero scores they nearly do."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        return F.dropout((self.scores(q, k) - math.log(k.shape[-2])).sigmoid(), self.dropout_now) @ v
