"""Patches with LayerNorm before and after the projection."""

from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Patching
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    packages=("einops",),
    source="Kumar et al. 2023, Dual PatchNorm, arXiv 2302.01327; lucidrains/vit-pytorch, vit.py",
)
class EinopsLayerNorm(Patching):
    """Rearrange each patch into a row, LayerNorm, a linear layer, LayerNorm."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.patch_norm = nn.LayerNorm(spec.channels * self.patch_size[0] * self.patch_size[1])
        self.embed_norm = nn.LayerNorm(spec.dim)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, N, D)."""
        p, q = self.patch_size
        rows = self.patch_norm(rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=p, q=q))
        out: Tensor = self.embed_norm(F.linear(rows, self.weight.flatten(1), self.bias))
        return out
