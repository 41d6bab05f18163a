"""PyTorch itself, operation by operation."""

from vitbench.components.contracts import Runtime
from vitbench.registry import component


@component(exact=True, reference=True, source="Paszke et al. 2019, PyTorch, arXiv 1912.01703")
class Eager(Runtime):
    """PyTorch as it is, one operation after the other."""
