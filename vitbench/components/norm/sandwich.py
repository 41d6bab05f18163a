"""Norms before and after the sublayer."""

from vitbench.components.norm.pre import Pre
from vitbench.registry import component


@component(source="Ding et al. 2021, CogView, arXiv 2105.13290, §2.4; Kim et al. 2025, Peri-LN, arXiv 2502.02732")
class Sandwich(Pre):
    """x + norm(f(norm(x))), each norm with weights of its own."""

    normalizes_output = True
