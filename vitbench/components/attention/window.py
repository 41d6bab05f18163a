"""Attention within windows."""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "head_dim"),
    every_patch=True,
    needs={"pooling": "patches"},
    multiple_of={"grid_height": "size", "grid_width": "size"},
    options={"size": (4, 1, 256), "shift": True},
    flops={"ndi": 8, "pi(size)(size)": 4},
    source="Liu et al. 2021, Swin Transformer, arXiv 2103.14030, §3.2; without its relative bias",
)
class Window(SelfAttention):
    """Patches attend within windows of ``size`` × ``size``; registers take no part.

    With ``shift`` the windows of every second block lie half a window further along both sides; patches that only the
    turn around the edge brings together do not see each other.
    """

    apart: Tensor

    def __init__(self, spec: ModelSpec, *, size: int = 4, shift: bool = True) -> None:
        super().__init__(spec)
        self.grid, self.first, self.size = spec.grid, spec.prefix, size
        self.by = size // 2 if shift and min(spec.grid) > size else 0
        from_end = (side - torch.arange(side) for side in spec.grid)
        rows, columns = ((each <= size).int() + (each <= self.by) for each in from_end)
        region = self._windows((3 * rows[:, None] + columns)[None, None, ..., None]).squeeze(-1)  # (1, W, 1, S)
        self.register_buffer("apart", region[..., :, None] != region[..., None, :], persistent=False)

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, 3HK) → (B, N, HK)."""
        by = self.by if self.block % 2 else 0
        grids = (each[:, :, self.first :].unflatten(2, self.grid) for each in self.split(qkv, rotation))
        q, k, v = (self._windows(each.roll((-by, -by), dims=(2, 3))) for each in grids)
        scores = q * self.scale @ k.transpose(-2, -1)
        if by:
            scores = scores.masked_fill(self.apart, -torch.inf)
        mixed = F.dropout(scores.softmax(dim=-1), self.dropout_now) @ v
        patches = self._grid(mixed).roll((by, by), dims=(2, 3)).flatten(2, 3).transpose(1, 2).flatten(2)
        return F.pad(patches, (0, 0, self.first, 0))

    def _windows(self, grid: Tensor) -> Tensor:
        """(B, H, height, width, K) → (B, W windows, H, S = size², K)."""
        cut: Tensor = grid.unflatten(3, (-1, self.size)).unflatten(2, (-1, self.size))
        return cut.permute(0, 2, 4, 1, 3, 5, 6).flatten(4, 5).flatten(1, 2)

    def _grid(self, windows: Tensor) -> Tensor:
        """(B, W, H, S, K) → (B, H, height, width, K)."""
        down, across = (side // self.size for side in self.grid)
        cut: Tensor = windows.unflatten(3, (self.size, self.size)).unflatten(1, (down, across))
        return cut.permute(0, 3, 1, 4, 2, 5, 6).flatten(4, 5).flatten(2, 3)
