"""MLP with GELU."""

from torch.nn import functional as F

from vitbench.components.contracts import MLP
from vitbench.registry import component


@component(source="Hendrycks and Gimpel 2016, arXiv 1606.08415; Dosovitskiy et al. 2020, arXiv 2010.11929, §3.1")
class GELU(MLP):
    """down(gelu(up(x)))."""

    activate = staticmethod(F.gelu)
