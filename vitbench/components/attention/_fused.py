"""Attention by torch's fused kernels."""

import contextlib
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitbench.components.contracts import SelfAttention


class Fused(SelfAttention):
    """scaled_dot_product_attention, with the backend that torch picks or held to one.

    Training in bfloat16 on a CPU takes torch's plain backend, unless one is named: the backward pass of its flash
    attention is three to five times as slow there (docs/training-notes.md, "bfloat16 on a CPU").
    """

    backend: ClassVar[SDPBackend | None] = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K). Raises RuntimeError where a backend that is named is not offered here."""
        bias = self.bias()
        mask = None if bias is None else bias.to(q.dtype)
        slow = q.device.type == "cpu" and q.dtype == torch.bfloat16 and q.requires_grad
        backend = SDPBackend.MATH if slow and self.backend is None else self.backend
        with contextlib.nullcontext() if backend is None else sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.dropout_now, scale=self.scale)
