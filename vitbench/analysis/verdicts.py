"""Verdicts on the comparisons of one report, and nothing but these: see :data:`Verdict`.

Every row is an effect on one result, a variant less its baseline. All rows are one family: the probability that any of
them is called better or worse, where none is, is at most α, and so is that of any false "equivalent" where noise is
like the normal's: docs/statistics-notes.md has what skewed noise does to both.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np

from vitbench.analysis.differences import Difference, paired, rule, unpaired
from vitbench.analysis.looks import Look
from vitbench.analysis.multiplicity import ALPHA, FEWEST, holm, reachable, weight
from vitbench.analysis.paired import CONFIDENCE, Interval, probability_of_improvement, sign_flip_ps
from vitbench.analysis.power import power, seeds_for_equality, seeds_needed
from vitbench.config.suite import Test

Verdict = Literal["better", "worse", "equivalent", "undecided", "underpowered", "invalid"]
"""The first of these that is true of a comparison:

- invalid: more than one seed failed or diverged. A mean over the others would hide it.
- equivalent: a difference as large as the suite's margin is ruled out, corrected over all rows (of one row: the 95 %
  interval lies within the margin). A difference may be certain and still smaller than what the suite says matters, so
  this comes before better and worse.
- better, worse: Holm's adjusted p is at most α.
- underpowered: with so many seeds as were planned, and runs that spread as these do, a difference of the margin would
  be found in under half of all studies; or no result of so few seeds could pass.
- undecided: none of them.

