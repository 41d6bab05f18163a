"""Attention by torch's fused kernels, whichever it picks."""

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "dropout", "qk_norm", "gate", "bias"),
    source="torch.nn.functional.scaled_dot_product_attention; Dao 2023, FlashAttention-2, arXiv 2307.08691",
)
class SDPA(SelfAttention):
    """torch's scaled_dot_product_attention."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        bias = self.bias()
        mask = None if bias is None else bias.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.dropout_now, scale=self.scale)
