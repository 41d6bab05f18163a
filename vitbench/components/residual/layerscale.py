"""LayerScale."""

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Residual
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    options={"start": (1e-4, 0.0, 1.0)},
    source="Touvron et al. 2021, CaiT, arXiv 2103.17239, eq. 4; start 1e-4, Touvron et al. 2022, arXiv 2204.07118",
)
class LayerScale(Residual):
    """x + λ f(x), a learned λ for each channel, 1e-4 at the start.

    CaiT starts at 0.1 up to a depth of 18, at 1e-5 up to 24, and at 1e-6 beyond.
    """

    def __init__(self, spec: ModelSpec, *, start: float = 1e-4) -> None:
        super().__init__(spec)
        self.constants = (("scale", start),)
        self.scale = nn.Parameter(torch.empty(spec.dim))

    def forward(self, tokens: Tensor, output: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return tokens + self.scale * output
