"""Tokens by a small convolution that overlaps, as CCT has them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Patching
from vitbench.config.model import ModelSpec
from vitbench.registry import component

BETWEEN = 64  # Channels between two convolutions, as in CCT's own tokenizer


@component(
    among={"patch_size": (2, 4)},
    flops={"pcd": 144, "pcdl": -72, "pc": -18432, "pcl": 18432, "pd": -4608, "pdl": 4608},  # l is 1 or 2 convolutions
    source="Hassani et al. 2021, arXiv 2104.05704, §3.3; SHI-Labs/Compact-Transformers, src/utils/tokenizer.py",
)
class ConvTokenizer(Patching):
    """3 × 3 convolutions without bias, each with ReLU and a 3 × 3 maximum at every second pixel.

    One where patches are 2 × 2 (CCT-7/3x1), two where they are 4 × 4 (CCT-7/3x2).
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        first = self.patch_size[0] == 4
        self.first = nn.Parameter(torch.empty(BETWEEN, spec.channels, 3, 3)) if first else None
        self.weight = nn.Parameter(torch.empty(spec.dim, BETWEEN if first else spec.channels, 3, 3))
        self.bias = None

    def inner_filters(self) -> list[Tensor]:
        """Filters of the second convolution, where there are two."""
        return [] if self.first is None else [self.weight]

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, height · width / P², D)."""
        features = images
        for weight in (self.first, self.weight):
            if weight is not None:
                features = F.relu(F.conv2d(features, weight, padding=1))
                features = F.max_pool2d(features, kernel_size=3, stride=2, padding=1)
        return features.flatten(2).transpose(1, 2)
