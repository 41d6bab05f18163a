"""ALiBi along both sides of the image."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.components.bias._offsets import offsets
from vitbench.components.contracts import Bias
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "bias"},
    every_patch=True,
    vmap=False,  # one bias beside as many batches as models
    source="Press et al. 2021, ALiBi, arXiv 2108.12409, §3; in two dimensions: Fuller et al. 2023, CROMA, "
    "arXiv 2311.00566, §3",
)
class ALiBi2D(Bias):
    """Distance of two patches times a slope of each head, subtracted; nothing for tokens before the patches."""

    distances: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        rows, columns = (each.double() for each in offsets(spec.grid))
        slopes = torch.tensor(_slopes(spec.heads), dtype=torch.float64)
        distances = F.pad(-slopes[:, None, None] * torch.hypot(rows, columns), (spec.prefix, 0, spec.prefix, 0))
        self.register_buffer("distances", distances.to(torch.get_default_dtype()), persistent=False)

    def forward(self) -> Tensor:
        """(H, N, N), row = query."""
        return self.distances


def _slopes(heads: int) -> list[float]:
    """2^(-8 i / H) of head i = 1 … H; for another H than a power of two, the steps between go to the last heads."""
    power = 2 ** int(math.log2(heads))
    between = [2.0 ** (-8.0 * (i + 0.5) / power) for i in range(heads - power)]
    return [2.0 ** (-8.0 * i / power) for i in range(1, power + 1)] + between
