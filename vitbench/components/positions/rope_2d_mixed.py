"""Rotary positions whose directions and frequencies are learned, for each block and head by itself."""

import math

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Positions
from vitbench.components.positions._waves import angles, rows_and_columns
from vitbench.config.model import ModelSpec
from vitbench.registry import component

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@component(
    needs={"attention": "rotary by head"},
    multiple_of={"head_width": 4},
    options={"base": (10.0, 1.0, 1e6)},
    source="Heo et al. 2024, arXiv 2403.13298, §3.2, RoPE-Mixed, base 10; naver-ai/rope-vit, vit_rope.py, where heads "
    "start in random directions",
)
class RopeMixed2D(Positions):
    """Queries and keys are turned by row and column at once: each pair of channels has a learned frequency of either.

    At first half of a head's pairs look along one direction and half across it, with falling frequencies; directions
    are multiples of the golden angle, so that they are spread evenly over heads and blocks.
    """

    token_tables = ("offsets",)
    constants = (("offsets", 0.0),)
    places: Tensor
    initial: Tensor

    def __init__(self, spec: ModelSpec, *, base: float = 10.0) -> None:
        super().__init__(spec)
        falling = angles(torch.ones(1), spec.head_width // 4, base)
        ways = 2.0 * math.pi * (torch.arange(spec.depth * spec.heads) * GOLDEN).remainder(1.0)
        along = ways.to(torch.float64).view(spec.depth, spec.heads, 1)
        across = along + math.pi / 2
        by_row, by_column = (
            torch.cat((falling * of(along), falling * of(across)), -1) for of in (torch.sin, torch.cos)
        )
        places = torch.stack(rows_and_columns(spec.grid))
        places = torch.cat((torch.zeros(2, spec.prefix, dtype=places.dtype), places), dim=1)
        self.register_buffer("places", places.to(torch.get_default_dtype()), persistent=False)
        initial = torch.stack((by_row, by_column)).to(torch.get_default_dtype())
        self.register_buffer("initial", initial, persistent=False)
        self.offsets = nn.Parameter(torch.empty(initial.shape))  # of frequencies: none at first

    def turning(self) -> Tensor:
        """(L, 2, H, N, K)."""
        frequencies = self.initial + self.offsets
        turn = (self.places[:, None, None, :, None] * frequencies[:, :, :, None]).sum(dim=0)
        turn = torch.cat((turn, turn), dim=-1)
        return torch.stack((turn.cos(), turn.sin()), dim=1)
