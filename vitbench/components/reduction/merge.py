"""Token merging."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import Reduction
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    every_patch=True,
    removes="by",
    options={"by": (8, 1, 4096)},
    flops={"aed": 2},
    source="Bolya et al. 2023, Token Merging, arXiv 2210.09461, §3, with the similarity of tokens (table 1a, X) where "
    "the paper takes that of keys, and without proportional attention",
)
class Merge(Reduction):
    """After each block but the last, the ``by`` most similar pairs of patches become one each, their weighted mean.

    Patches are split in two halves in turn; each of the first half has one partner in the second.
    """

    joins: ClassVar[bool] = True  # Whether a removed patch is added to its partner, or dropped

    def __init__(self, spec: ModelSpec, *, by: int = 8) -> None:
        super().__init__(spec)
        self.by, self.first = by, spec.prefix

    def forward(self, tokens: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, D), (B, N, 1) → (B, N', D), (B, N', 1), (B, N')."""
        numbers = torch.arange(self.first, tokens.shape[1], device=tokens.device)
        patches, weights = tokens[:, self.first :], sizes[:, self.first :]
        by = min(self.by, patches.shape[1] // 2)
        if not by:  # a patch that is alone has no partner
            return tokens, sizes, torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
        with torch.no_grad():
            alike = F.normalize(patches.detach(), dim=-1)
            best, partner = (alike[:, ::2] @ alike[:, 1::2].transpose(1, 2)).max(dim=-1)
            order = best.argsort(dim=-1, descending=True)
            gone, staying = order[:, :by], order[:, by:]
            into = partner.gather(1, gone)
        sums = torch.cat((patches * weights, weights), dim=-1)
        ones, others = sums[:, ::2], sums[:, 1::2]
        if self.joins:
            others = others.scatter_add(1, _wide(into, others), ones.gather(1, _wide(gone, ones)))
        sums = torch.cat((ones.gather(1, _wide(staying, ones)), others), dim=1)
        joined, weights = sums[..., :-1] / sums[..., -1:], sums[..., -1:]
        prefix = torch.arange(self.first, device=tokens.device).expand(len(tokens), -1)
        kept = torch.cat((prefix, numbers[::2][staying], numbers[1::2].expand(len(tokens), -1)), dim=1)
        return (
            torch.cat((tokens[:, : self.first], joined.to(tokens.dtype)), dim=1),
            torch.cat((sizes[:, : self.first], weights), dim=1),
            kept,
        )


def _wide(numbers: Tensor, like: Tensor) -> Tensor:
    """(B, n) → (B, n, C), as gather and scatter take them."""
    return numbers[..., None].expand(-1, -1, like.shape[-1])
