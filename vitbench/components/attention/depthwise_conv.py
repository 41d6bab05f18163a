"""A depthwise convolution in the place of attention."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Sublayer
from vitbench.config.model import ModelSpec
from vitbench.registry import component

KERNEL = 5


@component(
    whole=True,
    every_patch=True,
    needs={"pooling": "patches"},
    flops={"pd": 50},
    source="Trockman and Kolter 2022, Patches Are All You Need, arXiv 2201.09792, §2, without its batch norms",
)
class DepthwiseConv(Sublayer):
    """Every channel is convolved by itself over 5 × 5 patches, then GELU; registers take no part."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.grid, self.first = spec.grid, spec.prefix
        self.conv = nn.Conv2d(spec.dim, spec.dim, KERNEL, padding=KERNEL // 2, groups=spec.dim)

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        assert rotation is None, "components that rotate need a feature which this one does not offer"
        first, patches = tokens.tensor_split([self.first], dim=1)
        mixed = F.gelu(self.conv(patches.transpose(1, 2).unflatten(2, self.grid))).flatten(2).transpose(1, 2)
        return torch.cat((torch.zeros_like(first), mixed), dim=1)
