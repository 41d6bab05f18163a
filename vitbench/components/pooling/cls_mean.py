"""Pooling by a class token and the mean of the patches."""

import torch
from torch import Tensor

from vitbench.components.pooling.cls import ClassToken
from vitbench.registry import component


@component(
    prefix=1, vectors=2, source="Oquab et al. 2023, DINOv2, arXiv 2304.07193; its eval/linear.py, create_linear_input"
)
class ClassTokenAndMean(ClassToken):
    """A class token's output and the mean of the patches' outputs, side by side."""

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, D) → (B, 2 D)."""
        return torch.cat((tokens[:, 0], tokens[:, 1:].mean(dim=1)), dim=1)

    def shares(self, tokens: Tensor) -> None:
        """None: the two are no weighted mean of the tokens."""
