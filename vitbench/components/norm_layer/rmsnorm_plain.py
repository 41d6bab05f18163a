"""Root mean square normalisation without a gain."""

from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SpecModule
from vitbench.registry import component


@component(source="Zhang and Sennrich 2019, arXiv 1910.07467, eq. 4, with g = 1")
class PlainRMSNorm(SpecModule):
    """Each token over its root mean square; nothing to learn."""

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return F.rms_norm(tokens, tokens.shape[-1:], eps=1e-6)
