"""Speedups: how much faster training runs are with one value of an axis than with another, pair by pair.

A pair is two runs of one seed that are alike in every other axis. Runs of one seed are near one another in time, for a
study runs seed by seed: what drifts between them falls out of their ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from vitbench.analysis.paired import Interval, interval
from vitbench.analysis.summary import finished, texts

RATE = "train_images_per_s"
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Speedup:
    """The speed of training runs with one value of an axis over that with another.

    Attributes:
        axis: its name.
        value: of it.
        against: value that it is compared with.
        pairs: number of matched pairs of runs.
        ratio: times as fast, the median over the pairs: a run that something else held up moves it little.
        low, high: quartiles over the pairs: between them lies the middle half.
        seeds: in which there is a pair; seeds that one program trained together count as one.
        interval: 95 % confidence interval of the geometric mean over seeds of the median of each; NaN of one seed.
    """

    axis: str
    value: str
    against: str
    pairs: int
    ratio: float
    low: float
    high: float
    seeds: int
    interval: Interval


def speedups(train: pd.DataFrame, axes: Mapping[str, Sequence[str]], axis: str, rate: str = RATE) -> list[Speedup]:
    """The speedup of each value of an axis against its first value that has a result.

    Seeds are the unit of inference, as of accuracy: the pairs of one seed share a stretch of time and what else the
    machine did in it. The interval is :func:`vitbench.analysis.paired.interval` of the logarithms.

    Args:
        train: training runs of one device and origin, see :func:`vitbench.analysis.frames.trials_frame`.
        axes: axis → its values as text: all that the grid is made of.
        axis: the one to look at.
        rate: column of the speed, higher is faster.

    Returns:
        One for each value but the reference, in the suite's order; nothing where no value has a result.
    """
    usable = finished(train)
    usable = usable[usable["factorial"].astype(bool) & (usable[rate] > 0)]
    table = pd.DataFrame({name: texts(usable[name]) for name in axes}, index=usable.index)
    table["rate"] = np.log(usable[rate].to_numpy(np.float64))
    table["seed"] = usable["seed"]
    # Seeds of one program have one start, and one speed: together they are one observation.
    table["unit"] = usable.groupby(["cell", "started_at"], sort=False)["seed"].transform("min")
    present = [value for value in axes[axis] if value in set(table[axis])]
    if not present:
        return []
    alike = [*(name for name in axes if name != axis), "seed"]
    base = table.loc[table[axis] == present[0], [*alike, "rate"]].drop_duplicates(alike)
    found = []
    for value in axes[axis]:
        if value != present[0]:
            mine = table[table[axis] == value].drop_duplicates(alike)
            pairs = mine.merge(base, on=alike, suffixes=("", "_base"))
            logs = pairs["rate"] - pairs["rate_base"]
            found.append(_speedup(axis, value, present[0], logs, logs.groupby(pairs["unit"], sort=False).median()))
    return found


def _speedup(axis: str, value: str, against: str, pairs: pd.Series[float], seeds: pd.Series[float]) -> Speedup:
    """Of the logarithms of the ratio of each pair, and of their median in each seed."""
    over = interval(seeds.tolist())
    low, middle, high = (math.exp(float(pairs.quantile(share))) if len(pairs) else math.nan for share in QUARTILES)
    ends = Interval(math.exp(over.low), math.exp(over.high))
    return Speedup(axis, value, against, len(pairs), middle, low, high, len(seeds), ends)
