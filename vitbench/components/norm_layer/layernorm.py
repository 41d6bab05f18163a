"""Layer normalisation."""

from torch import nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    options={"eps": (1e-6, 1e-12, 1e-2)},
    source="Ba et al. 2016, arXiv 1607.06450; epsilon 1e-6 as in google-research/vision_transformer and timm",
)
class LayerNorm(nn.LayerNorm):
    """(x - mean) / std * weight + bias, with ``eps`` added to the variance; torch's own default is 1e-5."""

    def __init__(self, spec: ModelSpec, *, eps: float = 1e-6) -> None:
        super().__init__(spec.dim, eps=eps)
