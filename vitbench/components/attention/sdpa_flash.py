"""Attention by torch's SDPA, backend FLASH_ATTENTION."""

from torch.nn.attention import SDPBackend

from vitbench.components.attention._fused import Fused
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "qk_norm", "gate", "head_dim"),
    source="torch.nn.attention.SDPBackend.FLASH_ATTENTION; Dao 2023, FlashAttention-2, arXiv 2307.08691",
)
class SDPAFlash(Fused):
    """FlashAttention as torch carries it: FlashAttention-2 on a GPU, its own form on a CPU."""

    backend = SDPBackend.FLASH_ATTENTION
