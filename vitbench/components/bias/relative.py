"""Relative position bias, a table."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.bias._offsets import numbers
from vitbench.components.contracts import Bias
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "bias"},
    every_patch=True,
    one_size=True,
    vmap=False,  # a parameter inside the attention that an ensemble folds
    source="Liu et al. 2021, Swin Transformer, arXiv 2103.14030, eq. 4; of class tokens: Bao et al. 2021, BEiT, "
    "arXiv 2106.08254, microsoft/unilm beit/modeling_finetune.py",
)
class Relative(Bias):
    """A learned number for each head and each offset of two patches.

    Where tokens stand before the patches, three more for each head: of them to a patch, of a patch to them, and of them
    to one another.
    """

    token_tables = ("table",)
    index: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        height, width = spec.grid
        count, first = (2 * height - 1) * (2 * width - 1), spec.prefix
        index = F.pad(numbers(spec.grid), (first, 0, first, 0), value=count)  # rows are queries
        index[first:, :first] = count + 1
        index[:first, :first] = count + 2
        self.register_buffer("index", index, persistent=False)
        self.table = nn.Parameter(torch.empty(count + (3 if first else 0), spec.heads))

    def forward(self) -> Tensor:
        """(H, N, N), row = query."""
        return self.table[self.index].permute(2, 0, 1)
