"""Fixed waves along the rows and the columns of the image."""

from typing import Literal

import torch
from torch import Tensor

from vitbench.components.contracts import Positions
from vitbench.components.positions._waves import angles, rows_and_columns
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    multiple_of={"dim": 4},
    options={"frequencies": ("moco_v3", "simple_vit")},
    source="Chen et al. 2021, MoCo v3, arXiv 2104.02057; Beyer et al. 2022, SimpleViT, arXiv 2205.01580",
)
class Sinusoidal2D(Positions):
    """Half of the channels code the patch's row, half its column; zero for the class token.

    ``frequencies`` fall as 10,000^(-i / n), n = D / 4 in MoCo v3 and D / 4 - 1 in SimpleViT.
    """

    table: Tensor

    def __init__(self, spec: ModelSpec, *, frequencies: Literal["moco_v3", "simple_vit"] = "moco_v3") -> None:
        super().__init__(spec)
        to_the_end = frequencies == "simple_vit"
        rows, columns = (angles(places, spec.dim // 4, to_the_end=to_the_end) for places in rows_and_columns(spec.grid))
        patches = torch.cat((columns.sin(), columns.cos(), rows.sin(), rows.cos()), dim=-1)
        table = torch.cat((torch.zeros(spec.pooled_prefix, spec.dim, dtype=patches.dtype), patches))
        self.register_buffer("table", table.to(torch.get_default_dtype())[None], persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + self.table
