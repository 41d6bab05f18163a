"""Attention by torch's SDPA, backend CUDNN_ATTENTION."""

from torch.nn.attention import SDPBackend

from vitbench.components.attention._fused import Fused
from vitbench.registry import component


@component(
    exact=True,
    offers=("rotary", "rotary by head", "qk_norm", "gate", "head_dim"),
    devices=("cuda",),
    dtypes=("float16", "bfloat16"),
    source="torch.nn.attention.SDPBackend.CUDNN_ATTENTION; cuDNN, scaled dot product attention",
)
class SDPACuDNN(Fused):
    """cuDNN's fused attention."""

    backend = SDPBackend.CUDNN_ATTENTION
