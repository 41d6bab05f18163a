"""Root-mean-square normalisation of queries and keys."""

from torch import Tensor, nn

from vitbench.components.contracts import QKNorm
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(needs={"attention": "qk_norm"}, source="ViT-5, arXiv 2602.08071; Zhang and Sennrich 2019, arXiv 1910.07467")
class QKRMSNorm(QKNorm):
    """x / rms(x) * weight over the width of each head, a weight for queries and one for keys."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.norm = nn.RMSNorm(spec.head_width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        out: Tensor = self.norm(x.to(self.norm.weight.dtype)).to(x.dtype)  # in float32 under autocast
        return out
