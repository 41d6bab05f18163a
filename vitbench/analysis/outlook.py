"""What a suite can show before it is run: the smallest effect of its seeds. Neither numpy nor pandas nor torch."""

from __future__ import annotations

import math

from vitbench import registry
from vitbench.analysis.design import conditions, images
from vitbench.analysis.multiplicity import seeds_for
from vitbench.analysis.power import POWER, smallest_effect
from vitbench.spec.base import by_identity
from vitbench.spec.suite import Suite

ONE = {"effects of axes": "effect of an axis", "cells against the first": "cell against the first", "claims": "claim"}


def outlook(suite: Suite) -> list[str]:
    """A sentence for each family of comparisons that the report will judge; none where nothing is trained.

    The unit is the standard deviation of the paired differences, which nobody knows before the runs. On CIFAR-10 the
    standard deviation between runs is 0.07 to 0.2 points with all of its images (Brokttv/Vit-on-small-data); that of
    differences is at most √2 times as much, and less where a shared seed brings runs closer together.
    """
    seeds = min((len(cell.seeds) for cell in suite.cells if cell.train is not None), default=0)
    return [_sentence(name, count, seeds) for name, count in families(suite).items()] if seeds else []


def families(suite: Suite) -> dict[str, int]:
    """Name of a family → how many comparisons it has."""
    found = {}
    grid = [cell for cell in suite.cells if cell.axes.keys() == suite.axes.keys()]
    shown = by_identity(images)
    given = conditions((cell.axes, shown(cell.data, cell.model.num_classes)) for cell in grid)
    under_study = [axis for axis in suite.axes if axis not in given and not all_exact(suite, axis)]
    if effects := sum(len(suite.axes[axis]) - 1 for axis in under_study):
        found["effects of axes"] = effects
    grid_axes = suite.axes.keys()
    first, outside = suite.cells[0], [c for c in suite.cells if not suite.axes or c.axes.keys() != grid_axes]
    if named := sum(cell is not first for cell in outside):
        found["cells against the first"] = named
    if suite.facts:
        found["claims"] = len(suite.facts)
    return found


def all_exact(suite: Suite, axis: str) -> bool:
    """Whether the values of an axis are exact twins of one another."""
    return axis in registry.slots() and all(registry.facts(axis, str(name)).exact for name in suite.axes[axis])


def _sentence(family: str, comparisons: int, seeds: int) -> str:
    counted = f"{comparisons} {family if comparisons > 1 else ONE[family]}"
    several = f"{seeds} seeds" if seeds > 1 else "1 seed"
    least = smallest_effect(seeds, comparisons)
    if math.isinf(least):
        return (f"{counted}, {several}: underpowered, whatever the effect; "
                f"{seeds_for(comparisons)} seeds are the fewest that can show any")  # fmt: skip
    return (f"{counted}, {several}: the smallest effect found {POWER:.0%} of the time is "
            f"{least:.2f} standard deviations of the differences between paired runs")  # fmt: skip
