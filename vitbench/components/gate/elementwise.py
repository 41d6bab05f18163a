"""Gated attention, a gate for each channel."""

from torch import Tensor, nn

from vitbench.components.contracts import Gate
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "gate"},
    flops={"ndi": 2},
    source="Qiu et al. 2025, Gated Attention for LLMs, arXiv 2505.06708, §2.2, position G1",
)
class Elementwise(Gate):
    """A sigmoid for each channel of each head: σ(x W) times the heads' outputs, W (D, HK)."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.scores = nn.Linear(spec.dim, spec.heads_width, bias=False)

    def forward(self, mixed: Tensor, tokens: Tensor) -> Tensor:
        """Heads side by side (B, N, HK), and what attention was given (B, N, D) → (B, N, HK)."""
        out: Tensor = mixed * self.scores(tokens).sigmoid()
        return out
