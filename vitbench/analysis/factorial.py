"""Trained runs to comparisons: main effects and interactions of a factorial, and variants one at a time.

Each comparison is a contrast: a signed sum of cells, such as post - pre, taken in every block of cells that are alike
in all else, and averaged over the blocks within each seed. So n is the number of seeds, however large the grid: blocks
of one seed share their data order and their luck, and are not independent of one another.

- Equivalent implementations compute one function, so equivalent blocks are the same experiment done again: they
  are averaged first, and their group counts as one block.
- Runs of two environments (machine and software) or of two devices never meet in a contrast.
- A run that is still to come, or was made elsewhere, leaves its blocks out in its seed; so do those of a component that
  does not run on the device, in every seed. Which runs these are says nothing about their accuracy.
- A run that failed says much about it. Blocks in which every cell failed in more than one seed are left out: what made
  them fail is none of the contrast's. Of the other blocks, a failed run takes its whole seed out, in all blocks, and
  the seed is counted as failed.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.analysis.frames import PENDING, RUN_OF, level
from vitbench.analysis.grouped import ACCURACY, finished
from vitbench.analysis.verdicts import MOST_FAILED, Comparison

ABSENT = frozenset({"ok", PENDING, "interrupted"})
"""States in which a run without a usable result has not failed: it was made elsewhere, or is still to come."""

ROUNDING = 1e-12  # Part of a result: a difference of means that is no larger comes from adding up floats
LESS = "\N{MINUS SIGN}"
"""Stands between two values in the name of their difference: a hyphen would read as part of a name."""

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]
Blocks = Numbers
"""(blocks, corners) numbers of cells: of two corners, a difference, or of four, a - b - (c - d) of an interaction."""


@dataclass(frozen=True, eq=False)
class Runs:
    """The training runs planned on one device, with the results of one environment.

    Cells and seeds are numbered in the plan's order.
    """

    device: str  # the device
    environment: str  # of the results
    seeds: tuple[int, ...]  # planned, of some cell or other
    levels: Mapping[str, Mapping[str, str]]  # cell → axis → value as text, for the cells of the grid
    function_of: Mapping[str, str]  # cell → label of the first cell that computes the same function; of all cells
    results: Floats  # (cells, seeds), NaN where there is none
    planned: Bools  # (cells, seeds), whether the plan has it: a change of seeds leaves out cells that have stopped
    failed: Bools  # (cells, seeds), whether the run failed or diverged, wherever it did
    unsupported: Bools  # (cells,), whether the cell does not run on the device
    lent: Bools  # (cells, seeds), whether the run is that of an equivalent implementation, which stands for it
    starts: Numbers  # (cells,), numbers of the weights that cells start from; -1 of weights drawn from the seed

    def of_seeds(self, seeds: Sequence[int]) -> "Runs":
        """The runs with some of the seeds, as if no others were planned."""
        wanted = set(seeds)
        places = np.array([i for i, seed in enumerate(self.seeds) if seed in wanted], dtype=np.intp)
        return replace(
            self, seeds=tuple(self.seeds[i] for i in places), results=self.results[:, places],
            planned=self.planned[:, places], failed=self.failed[:, places], lent=self.lent[:, places],
        )  # fmt: skip

    @cached_property
    def number(self) -> dict[str, int]:
        """Cell → its number."""
        return {cell: i for i, cell in enumerate(self.function_of)}

    @cached_property
    def has(self) -> Bools:
        """(cells, seeds), whether there is a result."""
        return np.asarray(~np.isnan(self.results))

    @cached_property
    def functions(self) -> Numbers:
        """(cells,) numbers of what they compute: equal for equivalent implementations."""
        return pd.factorize(np.array([*self.function_of.values()], dtype=object))[0]


def runs_of(train: pd.DataFrame, axes: Iterable[str] = ()) -> list[Runs]:
    """The runs of each device and environment that has a result, in the plan's order.

    Args:
        train: rows of kind "train" of :func:`vitbench.analysis.frames.trials_frame`.
        axes: names of the suite's axes.
    """
    axes = list(axes)
    train = train if RUN_OF in train else train.assign(**{RUN_OF: train["cell"]})
    wanted = ["cell", "seed", "state", "environment", "function", "pretrained_weights", "factorial", RUN_OF, ACCURACY]
    columns = list(dict.fromkeys([*wanted, *axes]))
    return [
        runs
        for device, rows in train.groupby("device", sort=False)[columns]
        for runs in _on_device(str(device), rows, axes)
    ]


def effect(runs: Runs, axes: Mapping[str, Sequence[str]], axis: str, value: str, reference: str) -> Comparison:
    """The main effect of one value of an axis against another, over every matched pair of the grid.

    For seed s, d[s] = mean over blocks b of y[value, b, s] - y[reference, b, s], where a block is a value of each other
    axis.

    Args:
        runs: of one device and environment.
        axes: axis → its values as text: all that the grid is made of. The effect within a part of the grid is that over
            fewer values.
        axis: the one to look at.
        value: of it.
        reference: value that it is compared with.

    Source: Montgomery 2017, Design and Analysis of Experiments, §5.3, with seeds as the replicates.
    """
    blocks = _blocks(runs, axes, [{axis: value}, {axis: reference}])
    return _contrast(_named((axis, value, reference)), runs, blocks, (axis, value, reference))


def reference_of(runs: Runs, axes: Mapping[str, Sequence[str]], axis: str) -> str:
    """The value that an axis' others are compared with: the first that has a result; without any, the first."""
    has = np.any(runs.has, axis=1)
    present = {levels[axis] for cell, levels in runs.levels.items() if has[runs.number[cell]]}
    return next((value for value in axes[axis] if value in present), axes[axis][0])


