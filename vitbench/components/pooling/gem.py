"""Generalised-mean pooling."""

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Pooling
from vitbench.config.model import ModelSpec
from vitbench.registry import component

LEAST = 1e-6
"""Lower bound of a token's channels: a negative number has no such power. Its sixth is the least of float32."""


@component(
    offers=("patches",),
    options={"power": (3.0, 1.0, 6.0)},
    dtypes=("float32", "bfloat16"),  # 1e-6 to the third is zero in float16, and its root has no gradient
    source="Radenović et al. 2017, arXiv 1711.02512, eq. 2; Psomas et al. 2023, arXiv 2309.06891",
)
class GeM(Pooling):
    """(mean of max(x, 1e-6)^p over the tokens)^(1/p), one learned p, 3 at the start."""

    def __init__(self, spec: ModelSpec, *, power: float = 3.0) -> None:
        super().__init__(spec)
        self.constants = (("power", power),)
        self.power = nn.Parameter(torch.empty(1))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, D)."""
        return tokens.clamp(min=LEAST).pow(self.power).mean(dim=1).pow(1.0 / self.power)
