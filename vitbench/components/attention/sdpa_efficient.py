"""Attention by torch's SDPA, backend EFFICIENT_ATTENTION."""

from torch.nn.attention import SDPBackend

from vitbench.components.attention._fused import Fused
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "qk_norm", "gate", "head_dim"),
    devices=("cuda",),
    source="torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION; Rabe and Staats 2021, arXiv 2112.05682; xFormers",
)
class SDPAEfficient(Fused):
    """xFormers' memory-efficient attention as torch carries it."""

    backend = SDPBackend.EFFICIENT_ATTENTION
