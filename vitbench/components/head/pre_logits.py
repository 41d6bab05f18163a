"""A head with a hidden layer."""

from torch import Tensor, nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    flops={"vd": 2, "dy": 2},
    source="Dosovitskiy et al. 2020, arXiv 2010.11929, §3.1, pre-training; google-research/vision_transformer, "
    "vit_jax/models_vit.py, pre_logits",
)
class PreLogits(nn.Module):
    """out(tanh(hidden(x))), the hidden layer as wide as the model."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(spec.pooled_width, spec.dim), nn.Linear(spec.dim, spec.num_classes)

    def forward(self, pooled: Tensor) -> Tensor:
        """(B, V) → (B, classes), V the pooled width."""
        out: Tensor = self.out(self.hidden(pooled).tanh())
        return out
