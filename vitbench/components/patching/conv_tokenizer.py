"""Tokens by a small convolution that overlaps, as CCT has them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Patching
from vitbench.registry import component
from vitbench.spec.model import ModelSpec


@component(
    among={"patch_size": (2,)},
    source="Hassani et al. 2021, arXiv 2104.05704, §3.3; SHI-Labs/Compact-Transformers, src/utils/tokenizer.py (3x1)",
)
class ConvTokenizer(Patching):
    """A 3 × 3 convolution without bias, ReLU, and a 3 × 3 maximum at every second pixel."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.weight = nn.Parameter(torch.empty(spec.dim, spec.channels, 3, 3))
        self.bias = None

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, height · width / 4, D)."""
        features = F.relu(F.conv2d(images, self.weight, padding=1))
        return F.max_pool2d(features, kernel_size=3, stride=self.patch_size, padding=1).flatten(2).transpose(1, 2)
