"""Optimiser and learning-rate schedule of a recipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from vitbench.model.initial import token_tables
from vitbench.spec.recipe import TrainSpec

OPTIMISERS: Mapping[str, type[torch.optim.Adam]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Two groups: weights, which decay; norms, biases, positions and class tokens, which do not.

    Source: Dosovitskiy et al. 2020 decay all; this split is DeiT's and timm's (``no_weight_decay``).
    """
    tables = token_tables(model)
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (free if parameter.ndim < 2 or name in tables else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


def make_optimiser(model: nn.Module, recipe: TrainSpec, device: torch.device) -> torch.optim.Optimizer:
    """Adam (weight decay as an L2 term) or AdamW (decoupled), in torch's fused form where the device has it."""
    return OPTIMISERS[recipe.optimizer](
        parameter_groups(model, recipe.weight_decay),
        lr=recipe.learning_rate,
        betas=recipe.betas,
        fused=device.type in ("cpu", "cuda"),
    )


def _cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def _constant(progress: float) -> float:
    return 1.0


SCHEDULES: Mapping[str, Callable[[float], float]] = {"cosine": _cosine, "constant": _constant}
"""Name → factor on the learning rate after warm-up, as a function of progress from 0 to 1."""


def steps_of(recipe: TrainSpec, train_images: int) -> int:
    """Steps of a whole run: of whole epochs, or of a budget of images, whose last batch may be smaller too."""
    whole, rest = divmod(recipe.images, train_images) if recipe.images is not None else (recipe.epochs, 0)
    return whole * -(-train_images // recipe.batch_size) + -(-rest // recipe.batch_size)


def learning_rate(recipe: TrainSpec, step: int, steps_per_epoch: int, total: int) -> float:
    """Rate of a step (counted from 0) of ``total``: linear warm-up, then the schedule over the steps that are left."""
    warmup = recipe.warmup_epochs * steps_per_epoch
    if step < warmup:
        return recipe.learning_rate * (step + 1) / (warmup + 1)
    progress = (step - warmup) / max(total - warmup, 1)
    return recipe.learning_rate * SCHEDULES[recipe.schedule](min(progress, 1.0))
