"""Rotary positions along the rows and the columns of the image."""

import math
from typing import Literal

import torch
from torch import Tensor

from vitbench.components.contracts import Positions
from vitbench.components.positions._waves import angles, rows_and_columns
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "rotary"},
    multiple_of={"head_width": 4},
    options={"base": (100.0, 1.0, 1e6), "coordinates": ("patches", "unit"), "rescale": (1.0, 1.0, 10.0)},
    vmap="rescale",
    source="Heo et al. 2024, arXiv 2403.13298, axial frequencies, base 100; Su et al. 2021, arXiv 2104.09864; "
    "coordinates in [-1, 1] and rescaled: Siméoni et al. 2025, DINOv3, arXiv 2508.10104, §3.2, by 2",
)
class Rope2D(Positions):
    """Queries and keys are turned: half of the pairs by the patch's row, half by its column; the class token is not.

    ``coordinates`` are the patches' numbers, whose unit is an angle of 1, or from -1 to 1, whose unit is a full turn.
    In training they are multiplied by a number between 1 / ``rescale`` and ``rescale``, log-uniform, one a batch.
    """

    angles: Tensor

    def __init__(
        self,
        spec: ModelSpec,
        *,
        base: float = 100.0,
        coordinates: Literal["patches", "unit"] = "patches",
        rescale: float = 1.0,
    ) -> None:
        super().__init__(spec)
        places = rows_and_columns(spec.grid)
        if coordinates == "unit":
            centred = (2.0 * (each + 0.5) / side - 1.0 for each, side in zip(places, spec.grid, strict=True))
            places = [2.0 * math.pi * each.to(torch.float64) for each in centred]
        rows, columns = (angles(each, spec.head_width // 4, base) for each in places)
        turn = torch.cat((rows, columns), dim=-1)
        turn = torch.cat((torch.zeros(spec.prefix, turn.shape[-1], dtype=turn.dtype), turn))
        turn = torch.cat((turn, turn), dim=-1)  # both halves of a pair (i, i + K/2) turn by the same angle
        self.rescale = rescale
        self.register_buffer("angles", turn.to(torch.get_default_dtype()), persistent=False)
        rotation = torch.stack((turn.cos(), turn.sin())).to(torch.get_default_dtype())
        self.register_buffer("rotation", rotation, persistent=False)

    def turning(self) -> Tensor | None:
        """(2, N, K)."""
        if self.rescale == 1.0 or not self.training:
            return self.rotation
        turn = self.angles * self.rescale ** torch.empty((), device=self.angles.device).uniform_(-1.0, 1.0)
        return torch.stack((turn.cos(), turn.sin()))
