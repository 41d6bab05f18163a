"""Gated attention, a gate for each head."""

from torch import Tensor, nn

from vitbench.components.contracts import Gate
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "gate"},
    flops={"ndh": 2},
    source="Qiu et al. 2025, Gated Attention for LLMs, arXiv 2505.06708, §2.2, position G1",
)
class Headwise(Gate):
    """One sigmoid for each head: σ(x W)_h times the output of head h, W (D, H)."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.heads = spec.heads
        self.scores = nn.Linear(spec.dim, spec.heads, bias=False)

    def forward(self, mixed: Tensor, tokens: Tensor) -> Tensor:
        """Heads side by side (B, N, HK), and what attention was given (B, N, D) → (B, N, HK)."""
        gates = self.scores(tokens).sigmoid().unsqueeze(-1)
        out: Tensor = (mixed.unflatten(-1, (self.heads, -1)) * gates).flatten(2)
        return out
