"""Layer normalisation of queries and keys."""

from torch import Tensor, nn

from vitbench.components.contracts import QKNorm
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    needs={"attention": "qk_norm"}, source="Dehghani et al. 2023, ViT-22B, arXiv 2302.05442, §2.1; timm's qk_norm"
)
class QKLayerNorm(QKNorm):
    """LayerNorm over the width of each head, with a weight and a bias for queries and for keys."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.norm = nn.LayerNorm(spec.head_width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        out: Tensor = self.norm(x).to(x.dtype)  # autocast gives float32
        return out
