"""The statistics of a report for scores from anywhere: ``vitbench.stats.compare({"a": [...], "b": [...]})``.

numpy and pandas are imported when a function that needs them is called.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ComparedPair:
    """A variant against the baseline: the columns of :func:`compare`.

    Attributes:
        variant: its name.
        baseline: the baseline's.
        runs: of each.
        difference: mean of the variant less mean of the baseline, in the unit of the scores.
        low: lower end of the 95 % interval of the difference, by Welch's t or the t of paired differences.
        high: its upper end.
        p: that the verdict goes by, see :func:`vitbench.analysis.differences.rule`; NaN below four runs.
        p_permutation: beside it, of the studentised permutation test, or of the sign-flip test of paired runs.
        p_holm: p after Holm's correction over all rows.
        improvement: probability that a run of the variant is better than one of the baseline, equal ones half.
        verdict: better, worse, equivalent, undecided or underpowered, see :data:`vitbench.analysis.verdicts.Verdict`.
        runs_needed: of each, to decide it with 80 % power if difference and spread are what they look like; None where
            none would.
    """

    variant: str
    baseline: str
    runs: int
    difference: float
    low: float
    high: float
    p: float
    p_permutation: float
    p_holm: float
    improvement: float
    verdict: str
    runs_needed: int | None


def _arm(name: str, scores: Sequence[float]) -> tuple[float, ...]:
    """The scores of a name. A mapping would give its keys, and a set has no order in which runs are paired."""
    try:
        if isinstance(scores, (str, bytes, Mapping, Set)):
            raise TypeError(f"got a {type(scores).__name__}")
        arm = tuple(map(float, scores))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: a sequence of numbers, one a run: {error}") from error
    if strange := [score for score in arm if not math.isfinite(score)]:
        raise ValueError(f"{name}: a score is not finite: {strange[0]}")
    return arm


def compare(
    scores: Mapping[str, Sequence[float]], *, baseline: str | None = None, margin: float | None = None,
    paired: bool = False, higher_is_better: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """Compare variants with a baseline by the rule of the reports; all rows are one family of comparisons.

    The probability that any variant is called better or worse which is neither is at most 5 %, and so is that of any
    false "equivalent", where noise is like the normal's. docs/statistics-notes.md has the simulations.

    Args:
        scores: name → one score a run, at least four of each and of all equally many.
        baseline: the name that the others are compared with; None for the first.
        margin: the largest difference that does not matter, in the unit of the scores; None: nothing is equivalent.
        paired: whether runs of one place share what they start from, such as the seed of the images and their order.
        higher_is_better: False for losses and times.

    Returns:
        One row for each other name, in their order, with the columns of :class:`ComparedPair`.

    Raises:
        ValueError: where there is no such baseline, nothing to compare it with, a score is not finite, the numbers of
            runs differ, or the margin is not positive.
        TypeError: where scores have no names, or those of a name are no sequence of numbers.
    """
    import pandas as pd

    from vitbench.analysis.verdicts import Comparison, judge

    if not isinstance(scores, Mapping):
        raise TypeError(f"scores: a mapping of names to scores, not a {type(scores).__name__}")
    first = next(iter(scores), "") if baseline is None else baseline
    if first not in scores or len(scores) < 2:
        raise ValueError(f"baseline {first!r}: scores are of {', '.join(map(repr, scores)) or 'nothing'}")
    arms = {name: _arm(name, each) for name, each in scores.items()}
    base = arms[first]
    if different := {name: len(arm) for name, arm in arms.items() if len(arm) != len(base)}:
        counts = ", ".join(f"{name} has {n}" for name, n in different.items())
        raise ValueError(f"{first} has {len(base)} scores, but {counts}: each needs as many")
    comparisons = [
        Comparison(
            label=name, deltas=tuple(score - other for score, other in zip(arm, base, strict=True)), planned=len(base),
            variant=arm, baseline=base, paired=paired,
        )
        for name, arm in arms.items() if name != first
    ]  # fmt: skip
    judged = judge(comparisons, margin=margin, noise_floor=None, higher_is_better=higher_is_better)
    rows = [
        ComparedPair(
            each.comparison.label, first, each.n, each.mean, each.interval.low, each.interval.high, each.p,
            each.p_permutation, each.p_holm, each.improvement, each.words, each.seeds_needed,
        )
        for each in judged
    ]  # fmt: skip
    return pd.DataFrame(
        [dataclasses.asdict(row) for row in rows], columns=[f.name for f in dataclasses.fields(ComparedPair)]
    )
