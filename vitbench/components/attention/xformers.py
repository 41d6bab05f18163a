"""Attention by the xformers package. Written from its documentation: not measured yet."""

from torch import Tensor

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "head_dim"),
    devices=("cuda",),
    packages=("xformers",),
    among={"head_width": (16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256)},
    vmap=False,
    source="facebookresearch/xformers, xformers.ops.memory_efficient_attention; Rabe and Staats 2021, arXiv 2112.05682",
)
class XFormers(SelfAttention):
    """xformers' memory_efficient_attention, with the kernel that it picks."""

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, 3HK) → (B, N, HK)."""
        from xformers.ops import memory_efficient_attention

        q, k, v = (each.transpose(1, 2) for each in self.split(qkv, rotation))
        out: Tensor = memory_efficient_attention(q, k, v, p=self.dropout_now, scale=self.scale)
        return out.flatten(2)
