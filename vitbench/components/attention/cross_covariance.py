"""Attention among channels."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    offers=("dropout", "gate", "head_dim"),
    flops={"ndi": 8, "nik": 4},
    source="El-Nouby et al. 2021, XCiT, arXiv 2106.09681, eq. 2; facebookresearch/xcit, xcit.py",
)
class CrossCovariance(SelfAttention):
    """Each head's channels attend to one another, by cosines over all tokens times a learned temperature.

    Tokens mix through these cosines alone: XCiT has a convolution beside it, which is not part of this.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.temperature = nn.Parameter(torch.empty(spec.heads))

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, 3HK) → (B, N, HK)."""
        assert rotation is None, "components that rotate need a feature which this one does not offer"
        q, k, v = (x.transpose(-2, -1) for x in self.split(qkv, rotation))  # (B, H, K, N)
        cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        weights = (cosines * self.temperature[:, None, None]).softmax(dim=-1).to(v.dtype)  # autocast gives float32
        return (F.dropout(weights, self.dropout_now) @ v).flatten(1, 2).transpose(1, 2)
