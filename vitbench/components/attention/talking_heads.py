"""Attention whose heads mix their scores."""

from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("rotary", "rotary by head", "dropout", "qk_norm", "gate", "bias", "head_dim"),
    flops={"ndi": 8, "nni": 4, "nnhh": 4},
    source="Shazeer et al. 2020, Talking-Heads Attention, arXiv 2003.02436; with biases, as timm/models/cait.py",
)
class TalkingHeads(SelfAttention):
    """Scores, then probabilities, are mixed over the heads by a learned linear map."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.of_scores, self.of_probabilities = nn.Linear(spec.heads, spec.heads), nn.Linear(spec.heads, spec.heads)

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, 3HK) → (B, N, HK)."""
        q, k, v = self.split(qkv, rotation)
        probabilities = _over_heads(self.of_scores, self.scores(q, k)).softmax(dim=-1)
        mixed = F.dropout(_over_heads(self.of_probabilities, probabilities), self.dropout_now) @ v
        return mixed.transpose(1, 2).flatten(2)


def _over_heads(linear: nn.Linear, x: Tensor) -> Tensor:
    """(B, H, N, N) → the same."""
    out: Tensor = linear(x.movedim(1, -1)).movedim(-1, 1)
    return out