Where the plan has looks, they are those of the look that decided, see :mod:`vitbench.analysis.looks`: α is then what is
spent at that look. Of an earlier look than the last an open comparison is undecided, and no more.
"""


class _Kind(TypedDict):
    """The test of a comparison, see :func:`vitbench.analysis.power.power`."""

    paired: bool
    permutation: bool


BY_LESS = "by less than the margin"
"""Stands after "better" or "worse" where a difference is certain and also equivalent."""

POWER = 0.5  # Power at the margin below which a planned comparison is underpowered
MOST_FAILED = 1  # Seeds that may have failed. With one missing the comparison goes on, marked as one over survivors.


@dataclass(frozen=True)
class Comparison:
    """A variant against its baseline."""

    label: str  # what is compared, in words
    deltas: tuple[float, ...]  # (n,), variant less baseline in each seed that both finished, in the unit of the result
    planned: int  # seeds planned
    failed: int = 0  # seeds in which the variant or the baseline failed or diverged; one that is still to come did not
    # (n,), the variant's results in the same seeds; of an interaction the sum of the two cells that count positive.
    # Empty where nothing but the differences is known, which are paired then
    variant: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()  # (n,), the baseline's; of an interaction the sum of the other two
    seeds: tuple[int, ...] = ()  # (n,), the seeds, in the order of the deltas; empty where unknown
    blocks: int = 1  # pairs of cells (of an interaction, fours) that the deltas are means over
    distinct: int = 1  # number of them that are no repetition of another by equivalent implementations
    # (axis, value, value that it is compared with) of each axis whose values are compared; empty of cells
    factors: tuple[tuple[str, str, str], ...] = ()
    # the variant and the baseline by their labels, where no more than these two are compared
    cells: tuple[str, ...] = ()
    # whether the variant is equivalent to its baseline in every block, so that the deltas are noise
    equivalent: bool = False
    paired: bool = False  # whether the arms share what they start from in each seed, by their specification
    # what a hypothesis of the suite says of it: "higher", "lower" or "equal"; None where none does
    expected: str | None = None
    # equal for comparisons of the same runs, whichever is the variant: one hypothesis; empty where unknown
    key: bytes = b""
    # whether it is of implementations of one function alone, of which one is trained for all: further seeds tell
    # nothing of it
    lent: bool = False


@dataclass(frozen=True)
class Judged:
    """Verdict on a comparison and the numbers behind it; those that so few seeds do not tell are NaN."""

    comparison: Comparison  # the comparison
    family: int  # hypotheses of the report, over which p is corrected
    burden: float  # comparisons by which p is multiplied at Holm's first step, the worst case: all weights over its own
    n: int  # seeds that both finished
    mean: float  # of the deltas
    interval: Interval  # confidence interval of the mean, by Welch's t or by that of paired differences
    paired: bool  # whether by the latter
    p: float  # that the verdict goes by: of :func:`vitbench.analysis.differences.rule`, or of the paired t
    p_permutation: float  # beside it, of the studentised permutation test, or of the sign-flip test
    # p after Holm's correction over the report, at a look as often as its level goes into α. Of an invalid comparison
    # all are NaN
    p_holm: float
    verdict: Verdict  # see :data:`Verdict`
    words: str  # the verdict in words: "worse, by less than the margin" where a difference is certain and equivalent
    # whether the mean is no further from 0 than equivalent implementations are from one another
    below_noise_floor: bool
    # probability that a run of the variant beats one of the baseline. NaN of one seed, and where the deltas are means
    # over several blocks: these lie closer together than runs, and one would beat the other far too often
    improvement: float
    # to decide it with 80 % power, were the difference and the spread what they look like: to tell it from 0, or to
    # show it to be within the margin, whichever takes fewer; None where none can be said, or more than 1,000
    seeds_needed: int | None
    # of the interval, 0.95; at a look 1 less the level that the verdict goes by, of one comparison: that of differences
    # for better and worse, else that of equivalence. So the interval of what is better excludes 0, and that of what is
    # equivalent lies within the margin, however early it stopped
    confidence: float = CONFIDENCE
    look: int = 0  # seeds at the look that it is judged by; 0 where the plan has none, or before the first

    @property
    def survivors(self) -> bool:
        """Whether the mean is over fewer seeds than planned."""
        return self.n < self.comparison.planned

    @property
    def certain(self) -> bool:
        """Whether the test tells the mean from 0, whatever its size: also of what is equivalent."""
        return self.p_holm <= ALPHA


def judge(
    comparisons: Sequence[Comparison],
    *,
    margin: float | None,
    noise_floor: float | None,
    higher_is_better: bool = True,
    test: Test | None = None,
    look: Look | None = None,
) -> list[Judged]:
    """Verdicts on the comparisons of one report, which are one family for Holm's correction.

    What a hypothesis of the suite says weighs twice as much as an effect, an interaction or a variant, and a difference
    where equality is expected, of such a hypothesis or of equivalent implementations, a quarter: see
    :func:`vitbench.analysis.multiplicity.weight`.

    The correction is over every hypothesis that the report plans. One that is invalid, or that has no result, counts as
    one with p = 1: the family is fixed before anyone has looked, and what failed makes no other row significant. A
    hypothesis that is also an effect counts once, with the weight of the first row.

    Args:
        comparisons: the rows.
        margin: the largest difference that does not matter, in the unit of the deltas; None: nothing is equivalent.
        noise_floor: spread of equivalent implementations, in the same unit; None where there are none.
        higher_is_better: whether a positive delta is an improvement.
        test: what the suite sets in place of the rule, see :data:`vitbench.config.suite.Test`.
        look: that the rows are judged at, which are those that are open at it, see :mod:`vitbench.analysis.replay`;
            None: the plan has none.

    Raises:
        ValueError: where a delta is not finite, or the margin is not positive.
    """
    if margin is not None and not margin > 0:
        raise ValueError(f"margin: {margin} is not positive")
    by_pairs = [pairs(c, test) or not c.variant for c in comparisons]
    tested = _tests(tuple(comparisons), tuple(by_pairs), tested=look is None or look.number >= 0)
    by_permutation = test == "permutation"
    p = [beside if by_permutation else of_rule for _, of_rule, beside in tested]
    equal = [
        math.nan if margin is None or math.isnan(of_rule) else float(difference.p_equivalent(margin))
        for difference, of_rule, _ in tested
    ]
    weights, of_equality = weights_of(comparisons), weights_of(comparisons, equality=True)
    if look is None:
        adjusted, adjusted_equal = _adjusted(comparisons, p), _adjusted(comparisons, equal, equality=True)
        family, total, total_equal = len(weights), sum(weights.values()), sum(of_equality.values())
    else:
        adjusted = _adjusted(comparisons, p, look.different, _times(look.level))
        adjusted_equal = _adjusted(comparisons, equal, look.equal, _times(look.level_of_equality), equality=True)
        family, total, total_equal = look.family, look.weight, look.weight_of_equality
    burdens = [total / weights[key] for key in keys(comparisons)]
    equal_burdens = [total_equal / of_equality[key] for key in keys(comparisons)]
    attained = [ALPHA if look is None else burden * look.level(ALPHA / burden) for burden in burdens]
    judged = []
    for i, (c, (difference, _, p_permutation)) in enumerate(zip(comparisons, tested, strict=True)):
        n, mean = len(c.deltas), float(difference.mean)
        side: Verdict = "better" if (mean > 0) == higher_is_better else "worse"
        sd = float(difference.se) * math.sqrt(n) if n else math.nan
        kind = _Kind(paired=by_pairs[i], permutation=by_permutation)
        if c.failed > MOST_FAILED:
            verdict: Verdict = "invalid"
        elif adjusted_equal[i] <= ALPHA:
            verdict = "equivalent"
        elif adjusted[i] <= ALPHA:
            verdict = side
        elif look is not None and not look.last and not c.lent:
            verdict = "undecided"
        elif not reachable(n, burdens[i], attained[i], **kind) or (
            margin and sd > 0 and power(margin / sd, c.planned, burdens[i], attained[i], **kind) < POWER
        ):
            verdict = "underpowered"
        else:
            verdict = "undecided"
        confidence = CONFIDENCE
        if look is not None:
            confidence = 1 - (look.level if verdict in ("better", "worse") else look.level_of_equality)(ALPHA)
        reach = float(difference.reach(confidence))
        runs = n > 1 and c.blocks == 1 and len(c.factors) < 2  # an interaction compares no runs
        larger = probability_of_improvement(c.variant, c.baseline) if runs else math.nan
        judged.append(
            Judged(
                comparison=c,
                family=family,
                burden=burdens[i],
                n=n,
                mean=mean,
                interval=Interval(mean - reach, mean + reach),
                paired=by_pairs[i],
                p=p[i],
                p_permutation=p_permutation,
                p_holm=math.nan if math.isnan(p[i]) else adjusted[i],
                verdict=verdict,
                words=f"{side}, {BY_LESS}" if verdict == "equivalent" and adjusted[i] <= ALPHA else verdict,
                below_noise_floor=noise_floor is not None and abs(mean) <= noise_floor,
                improvement=larger if higher_is_better else 1 - larger,
                seeds_needed=_seeds_needed(mean, sd, margin, (burdens[i], equal_burdens[i]), kind),
                confidence=confidence,
                look=look.seeds if look is not None and look.number >= 0 else 0,
            )
        )
    return judged


def pairs(comparison: Comparison, test: Test | None) -> bool:
    """Whether a comparison is of paired differences, by its specification and what the suite sets."""
    return test != "unpaired" and (comparison.paired or test == "paired")


def keys(comparisons: Sequence[Comparison]) -> list[bytes | int]:
    """The hypothesis of each row: comparisons of the same runs are one."""
    return [c.key or i for i, c in enumerate(comparisons)]


def weights_of(comparisons: Sequence[Comparison], *, equality: bool = False) -> dict[bytes | int, float]:
    """Hypothesis → its weight, by the first row that is of it; see :func:`vitbench.analysis.multiplicity.weight`."""
    weights: dict[bytes | int, float] = {}
    for key, c in zip(keys(comparisons), comparisons, strict=True):
        weights.setdefault(key, weight(c.expected, equivalent=c.equivalent, equality=equality))
    return weights


def _seeds_needed(
    mean: float, sd: float, margin: float | None, burdens: tuple[float, float], kind: _Kind
) -> int | None:
    """See :attr:`Judged.seeds_needed`; the burdens are of a difference and of equality."""
    if not math.isfinite(sd):
        return None
    numbers = [seeds_needed(mean, sd, burdens[0], **kind)]
    if margin:
        numbers.append(seeds_for_equality(mean, margin, sd, burdens[1], paired=kind["paired"]))
    return min((number for number in numbers if number is not None), default=None)


def _times(level: Callable[[float], float]) -> Callable[[float], float]:
    """How often a p counts at a look, where its hypothesis has one part in so many of α."""

    def times(parts: float) -> float:
        reached = level(ALPHA / parts)
        return ALPHA / reached if reached > 0 else math.inf

    return times


_Tested = tuple[Difference, float, float]
"""The estimate of a comparison, the p of the rule, and that of the permutation or sign-flip test beside it."""


@functools.lru_cache(maxsize=8)  # a report judges the same comparisons by other margins, too
def _tests(comparisons: tuple[Comparison, ...], by_pairs: tuple[bool, ...], *, tested: bool) -> list[_Tested]:
    """Each comparison tested; those of equally many runs at once. Of an invalid one, or of too few runs, p is NaN.

    Unless ``tested``, of all: nobody looks before the first look.
    """
    if bad := [d for c in comparisons for d in c.deltas if not math.isfinite(d)]:
        raise ValueError(f"not finite: {', '.join(map(str, bad))}")
    results: dict[int, _Tested] = {}
    groups: dict[tuple[int, bool, bool], list[int]] = {}
    for i, c in enumerate(comparisons):
        tells = tested and len(c.deltas) >= FEWEST and c.failed <= MOST_FAILED
        groups.setdefault((len(c.deltas), by_pairs[i], tells), []).append(i)
    for (n, pairs, tells), rows in groups.items():
        deltas = np.sort([comparisons[i].deltas for i in rows], axis=1).reshape(len(rows), n)
        if pairs:
            estimate = paired(deltas)
            p, beside = estimate.p, np.array(sign_flip_ps(deltas.tolist()) if tells else [])
        else:
            arms = [np.sort([getattr(comparisons[i], arm) for i in rows], axis=1) for arm in ("variant", "baseline")]
            estimate = unpaired(arms[0], arms[1])
            p, beside = rule(arms[0], arms[1]) if tells else (estimate.p, np.zeros(0))
        for k, i in enumerate(rows):
            p_values = (float(p[k]), float(beside[k])) if tells else (math.nan, math.nan)
            results[i] = Difference(estimate.mean[k], estimate.se[k], estimate.freedom[k]), *p_values
    return [results[i] for i in range(len(comparisons))]


def _adjusted(
    comparisons: Sequence[Comparison], p: Sequence[float], stayed: float = 0.0,
    times: Callable[[float], float] = float, *, equality: bool = False,
) -> list[float]:  # fmt: skip
    """Holm's adjusted p-values over hypotheses: comparisons of the same runs are one."""
    place, weights = keys(comparisons), weights_of(comparisons, equality=equality)
    distinct: dict[bytes | int, float] = {}
    for key, each in zip(place, p, strict=True):
        distinct.setdefault(key, 1.0 if math.isnan(each) else each)
    corrected = holm([*distinct.values()], [weights[key] for key in distinct], stayed=stayed, times=times)
    adjusted = dict(zip(distinct, corrected, strict=True))
    return [adjusted[key] for key in place]
