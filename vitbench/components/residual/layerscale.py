"""LayerScale."""

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Residual
from vitbench.config.model import ModelSpec
from vitbench.registry import component

START = 1e-4
"""The published value up to depth 18 is 0.1, 1e-5 to depth 24, 1e-6 beyond; 1e-4 is that of ViTs since DeiT III."""


@component(
    source="Touvron et al. 2021, CaiT, arXiv 2103.17239, eq. 4; start 1e-4, Touvron et al. 2022, arXiv 2204.07118"
)
class LayerScale(Residual):
    """x + λ f(x), a learned λ for each channel, 1e-4 at the start."""

    constants = (("scale", START),)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.scale = nn.Parameter(torch.empty(spec.dim))

    def forward(self, tokens: Tensor, output: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + self.scale * output
