"""Layer normalisation."""

from torch import nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(source="Ba et al. 2016, arXiv 1607.06450; epsilon 1e-6 as in google-research/vision_transformer")
class LayerNorm(nn.LayerNorm):
    """(x - mean) / std * weight + bias."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.dim, eps=1e-6)
