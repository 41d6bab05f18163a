"""Trials grouped: cells over their seeds, an axis' values over matched blocks, twins against one another.

Means, spreads and counts only. Intervals, tests and verdicts are to be built on the same blocks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vitbench.analysis.frames import level
from vitbench.store.record import STATES

ACCURACY = "test_accuracy_pct"
TRAIN_BLOCK = ("device", "origin", "seed")
"""What two training runs share, beside every axis but one, to be a matched pair."""
TIME_BLOCK = ("device", "dtype", "batch_size", "mode", "level", "level_shape", "origin")
"""The same for two timings."""

CELL = ["device", "cell", "origin", "n", "planned", f"{ACCURACY}_mean", f"{ACCURACY}_std",
        "validation_accuracy_pct_mean", "train_images_per_s", "step_ms_p50", "first_step_ms", "seconds_mean",
        "peak_memory_mib", "parameters", "forward_flops", "train_flops", "steps", "test_images"]  # fmt: skip


@dataclass(frozen=True)
class Matched:
    """One axis over matched blocks: a block is a value of each other axis, a seed (or timing), an origin.

    Attributes:
        axis: its name.
        table: blocks × values of the axis, in the suite's order. Only values with any result are columns, and
            only blocks in which each of them has one are rows.
        absent: values of the axis without any result.
        incomplete: blocks with some result that are left out, since another of the columns has none there.
        distinct: rows that are no exact twin of an earlier one. Twins trained from one seed are one experiment
            done twice: a mean over them is no more certain for it.
    """

    axis: str
    table: pd.DataFrame
    absent: tuple[str, ...]
    incomplete: int
    distinct: int

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
class TwinNoise:
    """How far results differ that ought not to: cells of the same function, trained from the same seed.

    Attributes:
        groups: sets of two or more twins, each of one seed and one origin.
        runs: trials in them.
        largest: largest absolute difference between two twins of a group.
        std: standard deviation within groups, pooled: square root of Σ(x - group mean)² / Σ(group size - 1).
    """

    groups: int
    runs: int
    largest: float
    std: float


def words(states: Iterable[str]) -> str:
    """The states of some trials as a reader wants them: "ok", "failed", "4 ok, 1 failed"."""
    count = Counter(states)
    order = [*(s for s in STATES if s in count), *(s for s in count if s not in STATES)]
    if len(order) == 1:
        return order[0]
    return ", ".join(f"{count[state]} {state}" for state in order)


def over_seeds(train: pd.DataFrame) -> pd.DataFrame:
    """One row for each device, cell and origin with a finished run; results of two origins never mix.

    Columns: device, cell, origin; n (runs); planned (seeds of the cell on the device);
    test_accuracy_pct_mean and _std (sample standard deviation, percentage points; missing for n = 1);
    validation_accuracy_pct_mean (last epoch; missing where any run has none); train_images_per_s,
    step_ms_p50 and first_step_ms (medians); seconds_mean; peak_memory_mib (largest); parameters;
    forward_flops; train_flops and steps (of a run); test_images.

    Args:
        train: rows of kind "train" of :func:`vitbench.analysis.frames.trials_frame`, with the column
            validation_accuracy_pct joined to it.
    """
    planned = Counter(zip(train["device"], train["cell"], strict=True))
    measured = finished(train)
    measured = measured[measured[ACCURACY].notna()]
    groups = measured.groupby(["device", "cell", "origin"], sort=False)
    if len(measured) and groups.ngroups == len(measured):  # one run each: nothing to average
        return _of_single_runs(measured, planned)
    rows = [
        {
            "device": device,
            "cell": cell,
            "origin": origin,
            "n": len(runs),
            "planned": planned[str(device), str(cell)],
            f"{ACCURACY}_mean": runs[ACCURACY].mean(),
            f"{ACCURACY}_std": runs[ACCURACY].std(ddof=1) if len(runs) > 1 else math.nan,
            "validation_accuracy_pct_mean": runs["validation_accuracy_pct"].mean(skipna=False),
            "train_images_per_s": runs["train_images_per_s"].median(),
            "step_ms_p50": runs["step_ms_p50"].median(),
            "first_step_ms": runs["first_step_ms"].median(),
            "seconds_mean": runs["seconds"].mean(),
            "peak_memory_mib": runs["peak_memory_mib"].max(),
            "parameters": runs["parameters"].iloc[0],
            "forward_flops": runs["forward_flops"].iloc[0],
            "train_flops": runs["train_flops"].iloc[0],
            "steps": runs["steps"].iloc[0],
            "test_images": runs["test_images"].iloc[0],
        }
        for (device, cell, origin), runs in groups
    ]
    return pd.DataFrame(rows, columns=CELL)


def _of_single_runs(measured: pd.DataFrame, planned: Mapping[tuple[str, str], int]) -> pd.DataFrame:
    keys = zip(measured["device"], measured["cell"], strict=True)
    renamed = {ACCURACY: f"{ACCURACY}_mean", "validation_accuracy_pct": "validation_accuracy_pct_mean",
               "seconds": "seconds_mean"}  # fmt: skip
    frame = measured.rename(columns=renamed).reset_index(drop=True)
    frame["n"], frame[f"{ACCURACY}_std"] = 1, math.nan
    frame["planned"] = [planned[str(device), str(cell)] for device, cell in keys]
    return frame[list(CELL)]


def finished(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that are ok; the origin of one whose record tells no environment is the word "unknown"."""
    ok = trials[trials["state"] == "ok"]
    return ok.assign(origin=ok["origin"].astype(object).where(ok["origin"].notna(), "unknown"))


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
    usable = finished(trials)
    usable = usable[usable["factorial"].astype(bool) & usable[value].notna()]
    others = [name for name in axes if name != axis]
    blocks: dict[tuple[str, ...], dict[str, float]] = {}
    functions: dict[tuple[str, ...], dict[str, str]] = {}
    keys = zip(*(texts(usable[name]) for name in [*others, *within]), strict=True)
    rows = zip(keys, texts(usable[axis]), usable[value].tolist(), usable["twin"].tolist(), strict=True)
    for key, mine, number, twin in rows:
        blocks.setdefault(key, {}).setdefault(mine, number)
        functions.setdefault(key, {}).setdefault(mine, twin)
    present = [v for v in axes[axis] if any(v in block for block in blocks.values())]
    complete = {key: block for key, block in blocks.items() if all(v in block for v in present)}
    table = pd.DataFrame([[block[v] for v in present] for block in complete.values()], columns=present, dtype="float64")
    absent = tuple(v for v in axes[axis] if v not in present)
    same = {(tuple(functions[key][v] for v in present), key[len(others) :]) for key in complete}
    return Matched(axis, table, absent, len(blocks) - len(complete), len(same))


