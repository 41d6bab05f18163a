"""Grouped-query attention."""

from torch import Tensor, nn

from vitbench.components.attention._fused import Fused
from vitbench.components.contracts import rotate
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("rotary", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    multiple_of={"heads": "kv_heads"},
    options={"kv_heads": (1, 1, 1024)},
    flops={"ndi": 4, "ndk(kv_heads)": 4, "nni": 4},
    source="Ainslie et al. 2023, GQA, arXiv 2305.13245, §2.2; one for all heads: Shazeer 2019, arXiv 1911.02150",
)
class Grouped(Fused):
    """``kv_heads`` heads of keys and values, each for as many heads of queries; 1 is multi-query attention."""

    def __init__(self, spec: ModelSpec, *, kv_heads: int = 1) -> None:
        super().__init__(spec)
        self.kv_heads = kv_heads
        self.qkv = nn.Linear(spec.dim, spec.heads_width + 2 * kv_heads * spec.head_width, bias=spec.qkv_bias)

    def split(self, qkv: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, HK + 2 · kv_heads · K) → queries, keys and values, (B, H, N, K) each."""
        heads = self.heads, self.kv_heads, self.kv_heads
        parts = qkv.split([each * self.head_width for each in heads], dim=-1)
        q, k, v = (part.unflatten(-1, (each, -1)).transpose(1, 2) for part, each in zip(parts, heads, strict=True))
        q, k, times = rotate(self.q_norm(q), rotation), rotate(self.k_norm(k), rotation), self.heads // self.kv_heads
        return q, k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
