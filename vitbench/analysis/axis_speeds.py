"""Speed by axis: how many times as fast one value of an axis is as another, over the matched blocks of a grid.

A block is a setting of all other axes. Each is measured several times: timings in processes of their own, training runs
with seeds of their own. A cell's own luck (where its memory lies) and a process's (which core it got) are far larger
than a median over many rounds lets see, so both are sources of variance here, and blocks make an effect certain that no
single pair of cells could.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.analysis.differences import Difference, of_sources
from vitbench.analysis.frames import in_grid, level
from vitbench.analysis.grouped import texts
from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.analysis.paired import CONFIDENCE
from vitbench.analysis.timings import log_speed
from vitbench.store import Samples, StudyInfo

MARGIN = 0.05  # Fraction by which speeds may differ and still be equivalent
SpeedVerdict = Literal["faster", "slower", "equivalent", "undecided", ""]
"""The first that is true, as of accuracies; empty where there is no interval:

- equivalent: a ratio of the margin or more, to either side, is ruled out, corrected over all of the study.
- faster, slower: Holm's adjusted p of a ratio of 1 is at most α.
- undecided: neither.
"""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AxisSpeed:
    """The speed with one value of an axis over that with another."""

    axis: str
    value: str
    against: str  # value that it is compared with
    blocks: int  # matched blocks, each measured in every repetition
    repetitions: int  # processes of timings, seeds of training runs
    ratio: float  # times as fast, the geometric mean; NaN without a block
    low: float  # 95 % confidence interval of it, NaN of fewer than two repetitions
    high: float  # its other end
    least: float  # ratio of the block with the least one; NaN without a block
    most: float  # of the block with the largest
    p: float  # two-sided, of a ratio of 1
    p_equivalent: float  # of a ratio of the margin or more, see :meth:`vitbench.analysis.differences.Difference`
    p_holm: float = math.nan  # p after Holm's correction over all comparisons of the study
    verdict: SpeedVerdict = ""  # see :data:`SpeedVerdict`


def crossed(values: Floats) -> Difference:
    """The mean of (repetitions, blocks) values, of which both are samples; NaN of fewer than two repetitions.

    With the variance s² of the n means over blocks and t² of the m means over repetitions, se² = s² / n + t² / m, and
    se⁴ / ((s² / n)² / (n - 1) + (t² / m)² / (m - 1)) degrees of freedom: min F'. It is up to √2 too wide where neither
    source is larger than the noise, and too narrow of two repetitions, where 9 to 12 % of intervals miss the truth. Of
    a single block it is Student's t over repetitions.

    Source: Clark 1973, The Language-as-Fixed-Effect Fallacy; Satterthwaite 1946.
    """
    repetitions, blocks = values.shape
    if repetitions < 2 or not blocks:
        mean = float(values.mean()) if values.size else math.nan
        return Difference(np.array(mean), np.array(math.nan), np.array(1.0))
    parts = [
        (float(means.var(ddof=1)) / len(means), len(means) - 1)
        for means in (values.mean(axis=1), values.mean(axis=0))
        if len(means) > 1
    ]
    return of_sources(values.mean(), parts)


def axis_speeds(measured: pd.DataFrame, axes: Mapping[str, Sequence[str]], among: Iterable[str]) -> list[AxisSpeed]:
    """The speed of each value of some axes against the axis' first value that has a result, without a verdict yet.

    Args:
        measured: a row for each repetition of each cell, with a column for each axis; ``repetition``, the number of the
            process or the seed; ``log_speed``, the logarithm of a speed, which only has to be comparable within a
            repetition.
        axes: axis → its values as text: all that the grid is made of.
        among: the axes to look at.

    Returns:
        One for each axis and each of its values but the reference, in the suite's order; none without any result.
    """
    table = pd.DataFrame({name: texts(measured[name]) for name in axes}, index=measured.index)
    table["repetition"], table["log_speed"] = measured["repetition"], measured["log_speed"]
    table = table[table["log_speed"].notna()]
    speeds = []
    for axis in among:
        others = [name for name in axes if name != axis]
        alike = table.groupby(others, sort=False).ngroup() if others else pd.Series(0, index=table.index)
        of_value = {
            value: rows.assign(block=alike[rows.index]).pivot_table(
                index="repetition", columns="block", values="log_speed", sort=False
            )
            for value, rows in table.groupby(axis, sort=False)
        }
        present = [value for value in axes[axis] if value in of_value]
        for value in axes[axis]:
            if present and value != present[0]:
                logs = of_value.get(value, pd.DataFrame()) - of_value[present[0]]
                logs = logs.dropna(how="all").dropna(axis="columns")
                speeds.append(_axis_speed(axis, value, present[0], logs.to_numpy(np.float64)))
    return speeds


def widest(info: StudyInfo, processes: Mapping[str, Sequence[Samples]]) -> float:
    """Half the width of the widest 95 % interval of an axis' speed, as a fraction of the speed.

    Args:
        info: the study's plan.
        processes: id of each timing trial of one setting → its samples so far.

    Returns:
        The fraction; 0 where there is no interval that could become narrower.
    """
    planned = {trial_id: info.trials.of_id(trial_id) for trial_id in processes}
    rows = pd.DataFrame([
        {**planned[trial_id].axes, "repetition": number, "log_speed": log_speed(p.latencies_ms, p.baseline_ms)}
        for trial_id, samples in processes.items()
        if in_grid(info, planned[trial_id])
        for number, p in enumerate(samples)
    ])  # fmt: skip
    axes = {axis: [level(value) for value in values] for axis, values in info.axes.items()}
    telling = [axis for axis in axes if len(rows) and rows[axis].map(level).nunique() > 1]
    speeds = axis_speeds(rows, axes, telling)
    return max(((each.high - each.low) / 2 / each.ratio for each in speeds if not math.isnan(each.low)), default=0.0)


def judge(speeds: Sequence[AxisSpeed]) -> list[AxisSpeed]:
    """Give all speeds of one study their verdicts, with Holm's correction over them."""
    tested = [each for each in speeds if not math.isnan(each.p)]
    different = holm([each.p for each in tested])
    equal = holm([each.p_equivalent for each in tested])
    judged = dict[int, AxisSpeed]()
    for each, p, p_equal in zip(tested, different, equal, strict=True):
        verdict: SpeedVerdict = "undecided"
        if p_equal <= ALPHA:
            verdict = "equivalent"
        elif p <= ALPHA:
            verdict = "faster" if each.ratio > 1 else "slower"
        judged[id(each)] = replace(each, p_holm=p, verdict=verdict)
    return [judged.get(id(each), each) for each in speeds]


def _axis_speed(axis: str, value: str, against: str, logs: Floats) -> AxisSpeed:
    repetitions, blocks = logs.shape if logs.size else (0, 0)
    if not blocks:
        return AxisSpeed(axis, value, against, 0, 0, *(math.nan,) * 7)
    difference = crossed(logs)
    mean, reach = float(difference.mean), float(difference.reach(CONFIDENCE))
    of_blocks = np.exp(logs.mean(axis=0))
    p, p_equivalent = float(difference.p), float(difference.p_equivalent(math.log1p(MARGIN)))
    if math.isnan(reach):
        p = p_equivalent = math.nan
    return AxisSpeed(
        axis, value, against, blocks, repetitions, math.exp(mean), math.exp(mean - reach), math.exp(mean + reach),
        float(of_blocks.min()), float(of_blocks.max()), p, p_equivalent,
    )  # fmt: skip
