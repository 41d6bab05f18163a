"""Patches by im2col and one matrix product."""

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import Patching, flat_patches
from vitbench.registry import component


@component(
    exact=True,
    source="Chellapilla et al. 2006, High performance convolutional neural networks; torch.nn.Unfold",
)
class Unfold(Patching):
    """Unfold the image into columns (im2col), then a linear layer."""

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, N, D)."""
        return F.linear(flat_patches(images, self.patch_size), self.weight.flatten(1), self.bias)
