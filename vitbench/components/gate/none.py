"""Attention's output as it is."""

from vitbench.components.contracts import Gate
from vitbench.registry import component


@component(source="Vaswani et al. 2017, arXiv 1706.03762, §3.2")
class NoGate(Gate):
    """The heads' outputs."""
