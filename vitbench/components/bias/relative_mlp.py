"""Relative position bias, by a small network."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.bias._offsets import numbers
from vitbench.components.contracts import Bias
from vitbench.config.model import ModelSpec
from vitbench.registry import component

HIDDEN = 512
LARGEST = 16.0


@component(
    needs={"attention": "bias"},
    every_patch=True,
    vmap=False,  # parameters inside the attention that an ensemble folds
    flops={"o": 2048, "oh": 1024},
    source="Liu et al. 2021, Swin Transformer V2, arXiv 2111.09883, §3.3; microsoft/Swin-Transformer, "
    "models/swin_transformer_v2.py",
)
class RelativeMLP(Bias):
    """16 σ(MLP(offset)), offsets on a logarithmic scale, 512 hidden units with ReLU; nothing for class tokens."""

    index: Tensor
    scaled: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.first = spec.prefix
        sides = (torch.arange(1 - side, side, dtype=torch.float64) * 8 / max(side - 1, 1) for side in spec.grid)
        offset = torch.stack(torch.meshgrid(*sides, indexing="ij"), dim=-1).flatten(0, 1)
        scaled = offset.sign() * torch.log2(offset.abs() + 1) / math.log2(8)
        self.register_buffer("scaled", scaled.to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("index", numbers(spec.grid), persistent=False)
        self.up = nn.Linear(2, HIDDEN)
        self.down = nn.Linear(HIDDEN, spec.heads, bias=False)

    def forward(self) -> Tensor:
        """(H, N, N), row = query."""
        of_offset = LARGEST * self.down(F.relu(self.up(self.scaled))).sigmoid()
        return F.pad(of_offset[self.index].permute(2, 0, 1), (self.first, 0, self.first, 0))
