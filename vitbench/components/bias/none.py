"""Scores as they are."""

from vitbench.components.contracts import Bias
from vitbench.registry import component


@component(source="Vaswani et al. 2017, arXiv 1706.03762, §3.2")
class NoBias(Bias):
    """Nothing is added."""
