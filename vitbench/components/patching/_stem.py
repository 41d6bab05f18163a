"""Stems: layers that look at pixels in the place of patches."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Patching
from vitbench.config.model import ModelSpec


class Stem(Patching):
    """Layers, the last of which gives D channels for each patch, then a 1 × 1 convolution."""

    def __init__(self, spec: ModelSpec, layers: nn.Module) -> None:
        super().__init__(spec)
        self.layers = layers
        self.weight = nn.Parameter(torch.empty(spec.dim, spec.dim, 1, 1))

    def inner_filters(self) -> list[Tensor]:
        """All but those of the first convolution."""
        filters = [module.weight for module in self.layers.modules() if isinstance(module, nn.Conv2d)]
        return [self.weight, *filters[1:]]

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, height · width / P², D)."""
        return F.conv2d(self.layers(images), self.weight, self.bias).flatten(2).transpose(1, 2)


def doubling(patch_size: int, dim: int) -> list[int]:
    """The width after each convolution of stride 2, as many as halve an image down to its patches: ``dim`` the last."""
    halvings = patch_size.bit_length() - 1
    return [dim >> (halvings - 1 - number) for number in range(halvings)]
