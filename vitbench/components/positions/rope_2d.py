"""Rotary positions along the rows and the columns of the image."""

import torch

from vitbench.components.contracts import Positions
from vitbench.components.positions._waves import angles, rows_and_columns
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "rotary"},
    multiple_of={"head_width": 4},
    source="Heo et al. 2024, arXiv 2403.13298, axial frequencies, base 100; Su et al. 2021, arXiv 2104.09864",
)
class Rope2D(Positions):
    """Queries and keys are turned: half of the pairs by the patch's row, half by its column; the class token is not."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        rows, columns = (angles(places, spec.head_width // 4, base=100.0) for places in rows_and_columns(spec.grid))
        turn = torch.cat((rows, columns), dim=-1)
        turn = torch.cat((torch.zeros(spec.prefix, turn.shape[-1], dtype=turn.dtype), turn))
        turn = torch.cat((turn, turn), dim=-1)  # both halves of a pair (i, i + K/2) turn by the same angle
        rotation = torch.stack((turn.cos(), turn.sin())).to(torch.get_default_dtype())
        self.register_buffer("rotation", rotation, persistent=False)
