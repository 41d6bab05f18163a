"""No MLP."""

from vitbench.components.contracts import Sublayer
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(empty=True, source="the control: attention-only blocks, Dong et al. 2021, arXiv 2103.03404")
class NoMLP(Sublayer):
    """The block has no MLP sublayer."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
