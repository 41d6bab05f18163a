"""Models whose every parameter shows in what they compute."""

import torch
from torch import nn


def shaken(model: nn.Module, by: float = 0.02) -> nn.Module:
    """The model, with noise on all that it has started with, in evaluation."""
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=chance), alpha=by)
    return model.eval()
