"""A linear head with a norm of its own."""

from torch import nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    flops={"dy": 2},
    source="lucidrains/vit-pytorch until 1.2, mlp_head: a layer norm and a linear layer",
)
class Normed(nn.Sequential):
    """One linear layer on the layer-normed vector, whatever norms the model has before."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(nn.LayerNorm(spec.dim), nn.Linear(spec.dim, spec.num_classes))
