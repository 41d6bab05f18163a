"""Power: the chance that a number of seeds shows an effect, the smallest effect shown, and the seeds needed for one.

An effect is a difference of means in standard deviations of the difference of two runs, √2 times that of one run where
the arms are independent and alike. Noise is taken as normal. Several comparisons enter as Holm's first step, the worst
case: each is tested at α / comparisons, which is a sum of weights over its own, see
:func:`vitbench.analysis.multiplicity.weight`.

Arguments that functions share: ``n`` is a number of seeds; ``comparisons`` and ``alpha`` are the report's number of
them and its level; ``paired`` says that differences are paired by seed, and ``permutation`` that the sign-flip test is
to decide on them, of which the least p counts alone.

Imports nothing but the standard library, since `vitbench plan` prints these figures and is to start at once.
"""

import bisect
import functools
import itertools
import math
from collections.abc import Callable
from statistics import NormalDist

from vitbench.analysis.multiplicity import ALPHA, FEWEST, reachable

POWER = 0.8  # The power that plans ask for
MOST_SEEDS = 1000  # More than this many seeds are no plan
LARGEST_EFFECT = 50.0  # Shown with certainty wherever anything can be: searches for an effect end here
LIKE_SPREADS, MOST_TIMES = 1.25, 10.0  # See :func:`vitbench.analysis.differences.rule`
STEPS, COARSE = 48, 24  # Steps of an integral's grid, and of one over two variables
OVERLAP = 0.7  # Where few splits reject, these and a large t are not quite the same samples; fitted to simulation
MOST_COUNTED = 10  # Runs in an arm beyond which the steps between permutation p-values are too small to matter
LARGEST_T, ROUNDING = 1000.0, 1e-13
CLOSE = 1e-9  # A search for an effect ends this near to the power that is asked for, in normal deviates
CERTAIN = 1 - 1e-12  # Power from which on it counts as certain, of which there is no normal deviate
NORMAL = NormalDist()


def power(
    effect: float, n: int, comparisons: float = 1, alpha: float = ALPHA, *, paired: bool = False,
    permutation: bool = False,
) -> float:  # fmt: skip
    """Probability that the rule of a verdict rejects, in either direction.

    Of paired differences that of the t test: P(|t'| > t), with t' noncentral, n - 1 degrees of freedom and
    noncentrality δ √n. Of independent arms of n runs the same with more degrees of freedom, at the level that the
    permutation test attains; and at a part of it where the spreads of two samples differ by chance. Found
    within 6 points of simulated power.

    Args:
        effect: mean difference over the standard deviation of the difference of two runs.

    Source: Lehmann and Romano 2005, Testing Statistical Hypotheses, §5.2.
    """
    if not reachable(n, comparisons, alpha, paired=paired, permutation=permutation):
        return 0.0
    level = alpha / comparisons
    if paired:
        return _t_power(effect, n, n - 1.0, level)
    attained = level
    if n <= MOST_COUNTED:
        splits = math.comb(2 * n, n) / 2
        rejecting = int(level * splits + 1e-9)
        attained = rejecting / splits * rejecting / (rejecting + OVERLAP)
    return sum(
        weight * _t_power(effect, n, freedom, min(attained, level / times)) for weight, times, freedom in _unlike(n)
    )


def equality_power(
    effect: float, margin: float, n: int, comparisons: float = 1, alpha: float = ALPHA, *, paired: bool = False
) -> float:
    """Probability that n seeds show an effect to be within the margin, by two one-sided tests.

    P(both reject), which is at least the sum of their powers less 1, and equal to it where the margin is wide.

    Args:
        effect: mean difference over the standard deviation of the difference of two runs.
        margin: in the same unit.

    Source: Schuirmann 1987, A Comparison of the Two One-Sided Tests Procedure and the Power Approach.
    """
    if n < FEWEST:
        return 0.0
    freedom = float(n - 1 if paired else 2 * n - 2)
    t = _t_quantile(freedom, alpha / comparisons / 2)
    sides = (_beyond(t, (margin + away) * math.sqrt(n), freedom) for away in (effect, -effect))
    return max(0.0, sum(sides) - 1)


