"""Queries and keys of length one: scores are cosines."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import QKNorm
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "qk_norm"},
    source="Henry et al. 2020, Query-Key Normalization for Transformers, arXiv 2010.04245, eq. 3",
)
class L2(QKNorm):
    """x / |x| * √K * g, a learned g for queries and one for keys, 1 at first: scores are g_q g_k √K cos(q, k)."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.length = math.sqrt(spec.head_width)
        self.weight = nn.Parameter(torch.empty(1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        return (F.normalize(x, dim=-1) * (self.length * self.weight)).to(x.dtype)  # autocast gives float32
