"""Trained runs to comparisons: main effects and interactions of a factorial, and variants one at a time.

Each comparison is a contrast: a signed sum of cells, such as post - pre, taken in every block of cells that are alike
in all else, and averaged over the blocks within each seed. So n is the number of seeds, however large the grid: blocks
of one seed share their data order and their luck, and are not independent of one another.

- Exact twins compute one function, so blocks that are twins of one another are the same experiment done again: they
  are averaged first, and their group counts as one block.
- Runs of two origins (machine and software) or of two devices never meet in a contrast.
- A run that is still to come, or was made elsewhere, leaves its blocks out in its seed; so do those of a component that
  does not run on the device, in every seed. Which runs these are says nothing about their accuracy.
- A run that failed says much about it. Blocks in which every cell failed in more than one seed are left out: what made
  them fail is none of the contrast's. Of the other blocks, a failed run takes its whole seed out, in all blocks, and
  the seed is counted as failed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import pandas as pd

from vitbench.analysis.frames import PENDING, level
from vitbench.analysis.summary import ACCURACY, finished
from vitbench.analysis.verdicts import MOST_FAILED, Comparison

ABSENT = frozenset({"ok", PENDING, "interrupted"})
"""States in which a run without a usable result has not failed: it was made elsewhere, or is still to come."""

ROUNDING = 1e-12
"""Of a result: a difference of means that is no larger comes from adding up floats."""

Block = tuple[str, ...]
"""Cells of a contrast: two, of a difference, or four, a - b - (c - d) of an interaction."""


@dataclass(frozen=True)
class Runs:
    """The training runs planned on one device, with the results of one origin.

    Attributes:
        device: the device.
        origin: of the results.
        seeds: planned, in the plan's order.
        levels: cell → axis → value as text, for the cells of the grid; in the plan's order.
        twins: cell → label of the first cell that computes the same function; in the plan's order.
        results: (cell, seed) → result.
        failed: (cell, seed) of the runs that failed or diverged, wherever they did.
        unsupported: cells that do not run on the device.
    """

    device: str
    origin: str
    seeds: tuple[int, ...]
    levels: Mapping[str, Mapping[str, str]]
    twins: Mapping[str, str]
    results: Mapping[tuple[str, int], float]
    failed: frozenset[tuple[str, int]]
    unsupported: frozenset[str]


def runs_of(train: pd.DataFrame, axes: Iterable[str] = (), value: str = ACCURACY) -> list[Runs]:
    """The runs of each device and origin that has a result, in the plan's order.

    Args:
        train: rows of kind "train" of :func:`vitbench.analysis.frames.trials_frame`.
        axes: names of the suite's axes.
        value: column of the result.
    """
    found = []
    for device, rows in train.groupby("device", sort=False):
        usable = finished(rows)
        usable = usable[usable[value].notna()]
        for origin, mine in usable.groupby("origin", sort=False):
            results = {
                (str(cell), int(seed)): float(result)
                for cell, seed, result in zip(mine["cell"], mine["seed"], mine[value], strict=True)
            }
            found.append(_runs(str(device), str(origin), rows, list(axes), results))
    return found


def main_effects(runs: Runs, axes: Mapping[str, Sequence[str]], among: Iterable[str] | None = None) -> list[Comparison]:
    """The :func:`effect` of each value of each axis against the axis' reference.

    Args:
        runs: of one device and origin.
        axes: axis → its values as text, in the suite's order: all that the grid is made of.
        among: axes to compare, such as the scientific ones; all where None.

    Returns:
        One comparison for each axis and each of its values but the reference, in the suite's order.
    """
    return [
        effect(runs, axes, axis, value, reference)
        for axis in _among(axes, among)
        for reference in [reference_of(runs, axes, axis)]
        for value in axes[axis]
        if value != reference
    ]


def effect(runs: Runs, axes: Mapping[str, Sequence[str]], axis: str, value: str, reference: str) -> Comparison:
    """The main effect of one value of an axis against another, over every matched pair of the grid.

    For seed s, d[s] = mean over blocks b of y[value, b, s] - y[reference, b, s], where a block is a value of each other
    axis.

    Args:
        runs: of one device and origin.
        axes: axis → its values as text: all that the grid is made of. The effect within a part of the grid is that over
            fewer values.
        axis: the one to look at.
        value: of it.
        reference: value that it is compared with.

    Source: Montgomery 2017, Design and Analysis of Experiments, §5.3, with seeds as the replicates.
    """
    blocks = _blocks(runs, axes, [{axis: value}, {axis: reference}])
    return _contrast(f"{axis}: {value} - {reference}", runs, blocks)


def reference_of(runs: Runs, axes: Mapping[str, Sequence[str]], axis: str) -> str:
    """The value that an axis' others are compared with: the first that has a result; without any, the first."""
    present = {runs.levels[cell][axis] for cell, _ in runs.results if cell in runs.levels}
    return next((value for value in axes[axis] if value in present), axes[axis][0])


