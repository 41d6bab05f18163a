"""MLP with squared ReLU."""

from torch.nn import functional as F

from vitbench.components.contracts import MLP
from vitbench.registry import component


@component(source="So et al. 2021, Primer, arXiv 2109.08668, §4")
class SquaredReLU(MLP):
    """down(relu(up(x))²)."""

    activate = staticmethod(lambda hidden: F.relu(hidden).square())