def interactions(runs: Runs, axes: Mapping[str, Sequence[str]], first: str, second: str) -> list[Comparison]:
    """Interactions of two axes: by how much the effect of one's value changes with the other's.

    For axes A and B with references a0 and b0 and seed s, d[s] = mean over blocks c of
    (y[a, b, c, s] - y[a0, b, c, s]) - (y[a, b0, c, s] - y[a0, b0, c, s]), over every matched quadruple of the grid.

    Args:
        runs: of one device and environment.
        axes: axis → its values as text, in the suite's order: all that the grid is made of.
        first: axis A.
        second: axis B.

    Returns:
        One comparison for each pair of their values but the references, where the plan has such a quadruple. They have
        no arms.

    Source: Montgomery 2017, §5.3.
    """
    comparisons, a0, b0 = [], reference_of(runs, axes, first), reference_of(runs, axes, second)
    for a, b in itertools.product(axes[first], axes[second]):
        corners = [{first: x, second: y} for x, y in ((a, b), (a0, b), (a, b0), (a0, b0))]
        if a != a0 and b != b0 and len(blocks := _blocks(runs, axes, corners)):
            factors = (first, a, a0), (second, b, b0)
            comparisons.append(_contrast(" by ".join(map(_named, factors)), runs, blocks, *factors))
    return comparisons


def one_at_a_time(runs: Runs, cells: Sequence[str] | None = None) -> list[Comparison]:
    """Each cell against the first, seed by seed: d[s] = y[cell, s] - y[first, s].

    Args:
        runs: of one device and environment.
        cells: labels, the baseline first; all in the plan's order where None.

    Returns:
        One comparison for each cell but the first, labelled as the cell.
    """
    baseline, *variants = runs.function_of if cells is None else cells
    return [_contrast(cell, runs, np.array([[runs.number[cell], runs.number[baseline]]])) for cell in variants]


def _named(factor: tuple[str, str, str]) -> str:
    axis, value, reference = factor
    return f"{axis}: {value} {LESS} {reference}"