def smallest_effect(
    n: int, comparisons: float = 1, wanted: float = POWER, alpha: float = ALPHA, *, paired: bool = False,
    permutation: bool = False,
) -> float:  # fmt: skip
    """The smallest effect that n seeds show with the wanted power; infinite where none, however large, can be shown."""
    if not reachable(n, comparisons, alpha, paired=paired, permutation=permutation):
        return math.inf
    least = _least(lambda effect: power(effect, n, comparisons, alpha, paired=paired, permutation=permutation), wanted)
    return min(least, LARGEST_EFFECT)


def smallest_margin(n: int, comparisons: float = 1, alpha: float = ALPHA, *, paired: bool = False) -> float:
    """The smallest margin within which n seeds show equal arms to be equal with a power of ``POWER``.

    In standard deviations of the difference of two runs; infinite where there are too few seeds for any.
    """
    return _least(lambda margin: equality_power(0.0, margin, n, comparisons, alpha, paired=paired), POWER)


def _least(power_of: Callable[[float], float], wanted: float) -> float:
    """The size with the wanted power, which grows with it; 0 where none has less, infinite where the largest has less.

    By false position on normal deviates, in which a power is almost a straight line. Source: Dowell and Jarratt 1971, A
    modified regula falsi method for computing the root of an equation (the Illinois method).
    """

    def surplus(size: float) -> float:
        return NORMAL.inv_cdf(min(max(power_of(size), 1 - CERTAIN), CERTAIN)) - NORMAL.inv_cdf(wanted)

    ends = {reached: (size, surplus(size)) for reached, size in ((False, 0.0), (True, LARGEST_EFFECT))}
    size, beyond = ends[True]
    if beyond < 0 or ends[False][1] >= 0:
        return math.inf if beyond < 0 else 0.0
    reached: bool | None = None
    while abs(beyond) > CLOSE:
        (low, below), (high, above) = ends[False], ends[True]
        size = (low * above - high * below) / (above - below)
        before, beyond = reached, surplus(size)
        reached = beyond >= 0
        if reached == before:  # an end that has stayed twice counts half, or it would stay for ever
            stayed, value = ends[not reached]
            ends[not reached] = stayed, value / 2
        ends[reached] = size, beyond
    return size


def seeds_needed(
    effect: float, sd: float, comparisons: float = 1, alpha: float = ALPHA, *, paired: bool = False,
    permutation: bool = False,
) -> int | None:  # fmt: skip
    """The fewest seeds that show an effect with a power of ``POWER``; None where it takes more than 1,000.

    For an observed effect it is the size of a study that would likely show it, were it as large as it looks; of the
    study at hand it says nothing (Hoenig and Heisey 2001, The Abuse of Power).

    Args:
        effect: difference of means, in any unit.
        sd: standard deviation of the difference of two runs, in the same unit; 0 of an effect that never varied.
    """
    if not effect:
        return None
    size = min(abs(effect) / sd, LARGEST_EFFECT) if sd else LARGEST_EFFECT
    return _fewest(lambda n: power(size, n, comparisons, alpha, paired=paired, permutation=permutation) >= POWER)


