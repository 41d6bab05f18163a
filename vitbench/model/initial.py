"""Initial weights: each parameter drawn by its own name, so that equivalent implementations start bit-identical."""

import math
from statistics import NormalDist
from typing import Literal

import torch
from torch import Tensor, nn

from vitbench.streams import derive

TABLE_STD = 0.02
"""Spread of token tables (positions, class token) where weights are scaled by fan-in, which a table does not have."""


CUT = 2.0  # Deviations of the normal distribution at which it is cut
LEFT_BY_CUT = math.sqrt(1.0 - 2.0 * CUT * NormalDist().pdf(CUT) / (2.0 * NormalDist().cdf(CUT) - 1.0))
"""What the cut leaves of the deviation, 0.8796: so much wider the normal is drawn, for a name to be its value."""

OVER_FAN_IN = {"fan_in": 1.0 / 3.0, "he": 2.0}  # Variance of weights times the number of a unit's inputs


def token_tables(model: nn.Module) -> set[str]:
    """Names of the parameters that are looked up by place: learned positions, class tokens, biases of scores."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        for name in getattr(module, "token_tables", ())
    }


def own_initial(model: nn.Module, what: Literal["constants", "spreads"]) -> dict[str, float]:
    """Parameter → the value, or the standard deviation, that its module starts it with, of those that say one."""
    return {
        f"{prefix}.{name}" if prefix else name: value
        for prefix, module in model.named_modules()
        for name, value in getattr(module, what, ())
    }


@torch.no_grad()
def initialise(model: nn.Module, std: float | Literal["fan_in", "he"], seed: int) -> None:
    """Draw all weights from a seed: truncated normal at two deviations; biases zero; norms one; scales as they say.

    A parameter's values depend on the seed, its name and its shape alone. So cells that share a parameter share its
    initial values, and equivalent implementations, which hold the same parameters under the same names, start from the
    same model.

    Args:
        model: its floating-point parameters are overwritten in place.
        std: standard deviation; "fan_in" for 1 / sqrt(3 fan_in), that of PyTorch's own uniform
            initialisation of linear layers (He et al. 2015, arXiv 1502.01852, with a = sqrt(5)); "he" for
            sqrt(2 / fan_in), their own for layers before a ReLU.
        seed: of the trial.
    """
    tables, constants, spreads = token_tables(model), own_initial(model, "constants"), own_initial(model, "spreads")
    for name, parameter in model.named_parameters():
        if name in constants or parameter.ndim < 2:
            parameter.fill_(constants.get(name, 0.0 if name.endswith("bias") else 1.0))
            continue
        if name in spreads:
            spread = spreads[name]
        elif isinstance(std, float):
            spread = std
        else:
            spread = TABLE_STD if name in tables else math.sqrt(OVER_FAN_IN[std] / parameter[0].numel())
        parameter.copy_(_draw(parameter, spread, derive(seed, "init", name)))


def _draw(like: Tensor, std: float, seed: int) -> Tensor:
    """Values of this deviation, of a cut normal; drawn on the CPU in float32 so that every device starts the same."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.empty(like.shape, dtype=torch.float32)
    wide = std / LEFT_BY_CUT
    return nn.init.trunc_normal_(values, std=wide, a=-CUT * wide, b=CUT * wide, generator=generator)
