"""Attention by torch's fused kernels."""

import contextlib
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitbench.components.contracts import SelfAttention
from vitbench.environment import has_bfloat16

CPU_HAS_BFLOAT16 = has_bfloat16()


class Fused(SelfAttention):
    """scaled_dot_product_attention, with the backend that torch picks or held to one.

    Training in bfloat16 on a CPU takes torch's plain backend, unless one is named: the backward pass of its flash
    attention is three to six times as slow there. A CPU with instructions for bfloat16 uses them, where that backend
    by itself converts to float32 (docs/training-notes.md, "bfloat16 on a CPU").
    """

    backend: ClassVar[SDPBackend | None] = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K). Raises RuntimeError where a backend that is named is not offered here."""
        bias = self.bias()
        mask = None if bias is None else bias.to(q.dtype)
        slow = self.backend is None and q.device.type == "cpu" and q.dtype == torch.bfloat16 and q.requires_grad
        backend = SDPBackend.MATH if slow else self.backend
        in_bfloat16 = slow and CPU_HAS_BFLOAT16 and not torch.compiler.is_compiling()  # which does not take the setting
        with (
            contextlib.nullcontext() if backend is None else sdpa_kernel(backend),
            _computing_in_bfloat16() if in_bfloat16 else contextlib.nullcontext(),
        ):
            return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.dropout_now, scale=self.scale)


@contextlib.contextmanager
def _computing_in_bfloat16() -> Iterator[None]:
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()  # for CPUs, too, in spite of its place
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)
