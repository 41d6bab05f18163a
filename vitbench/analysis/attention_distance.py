"""Explanations as numbers: which positions of a trained model are alike, and how far its heads look."""

import math
from dataclasses import dataclass

import numpy as np

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.store.explanation import Array, Explanation

NEAR = 0.5  # Share of the distance that attention has which is the same to all patches, below which a head looks near


@dataclass(frozen=True)
class Likeness:
    """Mean cosine similarity of the positions of two patches, by where these lie; not a number of what a grid lacks."""

    touching: float  # of patches that touch, at a corner too
    row: float  # of others in one row, and in one column
    column: float
    others: float  # of all other pairs
    chance: float  # two standard deviations of the cosine of two random vectors of as many numbers, 2 / sqrt(D)

    def shows(self, value: float) -> bool | None:
        """Whether patches of a kind are more alike than the others by more than chance; None where there are none."""
        return value - self.others > self.chance if math.isfinite(value - self.others) else None


@dataclass(frozen=True)
class Reach:
    """How far heads look, pixels of the image: mean attention distances."""

    first: tuple[float, float]  # the nearest and the farthest head of the first layer
    uniform: float  # of attention that is the same to all patches
    near: int  # heads below ``NEAR`` of that
    heads: int  # all of them


def likeness(explanation: Explanation) -> Likeness | None:
    """How alike the positions of patches are; None where the explanation compares none."""
    if (similarity := explanation.similarity) is None:
        return None
    spec = explanation.about.model
    y, x = np.divmod(np.arange(spec.patches), spec.grid[1])
    down, across = np.abs(y[:, None] - y), np.abs(x[:, None] - x)
    apart = np.maximum(down, across)

    def mean(chosen: Array) -> float:
        return float(similarity[chosen].mean(dtype=np.float64)) if chosen.any() else math.nan

    far = apart > 1
    row, column = far & (down == 0), far & (across == 0)
    return Likeness(mean(apart == 1), mean(row), mean(column), mean(far & ~row & ~column), 2 * spec.dim**-0.5)


def reach(explanation: Explanation) -> Reach | None:
    """How far heads attend; None where the explanation has no attention distances."""
    if (values := explanation.distances) is None:
        return None
    uniform = uniform_distance(explanation.about.model)
    first = float(values[0].min()), float(values[0].max())
    return Reach(first, uniform, int((values < NEAR * uniform).sum()), values.size)


def uniform_distance(spec: ModelSpec) -> float:
    """Mean distance of the centres of two patches, each of them any, pixels: of attention that is the same to all."""
    (down, often), (across, often_across) = (
        (size * np.arange(count), np.where(np.arange(count), 2.0, 1.0) * (count - np.arange(count)) / count**2)
        for count, size in zip(spec.grid, pair(spec.patch_size), strict=True)
    )
    return float((np.hypot.outer(down, across) * np.outer(often, often_across)).sum())
