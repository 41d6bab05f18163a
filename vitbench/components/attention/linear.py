"""Linear attention."""

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(
    offers=("qk_norm", "gate", "head_dim"),
    flops={"ndi": 8, "nik": 4, "ni": 2},
    source="Katharopoulos et al. 2020, Transformers are RNNs, arXiv 2006.16236, eq. 5 and 7",
)
class Linear(SelfAttention):
    """φ(Q) (φ(K)ᵀ V) over φ(Q) Σ φ(K), φ(x) = elu(x) + 1: its cost grows with N, not with N²."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return q @ (k.transpose(-2, -1) @ v) / (q @ k.sum(dim=-2).unsqueeze(-1))

    def maps(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, H, N, N), the weights that :meth:`attend` does not form."""
        q, k, _ = self.split(self.qkv(tokens), rotation)
        products = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-2, -1)
        return products / products.sum(dim=-1, keepdim=True)
