"""Patches by convolution."""

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import Patching
from vitbench.registry import component


@component(
    reference=True,
    exact=True,
    source="Dosovitskiy et al. 2020, arXiv 2010.11929, §3.1; a convolution in google-research/vision_transformer",
)
class Conv(Patching):
    """A convolution whose kernel and stride are the patch."""

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, N, D)."""
        return F.conv2d(images, self.weight, self.bias, stride=self.patch_size).flatten(2).transpose(1, 2)
