"""Pooling by a class token."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Pooling
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    prefix=1, source="Dosovitskiy et al. 2020, arXiv 2010.11929, eq. 1 and 4; Devlin et al. 2018, arXiv 1810.04805"
)
class ClassToken(Pooling):
    """A learned token is put first, and its output taken."""

    token_tables: ClassVar[tuple[str, ...]] = ("class_token",)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.class_token = nn.Parameter(torch.empty(1, 1, spec.dim))

    def prepend(self, tokens: Tensor) -> Tensor:
        """(B, N - 1, D) → (B, N, D)."""
        return torch.cat((self.class_token.expand(tokens.shape[0], -1, -1), tokens), dim=1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, D)."""
        return tokens[:, 0]

    def shares(self, tokens: Tensor) -> Tensor | None:
        """(B, N, D) → (B, N)."""
        return (torch.arange(tokens.shape[1], device=tokens.device) == 0).to(tokens.dtype).expand(tokens.shape[:2])
