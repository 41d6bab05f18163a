"""Fixed waves along the rows and the columns of the image."""

import torch
from torch import Tensor

from vitbench.components.contracts import Positions
from vitbench.components.positions._waves import angles, rows_and_columns
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    multiple_of={"dim": 4},
    source="Chen et al. 2021, MoCo v3, arXiv 2104.02057; exponents over D / 4, where SimpleViT has D / 4 - 1",
)
class Sinusoidal2D(Positions):
    """Half of the channels code the patch's row, half its column; zero for the class token."""

    table: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        rows, columns = (angles(places, spec.dim // 4) for places in rows_and_columns(spec.grid))
        patches = torch.cat((columns.sin(), columns.cos(), rows.sin(), rows.cos()), dim=-1)
        table = torch.cat((torch.zeros(spec.pooled_prefix, spec.dim, dtype=patches.dtype), patches))
        self.register_buffer("table", table.to(torch.get_default_dtype())[None], persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + self.table
