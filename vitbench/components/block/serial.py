"""The MLP after attention."""

from collections.abc import Sequence

from torch import Tensor

from vitbench.components.contracts import BlockForm, Step, Transform
from vitbench.registry import component


@component(source="Vaswani et al. 2017, arXiv 1706.03762, §3.1; Dosovitskiy et al. 2020, arXiv 2010.11929, eq. 2-3")
class Serial(BlockForm):
    """Attention, then the MLP on what came of it, each with its norm and residual."""

    def forward(self, tokens: Tensor, sublayers: Sequence[Transform], step: Step) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        for number, sublayer in enumerate(sublayers):
            tokens = step(number, tokens, sublayer)
        return tokens
