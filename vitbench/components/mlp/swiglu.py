"""Gated MLP."""

from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Sublayer
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(source="Shazeer 2020, arXiv 2002.05202; width as in facebookresearch/dinov2, dinov2/layers/swiglu_ffn.py")
class SwiGLU(Sublayer):
    """down(silu(gate(x)) * up(x)), two thirds as wide, so that three matrices hold what two did."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        hidden = (int(spec.hidden * 2 / 3) + 7) // 8 * 8
        self.gate = nn.Linear(spec.dim, hidden)
        self.up = nn.Linear(spec.dim, hidden)
        self.down = nn.Linear(hidden, spec.dim)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        hidden = self.dropout(F.silu(self.gate(tokens)) * self.up(tokens))
        out: Tensor = self.dropout(self.down(hidden))
        return out
