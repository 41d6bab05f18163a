"""Attention by our own fused kernel."""

from torch import Tensor

from vitbench.components.contracts import SelfAttention
from vitbench.kernels.attention import fused_attention, fused_attention_packed
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "head_dim"),
    devices=("cuda",),
    packages=("triton",),
    among={"head_width": (16, 32, 64, 80, 96, 128)},
    source="vitbench/kernels/attention.py, after Dao 2023, FlashAttention-2, arXiv 2307.08691",
)
class Triton(SelfAttention):
    """vitbench's fused kernel, forward and backward; the score matrix stays on the chip."""

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, 3HK) → (B, N, HK). The kernel reads q, k, v by their strides and writes heads side by side."""
        if rotation is None and not self.q_norm.changes:
            packed = qkv.unflatten(-1, (3, self.heads, self.head_width))
            return fused_attention_packed(packed, self.scale, dropout=self.dropout_now).flatten(2)
        q, k, v = self.split(qkv, rotation)
        return fused_attention(q, k, v, self.scale, dropout=self.dropout_now).flatten(2)
