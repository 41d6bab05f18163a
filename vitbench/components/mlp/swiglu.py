"""MLP gated by SiLU."""

from torch.nn import functional as F

from vitbench.components.mlp._gated import GatedMLP
from vitbench.registry import component


@component(
    source="Shazeer 2020, arXiv 2002.05202, eq. 5-6; width as in facebookresearch/dinov2, dinov2/layers/swiglu_ffn.py"
)
class SwiGLU(GatedMLP):
    """down(silu(gate(x)) * up(x)), two thirds as wide, so that three matrices hold what two did."""

    activate = staticmethod(F.silu)
