"""No positions."""

from vitbench.components.contracts import Positions
from vitbench.registry import component


@component(source="the control of Dosovitskiy et al. 2020, arXiv 2010.11929, appendix D.4")
class NoPositions(Positions):
    """The encoder sees a set of patches."""
