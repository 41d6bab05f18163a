"""Trials grouped: cells over their seeds, an axis' values over matched blocks, equivalent implementations compared.

Means, their intervals, spreads and counts only. Tests and verdicts are to be built on the same blocks.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vitbench.analysis.columnar import factorized
from vitbench.analysis.frames import level, where
from vitbench.analysis.paired import Interval, interval
from vitbench.store.record import STATES

ACCURACY, VALIDATION = "test_accuracy_pct", "validation_accuracy_pct"
TRAIN_BLOCK = ("device", "environment", "seed")
"""Columns in which two training runs of a matched pair agree, beside every axis but one."""
TIME_BLOCK = ("device", "dtype", "batch_size", "mode", "level", "level_shape", "environment")
"""Columns in which two timings of a matched pair agree, beside every axis but one."""

OF_CELL = ("parameters", "forward_flops", "train_flops", "steps", "test_images")
"""Values that every run of a cell shares."""
RATES = ("train_images_per_s", "epoch_images_per_s", "trial_images_per_s", "step_ms_p50", "first_step_ms",
         "warm_up_seconds", "of_peak", "ensemble_size")  # fmt: skip
"""Values of which a cell has the median over its runs, and their deviation."""


@dataclass(frozen=True)
class Matched:
    """One axis over matched blocks: a block is a value of each other axis, a seed (or timing), an environment."""

    axis: str
    # blocks × values of the axis, in the suite's order. Only values with any result are columns, and only blocks in
    # which each of them has one are rows
    table: pd.DataFrame
    incomplete: int  # blocks with some result that are left out, since another of the columns has none there

    @property
    def reference(self) -> str:
        """The value that the others are compared with: the first that has a result."""
        return str(self.table.columns[0])

    def differences(self) -> pd.DataFrame:
        """Blocks × values: each value's result less the reference's in the same block."""
        return self.table.sub(self.table.iloc[:, 0], axis=0) if len(self.table.columns) else self.table

    def ratios(self) -> pd.DataFrame:
        """Blocks × values: each value's result over the reference's in the same block."""
        return self.table.div(self.table.iloc[:, 0], axis=0) if len(self.table.columns) else self.table


@dataclass(frozen=True)
class NoiseFloor:
    """How far results differ that ought not to: cells of the same function, trained from the same seed."""

    groups: int  # sets of two or more equivalent implementations, each of one seed and one environment
    runs: int  # trials in them
    largest: float  # largest absolute difference between two of a group
    std: float  # standard deviation within groups, pooled: square root of Σ(x - group mean)² / Σ(group size - 1)


def words(states: Iterable[str]) -> str:
    """The states of some trials as a reader wants them: "ok", "failed", "4 ok, 1 failed"."""
    count = Counter(states)
    order = [*(s for s in STATES if s in count), *(s for s in count if s not in STATES)]
    if len(order) == 1:
        return order[0]
    return ", ".join(f"{count[state]} {state}" for state in order)


def over_seeds(train: pd.DataFrame) -> pd.DataFrame:
    """One row for each device, cell and environment with a finished run; results of two environments never mix.

    Columns: device, cell, environment, n (runs), planned (seeds of the cell on the device), test_accuracy_pct_mean and
    _std (percentage points, missing for n = 1), _low and _high (ends of the mean's 95 % interval, missing likewise),
    validation_accuracy_pct_mean and _std (last epoch, missing where any run has none), :data:`RATES` (medians), each
    with its _std, seconds_mean and _std, peak_memory_mib (median), parameters, forward_flops, train_flops and steps (of
    a run), test_images. Every _std is a sample standard deviation.

    Args:
        train: rows of kind "train" of :func:`vitbench.analysis.frames.trials_frame`, with the column
            validation_accuracy_pct joined to it.
    """
    measured = finished(train.assign(planned=train.groupby(["device", "cell"], sort=False)["state"].transform("size")))
    groups = where(measured, measured[ACCURACY].notna()).groupby(["device", "cell", "environment"], sort=False)
    cells = groups.agg(
        n=(ACCURACY, "size"),
        planned=("planned", "first"),
        **_mean_and_std(ACCURACY),
        accuracies=(ACCURACY, list),
        validated=(VALIDATION, "count"),
        **_mean_and_std(VALIDATION),
        **{column: of for name in RATES for column, of in ((name, (name, "median")), (f"{name}_std", (name, "std")))},
        **_mean_and_std("seconds"),
        peak_memory_mib=("peak_memory_mib", "median"),
        **{name: (name, "first") for name in OF_CELL},
    ).reset_index()
    some_missing = cells.pop("validated") < cells["n"]
    for name in _mean_and_std(VALIDATION):
        cells[name] = cells[name].mask(some_missing)
    place, ends = [*cells].index("accuracies"), [accuracy_interval(values) for values in cells.pop("accuracies")]
    cells.insert(place, f"{ACCURACY}_low", [each.low for each in ends])
    cells.insert(place + 1, f"{ACCURACY}_high", [each.high for each in ends])
    return cells


def _mean_and_std(name: str) -> dict[str, tuple[str, str]]:
    return {f"{name}_{of}": (name, of) for of in ("mean", "std")}


def accuracy_interval(accuracies: Sequence[float]) -> Interval:
    """The 95 % interval of a mean accuracy, percent, cut off at 0 and 100, beyond which there is none; NaN of one."""
    ends = interval(accuracies)
    return Interval(max(ends.low, 0.0), min(ends.high, 100.0))  # of NaN the first stays


def finished(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that are ok; an environment that a record does not name is the word "unknown"."""
    ok = where(trials, trials["state"] == "ok")
    return ok.assign(environment=ok["environment"].astype(object).where(ok["environment"].notna(), "unknown"))


def matched(
    trials: pd.DataFrame, axes: Mapping[str, Sequence[str]], axis: str, value: str, within: Sequence[str]
) -> Matched:
    """One axis of the full factorial over matched blocks.

    Args:
        trials: rows of :func:`vitbench.analysis.frames.trials_frame`; those outside the grid are left out.
        axes: axis → its values as text, in the suite's order.
        axis: the one to look at.
        value: column of the result.
        within: columns that two results of a block share beside the other axes.
    """
    shared = [*(name for name in axes if name != axis), *within]
    usable = finished(trials[list(dict.fromkeys(["state", "environment", "factorial", value, axis, *shared]))])
    usable = usable[usable["factorial"].astype(bool) & usable[value].notna()]
    keys = pd.DataFrame({name: texts(usable[name]) for name in [*shared, axis]})
    results = keys.assign(result=usable[value].to_numpy()).drop_duplicates([*shared, axis])
    table = results.pivot_table(index=shared, columns=axis, values="result", sort=False)
    table = table[[each for each in axes[axis] if each in table]]
    complete = table.dropna()
    return Matched(axis, complete.reset_index(drop=True), len(table) - len(complete))


def texts(column: "pd.Series[Any]") -> list[str]:
    """A column's values as text; 1, 1.0 and true are equal, and their texts are not."""
    codes, distinct = factorized(column.tolist())
    return [*map([level(value) for value in distinct].__getitem__, codes)]


def noise_floor_of(train: pd.DataFrame) -> NoiseFloor | None:
    """The spread between equivalent implementations trained from the same seed; None where no two of them finished."""
    keys = [*TRAIN_BLOCK, "function"]
    usable = finished(train[[*keys, "cell", "state", ACCURACY]])
    usable = usable[usable[ACCURACY].notna()].drop_duplicates([*keys, "cell"])
    alike = usable[usable.duplicated(keys, keep=False)]  # most runs of most studies have no equivalent
    if alike.empty:
        return None
    groups = alike.groupby(keys, sort=False)[ACCURACY]
    spread = groups.max() - groups.min()
    squares = (alike[ACCURACY] - groups.transform("mean")) ** 2
    freedom = len(alike) - len(spread)
    return NoiseFloor(len(spread), len(alike), float(spread.max()), math.sqrt(squares.sum() / freedom))


def by_effect(axes: Iterable[Matched]) -> list[str]:
    """Names of the axes, the one first whose values' means lie furthest apart."""
    ranges = {m.axis: float(np.ptp(m.table.mean().to_numpy())) if len(m.table) else -1.0 for m in axes}
    return sorted(ranges, key=lambda axis: -ranges[axis])
