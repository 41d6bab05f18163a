"""Attention by one of torch's fused kernels, named."""

from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitbench.components.contracts import SelfAttention


class OneBackend(SelfAttention):
    """scaled_dot_product_attention held to one backend: where that has no kernel for the inputs, torch raises."""

    backend: ClassVar[SDPBackend]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K). Raises RuntimeError where the backend is not offered here."""
        bias = self.bias()
        mask = None if bias is None else bias.to(q.dtype)
        with sdpa_kernel(self.backend):
            return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.dropout_now, scale=self.scale)
