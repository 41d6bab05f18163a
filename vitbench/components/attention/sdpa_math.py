"""Attention by torch's SDPA, backend MATH."""

from torch.nn.attention import SDPBackend

from vitbench.components.attention._fused import Fused
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    source="torch.nn.attention.SDPBackend.MATH",
)
class SDPAMath(Fused):
    """torch's own composition of products and a softmax, the scores in memory."""

    backend = SDPBackend.MATH
