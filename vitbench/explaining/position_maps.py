"""Position maps: what a positions component adds to each token, measured from its output."""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import Positions
from vitbench.config.model import ModelSpec


@torch.no_grad()
def added(positions: Positions, spec: ModelSpec) -> Tensor | None:
    """The position embedding (N - R, D), registers left out; None where nothing is added, or what depends on them."""
    if positions.of_tokens:
        return None
    like = next(iter((*positions.parameters(), *positions.buffers())), torch.zeros(()))
    table: Tensor = positions(like.new_zeros(1, spec.placed, spec.dim))[0]
    return table if bool(table.any()) else None


def alike(table: Tensor) -> Tensor:
    """Cosine similarity of each two positions, (P, D) → (P, P). Source: Dosovitskiy et al. 2021, fig. 7."""
    unit = F.normalize(table.double(), dim=-1)
    return (unit @ unit.T).clamp(-1.0, 1.0).float()


def turned(rotation: Tensor) -> Tensor:
    """Cosine similarity of one vector, all pairs of whose channels are alike in length, turned to each two places.

    (2, P, K), cosines and sines, see :func:`vitbench.components.contracts.rotate` → (P, P).
    """
    cos, sin = rotation.double().unbind(0)
    return ((cos @ cos.T + sin @ sin.T) / cos.shape[-1]).clamp(-1.0, 1.0).float()
