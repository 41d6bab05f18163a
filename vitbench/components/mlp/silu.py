"""MLP with SiLU."""

from torch.nn import functional as F

from vitbench.components.contracts import MLP
from vitbench.registry import component


@component(source="Elfwing et al. 2017, arXiv 1702.03118; Ramachandran et al. 2017, Swish, arXiv 1710.05941")
class SiLU(MLP):
    """down(silu(up(x)))."""

    activate = staticmethod(F.silu)
