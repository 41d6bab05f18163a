"""A linear head."""

from torch import nn

from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(offers=("probe",), flops={"vy": 2}, source="Dosovitskiy et al. 2020, arXiv 2010.11929, §3.1, fine-tuning")
class Linear(nn.Linear):
    """One linear layer from the pooled vector to the classes."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.pooled_width, spec.num_classes)
