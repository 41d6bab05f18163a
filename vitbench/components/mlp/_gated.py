"""Gated MLPs: what they share."""

from torch import Tensor, nn

from vitbench.components.contracts import Sublayer
from vitbench.config.model import ModelSpec


class GatedMLP(Sublayer):
    """down(activate(gate(x)) * up(x)), two thirds as wide, so that three matrices hold what two did.

    Source: Shazeer 2020, arXiv 2002.05202, eq. 5 and 6; width as in facebookresearch/dinov2, swiglu_ffn.py: a multiple
    of 8.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        hidden = (int(spec.hidden * 2 / 3) + 7) // 8 * 8
        self.gate = nn.Linear(spec.dim, hidden)
        self.up = nn.Linear(spec.dim, hidden)
        self.down = nn.Linear(hidden, spec.dim)
        self.dropout = nn.Dropout(spec.dropout)

    def activate(self, gate: Tensor, /) -> Tensor:
        """The activation function of the gate."""
        raise NotImplementedError

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        hidden = self.dropout(self.activate(self.gate(tokens)) * self.up(tokens))
        out: Tensor = self.dropout(self.down(hidden))
        return out
