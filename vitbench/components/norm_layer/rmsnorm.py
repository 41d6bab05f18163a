"""Root-mean-square normalisation."""

from torch import nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(source="Zhang and Sennrich 2019, arXiv 1910.07467")
class RMSNorm(nn.RMSNorm):
    """x / rms(x) * weight."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.dim, eps=1e-6)