def texts(column: pd.Series[Any]) -> list[str]:
    """A column's values as text, each distinct one written once."""
    known: dict[tuple[type, Any], str] = {}
    return [known.get((type(v), v)) or known.setdefault((type(v), v), level(v)) for v in column.tolist()]


def twin_noise(train: pd.DataFrame, value: str = ACCURACY) -> TwinNoise | None:
    """The spread between exact twins trained from the same seed; None where no two of them finished."""
    spreads, squares, freedom, runs = [], 0.0, 0, 0
    usable = finished(train)
    usable = usable[usable[value].notna()]
    alike = usable[usable.duplicated([*TRAIN_BLOCK, "twin"], keep=False)]  # most runs of most studies have no twin
    for _, twins in alike.groupby([*TRAIN_BLOCK, "twin"], sort=False):
        one_each = twins.drop_duplicates("cell")[value].to_numpy()
        if len(one_each) > 1:
            spreads.append(float(np.ptp(one_each)))
            squares += float(np.square(one_each - one_each.mean()).sum())
            freedom += len(one_each) - 1
            runs += len(one_each)
    return TwinNoise(len(spreads), runs, max(spreads), math.sqrt(squares / freedom)) if spreads else None


def by_effect(found: Iterable[Matched]) -> list[str]:
    """Names of the axes, the one first whose values' means lie furthest apart."""
    ranges = {m.axis: float(np.ptp(m.table.mean().to_numpy())) if len(m.table) else -1.0 for m in found}
    return sorted(ranges, key=lambda axis: -ranges[axis])