def seeds_for_equality(
    effect: float, margin: float, sd: float, comparisons: float = 1, alpha: float = ALPHA, *, paired: bool = False
) -> int | None:
    """The fewest seeds that show an effect to be within the margin with a power of ``POWER``; None as above.

    Effect, margin and sd are in one unit; the others are as in :func:`seeds_needed`.
    """
    if abs(effect) >= margin:
        return None
    unit = max(sd, margin / LARGEST_EFFECT)
    sizes = effect / unit, margin / unit
    return _fewest(lambda n: equality_power(*sizes, n, comparisons, alpha, paired=paired) >= POWER)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The least number of seeds from which on something is enough; None where it is more than 1,000."""
    most = next((2**k for k in range(MOST_SEEDS.bit_length()) if enough(2**k)), MOST_SEEDS)  # few are likely enough
    seeds = range(most // 2 + 1, most + 1)
    place = bisect.bisect_left(seeds, True, key=enough)
    return seeds[place] if place < len(seeds) else None


def _t_power(effect: float, n: int, freedom: float, level: float) -> float:
    """Power of a two-sided t test: P(|Z + δ √n| > t S), with Z normal and S = √(χ² / freedom)."""
    t, away = _t_quantile(freedom, level / 2), effect * math.sqrt(n)
    return _beyond(t, away, freedom) + _beyond(t, -away, freedom)


@functools.lru_cache(maxsize=4096)
def _t_quantile(freedom: float, level: float) -> float:
    """Student's t that is exceeded with the given probability, at most 1,000.

    By Newton's method from the normal's: the tail is convex, so that no step goes beyond what is looked for.
    """
    t, step = -NORMAL.inv_cdf(level), math.inf
    while step > ROUNDING * t and t < LARGEST_T:
        density = sum([weight * s * math.exp(-0.5 * (t * s) ** 2) for s, weight in _spread(freedom)])
        step = (_beyond(t, 0.0, freedom) - level) / density * math.sqrt(math.tau)
        t += step
    return min(t, LARGEST_T)


def _beyond(t: float, noncentrality: float, freedom: float) -> float:
    """P(noncentral t > t), the sum over S of P(Z > t S - noncentrality).

    scipy.special.nctdtr gives the same to 1e-12 from 10 runs on, and to 1e-5 of 3 at a level of 5 %; it takes 0.7 s to
    import, of which `vitbench plan` has none.
    """
    # The normal's tail by erfc: NormalDist.cdf takes five times as long, and plans are made of this sum.
    t, away = t * math.sqrt(0.5), noncentrality * math.sqrt(0.5)
    return 0.5 * sum([weight * math.erfc(t * s - away) for s, weight in _spread(freedom)])


@functools.lru_cache(maxsize=256)
def _spread(freedom: float) -> tuple[tuple[float, float], ...]:
    """Values of S = √(χ² / freedom) with their probabilities: an even grid of the cube roots of χ² / freedom.

    Those are nearly normal, with mean 1 - v and variance v = 2 / (9 freedom); the grid is 8 deviations to either side.
    Source: Wilson and Hilferty 1931, The Distribution of Chi-Square.
    """
    variance = 2 / (9 * freedom)
    width = 8 * math.sqrt(variance)
    low = max(0.0, 1 - variance - width)
    step = (1 - variance + width - low) / STEPS
    roots = [low + step * (i + 0.5) for i in range(STEPS)]
    weights = [math.exp((1.5 * freedom - 1) * math.log(x) - freedom * (x**3 - 1) / 2) for x in roots]
    total = sum(weights)
    return tuple((x**1.5, w / total) for x, w in zip(roots, weights, strict=True))


@functools.lru_cache(maxsize=256)
def _unlike(n: int) -> list[tuple[float, float, float]]:
    """How often Welch's p counts, with its probability, for two samples of n of one normal distribution.

    Returns:
        (probability, times, Satterthwaite's degrees of freedom), in steps of a doubling.
    """
    spread = _spread(n - 1.0)[:: STEPS // COARSE]
    steps: dict[int, list[float]] = {}
    for (r, v), (s, w) in itertools.combinations_with_replacement(spread, 2):  # r ≤ s, and as often the other way
        ratio = (s / r) ** 2
        times = min(max(ratio / LIKE_SPREADS**2, 1.0), MOST_TIMES)
        step = steps.setdefault(int(math.log2(times)), [0.0, 0.0, 0.0])
        for k, each in enumerate((1.0, times, (1 + ratio) ** 2 / (1 + ratio**2) * (n - 1))):
            step[k] += (w * v if s > r else w * v / 2) * each
    total = sum(weight for weight, _, _ in steps.values())
    return [(weight / total, times / weight, freedom / weight) for weight, times, freedom in steps.values()]
