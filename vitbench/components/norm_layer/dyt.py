"""Dynamic tanh in the place of a norm."""

import torch
from torch import Tensor, nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    options={"alpha": (0.5, 1e-3, 10.0)},
    source="Zhu et al. 2025, Transformers without Normalization, arXiv 2503.10622, eq. 3; α 0.5 at the start, §4",
)
class DyT(nn.Module):
    """tanh(α x) * weight + bias, one learned α for each layer."""

    def __init__(self, spec: ModelSpec, *, alpha: float = 0.5) -> None:
        super().__init__()
        self.constants = (("alpha", alpha),)
        self.alpha = nn.Parameter(torch.empty(1))
        self.weight = nn.Parameter(torch.empty(spec.dim))
        self.bias = nn.Parameter(torch.empty(spec.dim))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return torch.tanh(self.alpha * tokens) * self.weight + self.bias