def _on_device(device: str, rows: pd.DataFrame, axes: list[str]) -> Iterator[Runs]:
    cell, cells = pd.factorize(rows["cell"])
    seed, seeds = pd.factorize(rows["seed"])
    once = rows.drop_duplicates("cell")
    function_of = dict(zip(map(str, cells), map(str, once["function"]), strict=True))
    factorial = once[once["factorial"].astype(bool)]
    levels = {label: dict(zip(axes, map(level, values), strict=True))
              for label, *values in factorial[["cell", *axes]].itertuples(index=False)}  # fmt: skip
    starts = pd.factorize(once["pretrained_weights"])[0]
    shape = len(cells), len(seeds)
    planned, failed, unsupported = (np.zeros(size, dtype=bool) for size in (shape, shape, len(cells)))
    planned[cell, seed] = True
    unsupported[cell[rows["state"] == "unsupported"]] = True
    lent = np.zeros(shape, dtype=bool)
    lent[cell, seed] = (rows[RUN_OF] != rows["cell"]).to_numpy()
    broken = ~rows["state"].isin({*ABSENT, "unsupported"})
    failed[cell[broken], seed[broken]] = True
    usable = finished(rows.assign(cell=cell, seed=seed))
    usable = usable[usable[ACCURACY].notna()]
    for environment, runs in usable.groupby("environment", sort=False):
        results = np.full(shape, np.nan)
        results[runs["cell"], runs["seed"]] = runs[ACCURACY]
        grid = device, str(environment), tuple(map(int, seeds)), levels, function_of
        yield Runs(*grid, results, planned, failed, unsupported, lent, starts)


def _blocks(runs: Runs, axes: Mapping[str, Sequence[str]], corners: Sequence[Mapping[str, str]]) -> Blocks:
    """The planned cells at the corners of a contrast, for each choice of the other axes' values."""
    held = {axis: [corner[axis] for corner in corners] if axis in corners[0] else axes[axis] for axis in axes}
    places = {axis: {value: i for i, value in enumerate(dict.fromkeys(values))} for axis, values in held.items()}
    grid = np.full([len(place) for place in places.values()], -1)
    for cell, levels in runs.levels.items():
        at = tuple([place.get(levels[axis], -1) for axis, place in places.items()])
        if -1 not in at:
            grid[at] = runs.number[cell]
    at_corners = [
        grid[tuple([place[corner[axis]] if axis in corner else slice(None) for axis, place in places.items()])]
        for corner in corners
    ]
    blocks = np.stack([cells.ravel() for cells in at_corners], axis=1)
    return blocks[(blocks >= 0).all(axis=1)]


def _contrast(label: str, runs: Runs, planned: Blocks, *factors: tuple[str, str, str]) -> Comparison:
    """The contrast of some planned blocks, averaged over them within each seed."""
    possible = planned[~runs.unsupported[planned].any(axis=1)]
    known = (runs.failed[possible].sum(axis=2) <= MOST_FAILED).any(axis=1)
    blocks = possible[known] if known.any() else possible
    failed = runs.failed[blocks].any(axis=(0, 1))
    functions_of = np.sort(runs.functions[blocks], axis=1)
    alike = np.any(functions_of[:, 1:] == functions_of[:, :-1], axis=1)
    itself = np.reshape(alike, (-1, 1)) & runs.lent[blocks].any(axis=1)  # a run is no second experiment beside itself
    matched: Bools = np.logical_and(runs.has[blocks].all(axis=1), ~failed) & ~itself
    used, seeds = np.any(matched, axis=1), np.any(matched, axis=0)
    functions, group_of = np.unique(runs.functions[blocks[used]], axis=0, return_inverse=True)
    results = _levelled(runs.results[blocks[used]], matched[used], seeds)
    means = _means(results, matched[used], group_of.ravel())[:, seeds]
    # An interaction, a - b - (c - d), is that of a + d against b + c: two arms, which are equal where it is none.
    variant, baseline = means if len(means) == 2 else (means[0] + means[3], means[1] + means[2])
    cells, starts, equivalent = list(runs.function_of), runs.starts[planned], _are_equivalent(runs.functions[planned])
    return Comparison(
        label=label,
        deltas=tuple(_signed_sum(means).tolist()),
        planned=int(runs.planned[planned].all(axis=1).any(axis=0).sum()),
        failed=len(runs.seeds) if len(planned) and not len(possible) else int(failed.sum()),
        variant=tuple(variant.tolist()),
        baseline=tuple(baseline.tolist()),
        seeds=tuple(itertools.compress(runs.seeds, seeds)),
        blocks=int(used.sum()),
        distinct=len(functions),
        factors=factors,
        cells=tuple(cells[number] for number in planned[0]) if planned.shape == (1, 2) else (),
        equivalent=equivalent,
        paired=equivalent or bool(len(planned) and (starts >= 0).all() and (starts == starts[:, :1]).all()),
        key=bytes(planned.shape[1:]) + np.unique(np.sort(planned, axis=1), axis=0).tobytes() if len(planned) else b"",
        lent=bool(len(blocks) and itself.any(axis=1).all()),
    )


