"""Optimiser and learning-rate schedule of a recipe."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Patching
from vitbench.config.recipe import TrainSpec
from vitbench.model.encoder import Block
from vitbench.model.initial import token_tables
from vitbench.model.muon import Muon


@dataclass(frozen=True)
class Weight:
    """A parameter, and what an optimiser asks of it."""

    name: str  # as the model has it
    parameter: nn.Parameter  # of one model, or of all members
    decays: bool  # it is a weight: not a norm, a bias, a position or a class token
    hidden: bool  # it is a matrix of a block, or the filters of a convolution in a stem that is not given pixels


@functools.singledispatch
def weights(model: nn.Module) -> list[Weight]:
    """The parameters of a model that are trained.

    Source of what decays: Dosovitskiy et al. 2020 decay all; this split is DeiT's and timm's (``no_weight_decay``).
    """
    tables = token_tables(model)
    hidden = {id(p) for b in model.modules() if isinstance(b, Block) for p in b.parameters() if p.ndim == 2}
    hidden |= {id(p) for stem in model.modules() if isinstance(stem, Patching) for p in stem.inner_filters()}
    return [
        Weight(name, p, p.ndim >= 2 and name not in tables, id(p) in hidden and name not in tables)
        for name, p in model.named_parameters()
        if p.requires_grad
    ]


def parameter_groups(chosen: Sequence[Weight], weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: weights, which decay, and the rest, which does not."""
    decayed, free = ([w.parameter for w in chosen if w.decays is decays] for decays in (True, False))
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


class Optimisers:
    """Several optimisers, each of some parameters of one model, that step together.

    Attributes:
        parts: the optimisers.
    """

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts
        self.parameters = [p for part in parts for group in part.param_groups for p in group["params"]]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of all of them, as they are now: restoring a state makes them anew."""
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Move all parameters."""
        for part in self.parts:
            part.step()

    def state(self) -> Iterator[tuple[str, Tensor]]:
        """All that the optimisers remember, by name."""
        for number, part in enumerate(self.parts):
            for index, values in part.state_dict()["state"].items():
                for key, tensor in values.items():
                    yield f"{number}.{index}.{key}", tensor

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`state` gave."""
        of_parts: list[dict[int, dict[str, Tensor]]] = [{} for _ in self.parts]
        for name, tensor in state.items():
            number, index, key = name.split(".", 2)
            of_parts[int(number)].setdefault(int(index), {})[key] = tensor
        for part, values in zip(self.parts, of_parts, strict=True):
            part.load_state_dict({**part.state_dict(), "state": values})


def make_optimiser(model: nn.Module, recipe: TrainSpec, device: torch.device) -> Optimisers:
    """The optimisers of a recipe, see :data:`OPTIMISERS`, for a model or an ensemble."""
    return Optimisers(*OPTIMISERS[recipe.optimizer](weights(model), recipe, device))


def _adam(
    kind: type[torch.optim.Adam], chosen: Sequence[Weight], recipe: TrainSpec, device: torch.device
) -> list[torch.optim.Optimizer]:
    """Adam with weight decay as an L2 term, or AdamW, where it is decoupled; in torch's fused form where it has one."""
    groups, fused = parameter_groups(chosen, recipe.weight_decay), device.type in ("cpu", "cuda")
    capturable = recipe.cuda_graphs and device.type == "cuda"
    return [kind(groups, lr=recipe.learning_rate, betas=recipe.betas, fused=fused, capturable=capturable)]


def _muon(chosen: Sequence[Weight], recipe: TrainSpec, device: torch.device) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks and the inner filters of a stem, AdamW for everything else, at one rate.

    The matrix of queries, keys and values is one, (3D, D); filters are a matrix (out, in · height · width).
    Source: Jordan et al. 2024, Muon, https://kellerjordan.github.io/posts/muon; the update is scaled to the size of
    AdamW's (Liu et al. 2025, arXiv 2502.16982), so that both have the same learning rate and weight decay.
    """
    matrices = [w.parameter for w in chosen if w.hidden]
    rest = _adam(torch.optim.AdamW, [w for w in chosen if not w.hidden], recipe, device)
    if not matrices:  # blocks without attention and MLP, after patches that are cut
        return rest
    return [Muon(matrices, lr=recipe.learning_rate, weight_decay=recipe.weight_decay), *rest]


OPTIMISERS: Mapping[str, Callable[[Sequence[Weight], TrainSpec, torch.device], list[torch.optim.Optimizer]]] = {
    "adam": functools.partial(_adam, torch.optim.Adam),
    "adamw": functools.partial(_adam, torch.optim.AdamW),
    "muon": _muon,
}
"""Name in a recipe → the optimisers of a model's parameters."""


SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
    "constant": lambda _: 1.0,
}
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
