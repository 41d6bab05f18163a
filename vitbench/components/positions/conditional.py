"""Positions by a convolution."""

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Positions
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    flops={"pd": 18},
    every_patch=True,
    source="Chu et al. 2021, CPVT, arXiv 2102.10882, §3.2, before the first block; timm/models/twins.py, PosConv",
)
class Conditional(Positions):
    """A depthwise 3 × 3 convolution of the patches is added to them; what is beyond the edge is zero."""

    of_tokens = True

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.grid, self.first = spec.grid, spec.pooled_prefix
        self.conv = nn.Conv2d(spec.dim, spec.dim, 3, padding=1, groups=spec.dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        first, patches = tokens.tensor_split([self.first], dim=1)
        grid = patches.transpose(1, 2).unflatten(2, self.grid)
        return torch.cat((first, patches + self.conv(grid).flatten(2).transpose(1, 2)), dim=1)