def interactions(runs: Runs, axes: Mapping[str, Sequence[str]], among: Iterable[str] | None = None) -> list[Comparison]:
    """Two-way interactions: by how much the effect of one axis' value changes with another axis' value.

    For axes A and B with references a0 and b0 and seed s, d[s] = mean over blocks c of
    (y[a, b, c, s] - y[a0, b, c, s]) - (y[a, b0, c, s] - y[a0, b0, c, s]), over every matched quadruple of the grid.

    Args:
        runs: of one device and origin.
        axes: axis → its values as text, in the suite's order: all that the grid is made of.
        among: axes to pair; all where None.

    Returns:
        One comparison for each pair of axes and each pair of their values but the references, where the plan has such
        a quadruple. They have no arms.

    Source: Montgomery 2017, §5.3.
    """
    found = []
    for first, second in itertools.combinations(_among(axes, among), 2):
        a0, b0 = reference_of(runs, axes, first), reference_of(runs, axes, second)
        for a, b in itertools.product(axes[first], axes[second]):
            corners = [{first: x, second: y} for x, y in ((a, b), (a0, b), (a, b0), (a0, b0))]
            if a != a0 and b != b0 and (blocks := _blocks(runs, axes, corners)):
                found.append(_contrast(f"{first}: {a} - {a0} by {second}: {b} - {b0}", runs, blocks))
    return found


def one_at_a_time(runs: Runs, cells: Sequence[str] | None = None) -> list[Comparison]:
    """Each cell against the first, seed by seed: d[s] = y[cell, s] - y[first, s].

    Args:
        runs: of one device and origin.
        cells: labels, the baseline first; all in the plan's order where None.

    Returns:
        One comparison for each cell but the first, labelled as the cell.
    """
    baseline, *variants = runs.twins if cells is None else cells
    return [_contrast(cell, runs, [(cell, baseline)]) for cell in variants]


def _runs(device: str, origin: str, rows: pd.DataFrame, axes: list[str], results: dict[tuple[str, int], float]) -> Runs:
    levels: dict[str, dict[str, str]] = {}
    twins: dict[str, str] = {}
    failed, unsupported = set(), set()
    for row in rows[list(dict.fromkeys(["cell", "state", "twin", "factorial", "seed", *axes]))].to_dict("records"):
        cell, state = str(row["cell"]), str(row["state"])
        twins[cell] = str(row["twin"])
        if row["factorial"]:
            levels[cell] = {axis: level(row[axis]) for axis in axes}
        if state == "unsupported":
            unsupported.add(cell)
        elif state not in ABSENT:
            failed.add((cell, int(row["seed"])))
    seeds = tuple(dict.fromkeys(map(int, rows["seed"])))
    return Runs(device, origin, seeds, levels, twins, results, frozenset(failed), frozenset(unsupported))


def _among(axes: Mapping[str, Sequence[str]], among: Iterable[str] | None) -> list[str]:
    wanted = set(axes if among is None else among)
    return [axis for axis in axes if axis in wanted and len(axes[axis]) > 1]


def _blocks(runs: Runs, axes: Mapping[str, Sequence[str]], corners: Sequence[Mapping[str, str]]) -> list[Block]:
    """The planned cells at the corners of a contrast, for each choice of the other axes' values."""
    grid = {tuple(levels[axis] for axis in axes): cell for cell, levels in runs.levels.items()}
    others = [axis for axis in axes if axis not in corners[0]]
    found = []
    for choice in itertools.product(*(axes[axis] for axis in others)):
        block = [{**dict(zip(others, choice, strict=True)), **corner} for corner in corners]
        keys = [tuple(levels[axis] for axis in axes) for levels in block]
        if all(key in grid for key in keys):
            found.append(tuple(grid[key] for key in keys))
    return found


def _contrast(label: str, runs: Runs, planned: Sequence[Block]) -> Comparison:
    """The contrast of some planned blocks, averaged over them within each seed."""
    failures = Counter(cell for cell, _ in runs.failed)
    possible = [block for block in planned if not runs.unsupported.intersection(block)]
    blocks = [block for block in possible if any(failures[cell] <= MOST_FAILED for cell in block)] or possible
    failed = {seed for seed in runs.seeds if any((cell, seed) in runs.failed for block in blocks for cell in block)}
    matched = {
        seed: [block for block in blocks if all((cell, seed) in runs.results for cell in block)]
        for seed in runs.seeds
        if seed not in failed
    }
    means = {seed: _means(runs, seed, found) for seed, found in matched.items() if found}
    used = {block for found in matched.values() for block in found}
    arms = [tuple(corners) for corners in zip(*means.values(), strict=True)]
    variant, baseline = arms if len(arms) == 2 else ((), ())  # an interaction has four
    return Comparison(
        label=label,
        deltas=tuple(_signed_sum(corners) for corners in means.values()),
        planned=len(runs.seeds),
        failed=len(runs.seeds) if planned and not possible else len(failed),
        variant=variant,
        baseline=baseline,
        seeds=tuple(means),
        blocks=len(used),
        distinct=len({_functions(runs, block) for block in used}),
        unmatched=len(planned) * len(runs.seeds) - sum(map(len, matched.values())),
    )


def _means(runs: Runs, seed: int, blocks: Sequence[Block]) -> list[float]:
    """The mean result of each cell of a contrast over the blocks of one seed, with blocks that are twins as one."""
    groups: dict[Block, list[Block]] = {}
    for block in blocks:
        groups.setdefault(_functions(runs, block), []).append(block)
    return [
        fmean(fmean(runs.results[block[corner], seed] for block in twins) for twins in groups.values())
        for corner in range(len(blocks[0]))
    ]


def _functions(runs: Runs, block: Block) -> Block:
    """What a block's cells compute: equal for blocks that are exact twins."""
    return tuple(runs.twins[cell] for cell in block)


def _signed_sum(corners: Sequence[float]) -> float:
    """A difference, or a difference of differences; what is left of rounding alone is 0."""
    differences = [a - b for a, b in zip(corners[::2], corners[1::2], strict=True)]
    found = differences[0] - sum(differences[1:])
    return found if abs(found) > ROUNDING * max(map(abs, corners)) else 0.0