def cells_of(comparison: Comparison) -> Numbers:
    """Numbers of the cells whose runs a comparison uses, by its key."""
    return np.unique(np.frombuffer(comparison.key[1:], dtype=np.intp))


def _are_equivalent(functions: Numbers) -> bool:
    """Whether a contrast's cells are equivalent along one of its axes, by their functions: (blocks, corners)."""
    corners = functions.shape[1]
    along = [((0, 1),)] if corners == 2 else [((0, 1), (2, 3)), ((0, 2), (1, 3))]
    return bool(len(functions)) and any(
        all(np.array_equal(functions[:, one], functions[:, other]) for one, other in pairs) for pairs in along
    )


def _levelled(results: Floats, matched: Bools, seeds: Bools) -> Floats:
    """(blocks, corners, seeds): where seeds have other blocks than one another, all blocks at one level.

    Else a block of high accuracy that is missing in a seed lowers both arms there, which looks like noise. A block's
    differences stay.
    """
    if matched[:, seeds].all():
        return results
    levels = np.mean(results, axis=(1, 2), where=matched[:, None], keepdims=True)
    return np.asarray(results - levels + levels.mean())


def _means(results: Floats, matched: Bools, group_of: Numbers) -> Floats:
    """The mean result of each cell of a contrast over the blocks of each seed, with equivalent blocks as one.

    For corner k and seed s, the mean over groups g of the mean over blocks b of g of results[b, k, s], where only
    matched blocks count, and only groups with one.

    Args:
        results: (blocks, corners, seeds).
        matched: (blocks, seeds), whether a block is matched in a seed.
        group_of: (blocks,), the number of the group of equivalents that each belongs to.

    Returns:
        (corners, seeds); 0 in a seed without any matched block.
    """
    if not len(results):
        return np.zeros(results.shape[1:])
    # From blocks to (place in its group, group), so that the sums over equivalents are sums over an axis.
    place = pd.Series(group_of).groupby(group_of).cumcount().to_numpy()
    groups = int(group_of.max()) + 1
    counts = np.zeros((groups, matched.shape[1]))
    np.add.at(counts, group_of, matched)
    apart = np.zeros((int(place.max()) + 1, groups, *results.shape[1:]))
    apart[place, group_of] = np.where(matched[:, None], results, 0.0)
    of_groups = _sums(apart) / np.maximum(counts, 1)[:, None]
    return np.asarray(_sums(of_groups) / np.maximum((counts > 0).sum(axis=0), 1))


def _sums(values: Floats) -> Floats:
    """(m, …) → (…): sums over the first axis, rounded once, so that equal results have equal means in any order."""
    if len(values) == 1:
        return np.asarray(values[0])
    columns = values.reshape(len(values), -1).T.tolist()
    return np.array([math.fsum(column) for column in columns]).reshape(values.shape[1:])


def _signed_sum(corners: Floats) -> Floats:
    """(corners, n) → (n,): a difference, or a difference of differences; what is left of rounding alone is 0."""
    differences = corners[::2] - corners[1::2]
    sums = differences[0] - differences[1:].sum(axis=0)
    return np.where(np.abs(sums) > ROUNDING * np.abs(corners).max(axis=0), sums, 0.0)
