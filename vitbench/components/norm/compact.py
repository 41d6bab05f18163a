"""Norms as Compact Transformers place them."""

from torch import Tensor

from vitbench.components.contracts import Join, Placement, Transform
from vitbench.registry import component


@component(source="SHI-Labs/Compact-Transformers, src/utils/transformers.py, TransformerEncoderLayer")
class Compact(Placement):
    """x + f(norm(x)) at attention; y + f(y) with y = norm(x) at the MLP, so that this norm is on the residual path."""

    def forward(self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Join) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        normed = norm(tokens)
        return join(normed if self.sublayer == "mlp" else tokens, sublayer(normed))
