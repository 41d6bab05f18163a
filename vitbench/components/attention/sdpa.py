"""Attention by torch's fused kernels, whichever it picks."""

from vitbench.components.attention._fused import Fused
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    source="torch.nn.functional.scaled_dot_product_attention; Dao 2023, FlashAttention-2, arXiv 2307.08691",
)
class SDPA(Fused):
    """torch's scaled_dot_product_attention."""
