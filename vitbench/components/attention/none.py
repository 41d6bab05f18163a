"""No attention."""

from vitbench.components.contracts import SpecModule, Sublayer
from vitbench.registry import component


@component(empty=True, source="the control row of the attention ladder: class token and positions only")
class NoAttention(SpecModule, Sublayer):
    """Tokens do not mix: the block has no attention sublayer."""
