"""MLP with ReLU."""

from torch.nn import functional as F

from vitbench.components.contracts import MLP
from vitbench.registry import component


@component(source="Vaswani et al. 2017, arXiv 1706.03762, §3.3")
class ReLU(MLP):
    """down(relu(up(x)))."""

    activate = staticmethod(F.relu)
