"""An MLP over tokens in the place of attention."""

from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Sublayer
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    whole=True,
    every_patch=True,
    one_size=True,
    flops={"ndd": 2},
    source="Tolstikhin et al. 2021, MLP-Mixer, arXiv 2105.01601, eq. 1; timm/models/mlp_mixer.py",
)
class TokenMLP(Sublayer):
    """Every channel's N values pass one MLP with GELU, half as wide as the model."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(spec.tokens, spec.dim // 2), nn.Linear(spec.dim // 2, spec.tokens)

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        assert rotation is None, "components that rotate need a feature which this one does not offer"
        out: Tensor = self.down(F.gelu(self.up(tokens.transpose(1, 2)))).transpose(1, 2)
        return out
