"""Patches by rearranging pixels and one matrix product."""

from einops import rearrange
from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import Patching
from vitbench.registry import component


@component(exact=True, packages=("einops",), source="lucidrains/vit-pytorch, vit_pytorch/vit.py, without its norms")
class Einops(Patching):
    """Rearrange each patch into a row, then a linear layer."""

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, N, D)."""
        p, q = self.patch_size
        rows = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=p, q=q)
        return F.linear(rows, self.weight.flatten(1), self.bias)
