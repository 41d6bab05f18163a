"""Pooling by a class token, with a second one beside it that answers a teacher."""

import torch
from torch import Tensor, nn

from vitbench.components.pooling.cls import ClassToken
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(prefix=2, offers=("teacher",), source="Touvron et al. 2021, DeiT, arXiv 2012.12877, §4 and fig. 2")
class Distilled(ClassToken):
    """Two learned tokens are put first: one's output is for the labels, the other's for a teacher."""

    token_tables = ("class_token", "teacher_token")

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.teacher_token = nn.Parameter(torch.empty(1, 1, spec.dim))

    def prepend(self, tokens: Tensor) -> Tensor:
        """(B, N - 2, D) → (B, N, D)."""
        both = torch.cat((self.class_token, self.teacher_token), dim=1).expand(tokens.shape[0], -1, -1)
        return torch.cat((both, tokens), dim=1)

    def for_teacher(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, D)."""
        return tokens[:, 1]
