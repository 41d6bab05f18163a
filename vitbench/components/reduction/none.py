"""No reduction."""

from vitbench.components.contracts import Reduction
from vitbench.registry import component


@component(empty=True, source="Dosovitskiy et al. 2020, arXiv 2010.11929")
class NoReduction(Reduction):
    """Every block gets all tokens."""
