"""ReZero."""

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Residual
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(source='Bachlechner et al. 2020, arXiv 2003.04887, eq. 2; its authors leave out the norms: norm = "none"')
class ReZero(Residual):
    """x + α f(x), one learned α for each sublayer, 0 at the start."""

    constants = (("alpha", 0.0),)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.alpha = nn.Parameter(torch.empty(1))

    def forward(self, tokens: Tensor, output: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + self.alpha * output
