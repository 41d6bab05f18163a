"""Fixed waves along the sequence of tokens."""

import torch
from torch import Tensor

from vitbench.components.contracts import Positions
from vitbench.components.positions._waves import angles
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(multiple_of={"dim": 2}, source="Vaswani et al. 2017, arXiv 1706.03762, §3.5")
class Sinusoidal(Positions):
    """Sines and cosines of the token's index, class token first, added to the tokens."""

    table: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        phase = angles(torch.arange(spec.placed), spec.dim // 2)
        # Interleaved as published: even channels are sines, odd ones cosines.
        table = torch.stack((phase.sin(), phase.cos()), dim=-1).flatten(-2)
        self.register_buffer("table", table.to(torch.get_default_dtype())[None], persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + self.table
