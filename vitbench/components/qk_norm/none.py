"""Queries and keys as they are projected."""

from vitbench.components.contracts import QKNorm
from vitbench.registry import component


@component(source="Vaswani et al. 2017, arXiv 1706.03762, §3.2")
class NoQKNorm(QKNorm):
    """q and k."""

    changes = False
