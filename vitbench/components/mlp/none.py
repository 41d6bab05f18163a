"""No MLP."""

from vitbench.components.contracts import SpecModule, Sublayer
from vitbench.registry import component


@component(empty=True, source="the control: attention-only blocks, Dong et al. 2021, arXiv 2103.03404")
class NoMLP(SpecModule, Sublayer):
    """The block has no MLP sublayer."""
