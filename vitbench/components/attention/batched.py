"""Attention in plain PyTorch, all heads at once."""

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(
    reference=True,
    exact=True,
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    source="Vaswani et al. 2017, arXiv 1706.03762, eq. 1; the eager form of timm/layers/attention.py",
)
class Batched(SelfAttention):
    """One product for q, k and v of all heads; softmax of the whole score matrix."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K), with the (B, H, N, N) scores in memory."""
        probabilities = self.scores(q, k).softmax(dim=-1)
        return F.dropout(probabilities, self.dropout_now) @ v
