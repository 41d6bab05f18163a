"""Verdicts on the comparisons of one table, and nothing but these: see :data:`Verdict`.

Every row is an effect on one result, a variant less its baseline over seeds. The rows of a table are one family: the
probability that any of them is called better or worse, where none is, is at most α.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vitbench.analysis.multiplicity import ALPHA, holm, reachable
from vitbench.analysis.paired import Interval, interval, probability_of_improvement, sign_flip_ps
from vitbench.analysis.power import seeds_needed

Verdict = Literal["better", "worse", "equivalent", "undecided", "underpowered", "invalid"]
"""The first of these that is true of a comparison:

- invalid: more than one seed failed or diverged. A mean over the others would hide it.
- underpowered: no result of n seeds could be told from noise in this table, comparisons · 2 / 2ⁿ > α. (Where other rows
  have more seeds, Holm's later steps ask less of this one: what they let through is better or worse all the same.)
- equivalent: the interval lies within the suite's margin. A difference may be certain and still smaller than what the
  suite says matters, so this comes before better and worse.
- better, worse: Holm's adjusted p is at most α.
- undecided: none of them.
"""

MOST_FAILED = 1
"""Seeds that may have failed. With one missing the comparison goes on, marked as one over survivors."""


@dataclass(frozen=True)
class Comparison:
    """A variant against its baseline, seed by seed.

    Attributes:
        label: what is compared, in words.
        deltas: (n,), variant less baseline in each seed that both finished, in the unit of the result.
        planned: seeds planned.
        failed: seeds in which the variant or the baseline failed or diverged; one that is still to come did not.
        variant: (n,), the variant's results in the same seeds; empty where there is no such arm, as of an interaction.
        baseline: (n,), the baseline's.
        seeds: (n,), the seeds, in the order of the deltas; empty where unknown.
        blocks: pairs of cells (of an interaction, fours) that the deltas are means over.
        distinct: number of them that are no repetition of another by exact twins.
        unmatched: planned pairs of runs of which one or both have no usable result.
        factors: (axis, value, value that it is compared with) of each axis whose values are compared; empty of cells.
        cells: the variant and the baseline by their labels, where no more than these two are compared.
        twins: whether the variant is an exact twin of its baseline in every block, so that the deltas are noise.
    """

    label: str
    deltas: tuple[float, ...]
    planned: int
    failed: int = 0
    variant: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    blocks: int = 1
    distinct: int = 1
    unmatched: int = 0
    factors: tuple[tuple[str, str, str], ...] = ()
    cells: tuple[str, ...] = ()
    twins: bool = False


@dataclass(frozen=True)
class Judged:
    """What the deltas of a comparison say. What cannot be said of so few seeds is NaN.

    Attributes:
        comparison: the comparison.
        n: seeds that both finished.
        mean: of the deltas.
        interval: 95 % confidence interval of the mean.
        p: of the sign-flip test.
        p_holm: the same after Holm's correction over the table. Of an invalid comparison both are NaN.
        verdict: see :data:`Verdict`.
        below_noise_floor: whether the mean is no further from 0 than exact twins are from one another.
        improvement: probability that a run of the variant beats one of the baseline. NaN where the deltas are means
            over several blocks: these lie closer together than runs, and one would beat the other far too often.
        seeds_needed: to show an effect as large as the observed with 80 % power; None where none can be said, or more
            than 1,000.
    """

    comparison: Comparison
    n: int
    mean: float
    interval: Interval
    p: float
    p_holm: float
    verdict: Verdict
    below_noise_floor: bool
    improvement: float
    seeds_needed: int | None

    @property
    def survivors(self) -> bool:
        """Whether the mean is over fewer seeds than planned."""
        return self.n < self.comparison.planned

    @property
    def certain(self) -> bool:
        """Whether the test tells the mean from 0, whatever its size: also of what is equivalent."""
        return self.p_holm <= ALPHA

    @property
    def only_by_interval(self) -> bool:
        """Whether the interval excludes 0 while the verdict, which goes by the test, leaves a difference open."""
        without = self.verdict in ("undecided", "underpowered")
        return without and math.isfinite(self.interval.low) and not self.interval.holds(0.0)


def judge(
    comparisons: Sequence[Comparison],
    *,
    margin: float | None,
    noise_floor: float | None,
    alpha: float = ALPHA,
    higher_is_better: bool = True,
) -> list[Judged]:
    """Verdicts on one table, which is one family for Holm's correction.

    The correction is over every comparison that the table plans. One that is invalid, or that has no result, counts as
    one with p = 1: the family is fixed before anyone has looked, and what failed makes no other row significant.

    Equivalence is by the 95 % interval, which is stricter than two one-sided tests at 5 %, and is not corrected for the
    number of rows.

    Args:
        comparisons: the rows.
        margin: the largest difference that does not matter, in the unit of the deltas; None: nothing is equivalent.
        noise_floor: spread of exact twins, in the same unit; None where there are none.
        alpha: largest probability of any false "better" or "worse" in the table.
        higher_is_better: whether a positive delta is an improvement.

    Raises:
        ValueError: where a delta is not finite, or the margin is not positive.
    """
    if margin is not None and not margin > 0:
        raise ValueError(f"margin: {margin} is not positive")
    p = sign_flip_ps([c.deltas if c.failed <= MOST_FAILED else () for c in comparisons])
    adjusted = holm([1.0 if math.isnan(each) else each for each in p])
    judged = []
    for c, each, p_holm in zip(comparisons, p, adjusted, strict=True):
        n = len(c.deltas)
        mean = statistics.fmean(c.deltas) if n else math.nan
        width = interval(c.deltas)
        if c.failed > MOST_FAILED:
            verdict: Verdict = "invalid"
        elif not reachable(n, len(comparisons), alpha) and p_holm > alpha:
            verdict = "underpowered"
        elif margin is not None and width.within(margin):
            verdict = "equivalent"
        elif p_holm <= alpha:
            verdict = "better" if (mean > 0) == higher_is_better else "worse"
        else:
            verdict = "undecided"
        larger = probability_of_improvement(c.variant, c.baseline) if c.blocks == 1 else math.nan
        judged.append(
            Judged(
                comparison=c,
                n=n,
                mean=mean,
                interval=width,
                p=each,
                p_holm=math.nan if math.isnan(each) else p_holm,
                verdict=verdict,
                below_noise_floor=noise_floor is not None and abs(mean) <= noise_floor,
                improvement=larger if higher_is_better else 1 - larger,
                seeds_needed=_seeds_needed(c.deltas, len(comparisons), alpha),
            )
        )
    return judged


def _seeds_needed(deltas: Sequence[float], comparisons: int, alpha: float) -> int | None:
    if len(deltas) < 2:
        return None
    return seeds_needed(statistics.fmean(deltas), statistics.stdev(deltas), comparisons, alpha=alpha)
