"""A Fourier transform in the place of attention."""

import torch
from torch import Tensor

from vitbench.components.contracts import SpecModule, Sublayer
from vitbench.registry import component


@component(whole=True, flops={}, source="Lee-Thorp et al. 2021, FNet, arXiv 2105.03824, eq. 3")
class Fourier(SpecModule, Sublayer):
    """The real part of the transform over tokens and channels: nothing to learn."""

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        assert rotation is None, "components that rotate need a feature which this one does not offer"
        wide = tokens if tokens.dtype == torch.float64 else tokens.float()  # there is no transform of 16 bits on a CPU
        mixed: Tensor = torch.fft.fft2(wide).real
        return mixed.to(tokens.dtype)
