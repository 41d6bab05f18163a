"""No attention."""

from vitbench.components.contracts import Sublayer
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(empty=True, source="the control row of the attention ladder: class token and positions only")
class NoAttention(Sublayer):
    """Tokens do not mix: the block has no attention sublayer."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
