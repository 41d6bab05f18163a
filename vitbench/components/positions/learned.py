"""Learned positions."""

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Positions
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(source="Dosovitskiy et al. 2020, arXiv 2010.11929, eq. 1")
class Learned(Positions):
    """One learned vector for each token, class token included, added to it."""

    token_tables = ("table",)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.table = nn.Parameter(torch.empty(1, spec.placed, spec.dim))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + self.table
