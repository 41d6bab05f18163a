"""A linear head with a norm of its own."""

from torch import nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    flops={"vy": 2},
    source="lucidrains/vit-pytorch until 1.2, mlp_head: a layer norm and a linear layer",
)
class Normed(nn.Sequential):
    """One linear layer on the layer-normed vector, whatever norms the model has before."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(nn.LayerNorm(spec.pooled_width), nn.Linear(spec.pooled_width, spec.num_classes))
