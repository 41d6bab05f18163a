"""Attention by the flash-attn package. Written from its documentation: not measured yet."""

from torch import Tensor

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "head_dim"),
    devices=("cuda",),
    dtypes=("float16", "bfloat16"),
    packages=("flash_attn",),
    among={"head_width": (16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256)},
    vmap=False,
    source="Dao-AILab/flash-attention, flash_attn_interface.py; Dao 2023, FlashAttention-2, arXiv 2307.08691",
)
class FlashAttn(SelfAttention):
    """FlashAttention-2 by its own package; q, k and v are read where they were projected unless turned or normed."""

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, 3HK) → (B, N, HK)."""
        from flash_attn import flash_attn_func, flash_attn_qkvpacked_func

        options = {"dropout_p": self.dropout_now, "softmax_scale": self.scale}
        if rotation is None and not self.q_norm.changes:
            packed = qkv.unflatten(-1, (3, self.heads, self.head_width))
            out: Tensor = flash_attn_qkvpacked_func(packed, **options)
        else:
            q, k, v = (each.transpose(1, 2) for each in self.split(qkv, rotation))
            out = flash_attn_func(q, k, v, **options)
        return out.flatten(2)
