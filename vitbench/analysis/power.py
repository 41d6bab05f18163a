"""What a number of seeds can show: power of the sign-flip test, the smallest effect shown, the seeds that one takes.

An effect is the mean delta in standard deviations of the paired deltas, and deltas are taken as normal. Several
comparisons enter as Holm's first step, the worst case: each is tested at α / comparisons.

Imports nothing but the standard library, since `vitbench plan` prints these figures and is to start at once.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable
from statistics import NormalDist

from vitbench.analysis.multiplicity import ALPHA, reachable

POWER = 0.8
"""The power that plans ask for."""

MOST_SEEDS = 1000
"""More than this many seeds are no plan."""

LARGEST_EFFECT = 50.0
"""Shown with certainty wherever anything can be: searches for an effect end here."""

ENUMERABLE = 60
"""Deltas beyond which the steps of 2 / 2ⁿ between p-values are too small to matter."""

ANCHOR = 3
"""Most rejecting arrangements, of one sign, for which the power is computed exactly."""

DECAY = 0.75
"""The t test's lead over the sign-flip test falls with the number of rejecting arrangements to the minus this."""

STEPS = 128
"""Of the grid of an integral."""

LARGEST_T = 1000.0
BISECTIONS = 50

NORMAL = NormalDist()


def power(effect: float, n: int, comparisons: int = 1, alpha: float = ALPHA) -> float:
    """Probability that the sign-flip test of n deltas rejects, in either direction.

    Of the 2ⁿ arrangements, J = ⌊α 2ⁿ⁻¹ / comparisons⌋ and their mirror images reject. With effect δ and standard normal
    φ, Φ, one direction has the power

    - J = 0: none.
    - J = 1, all deltas of one sign: P1 = Φ(δ)ⁿ.
    - J = 2, or all but the smallest: P2 = P1 + n ∫ φ(x + δ) Φ(δ - x)ⁿ⁻¹ dx over x > 0.
    - J = 3, or all but the second smallest: P3 = P2 + n (n - 1) ∫ φ(x + δ) (Φ(δ) - Φ(δ - x)) Φ(δ - x)ⁿ⁻² dx.
    - J > 3: Φ(Φ⁻¹(T(J)) - (Φ⁻¹(T(3)) - Φ⁻¹(P3)) (3 / J)^0.75), where T(J) is the power of the t test at the attained
      level J / 2ⁿ: P(t' > t), t' noncentral with n - 1 degrees of freedom and noncentrality δ √n. The t test alone
      promises up to 17 points too much where few arrangements reject; its lead is known at J = 3 and falls with J.

    Found within 1.5 points of simulated power, and its Monte-Carlo error, for n = 6…20, 1 to 50 comparisons and effects
    from 0.3 to 2. The exponent was fitted to these.

    Args:
        effect: mean of the deltas over their standard deviation.
        n: number of seeds.
        comparisons: of the table.
        alpha: level of the table.

    Sources: Φ(δ)ⁿ and the integrals follow from the order statistics of |d|; Lehmann and Romano 2005, Testing
    Statistical Hypotheses, §5.2 (the t test) and §15.2 (its likeness to the permutation test in large samples).
    """
    if not reachable(n, comparisons, alpha):
        return 0.0
    return sum(_one_sided(each, n, comparisons, alpha) for each in (effect, -effect))


def smallest_effect(n: int, comparisons: int = 1, wanted: float = POWER, alpha: float = ALPHA) -> float:
    """The smallest effect that n seeds show with the wanted power, in standard deviations of the paired deltas.

    Infinite where no effect, however large, can be shown.

    Args:
        n: number of seeds.
        comparisons: of the table.
        wanted: power.
        alpha: level of the table.
    """
    if not reachable(n, comparisons, alpha):
        return math.inf
    return _bisect(lambda effect: power(effect, n, comparisons, alpha) >= wanted, 0.0, LARGEST_EFFECT)


def seeds_needed(
    effect: float, sd: float, comparisons: int = 1, wanted: float = POWER, alpha: float = ALPHA
) -> int | None:
    """The fewest seeds that show an effect with the wanted power; None where it takes more than 1,000.

    For an observed effect it is the size of a study that would likely show it, were it as large as it looks; of the
    study at hand it says nothing (Hoenig and Heisey 2001, The Abuse of Power).

    Args:
        effect: mean of the paired deltas, in any unit.
        sd: their standard deviation, in the same unit; 0 of an effect that never varied.
        comparisons: of the table.
        wanted: power.
        alpha: level of the table.
    """
    if not effect:
        return None
    size = min(abs(effect) / sd, LARGEST_EFFECT) if sd else LARGEST_EFFECT
    tried = range(1, MOST_SEEDS + 1)
    found = bisect.bisect_left(tried, True, key=lambda n: power(size, n, comparisons, alpha) >= wanted)
    return tried[found] if found < len(tried) else None


def _one_sided(effect: float, n: int, comparisons: int, alpha: float) -> float:
    """Power in the direction of a positive effect."""
    if n > ENUMERABLE:
        return _t_power(effect, n, alpha / comparisons / 2)
    # α 2ⁿ⁻¹ is exact, and so is this: dividing floats could round up to one more arrangement.
    arrangements = int(math.ldexp(alpha, n - 1)) // comparisons
    exact = _exact_power(effect, n, min(arrangements, ANCHOR))
    if arrangements <= ANCHOR:
        return exact
    lead = _probit(_t_power(effect, n, math.ldexp(ANCHOR, -n))) - _probit(exact)
    likely = _probit(_t_power(effect, n, math.ldexp(arrangements, -n)))
    return NORMAL.cdf(likely - lead * (ANCHOR / arrangements) ** DECAY)


def _exact_power(effect: float, n: int, arrangements: int) -> float:
    """P1, P2 or P3 of :func:`power`."""
    density, below = NORMAL.pdf, NORMAL.cdf
    reach = abs(effect) + 8.0
    found = below(effect) ** n
    if arrangements >= 2:
        found += n * _integral(lambda x: density(x + effect) * below(effect - x) ** (n - 1), 0.0, reach)
    if arrangements >= 3:

        def second(x: float) -> float:
            larger = below(effect - x)
            return density(x + effect) * (below(effect) - larger) * larger ** (n - 2)

        found += n * (n - 1) * _integral(second, 0.0, reach)
    return found


def _t_power(effect: float, n: int, level: float) -> float:
    """Power of the one-sided t test: P(Z + δ √n > t S), with Z normal and S = √(χ² / (n - 1))."""
    return _beyond(_t_quantile(n, level), effect * math.sqrt(n), n)


@functools.lru_cache(maxsize=4096)
def _t_quantile(n: int, level: float) -> float:
    """Student's t with n - 1 degrees of freedom that is exceeded with the given probability."""
    return _bisect(lambda t: _beyond(t, 0.0, n) <= level, 0.0, LARGEST_T)


def _beyond(t: float, noncentrality: float, n: int) -> float:
    """P(noncentral t > t), the sum over S of P(Z > t S - noncentrality)."""
    return sum(weight * NORMAL.cdf(noncentrality - t * s) for s, weight in _spread(n))


@functools.lru_cache(maxsize=256)
def _spread(n: int) -> tuple[tuple[float, float], ...]:
    """Values of S = √(χ² / (n - 1)) with their probabilities: a grid over 9 deviations to either side of 1."""
    freedom = n - 1
    width = 9 / math.sqrt(2 * freedom)
    low = max(0.0, 1 - width)
    step = (1 + width - low) / STEPS
    grid = [low + step * (i + 0.5) for i in range(STEPS)]
    weights = [math.exp((freedom - 1) * math.log(s) - freedom * (s * s - 1) / 2) for s in grid]
    total = sum(weights)
    return tuple((s, w / total) for s, w in zip(grid, weights, strict=True))


def _integral(function: Callable[[float], float], low: float, high: float) -> float:
    """By Simpson's rule."""
    step = (high - low) / STEPS
    inner = sum((4 if i % 2 else 2) * function(low + step * i) for i in range(1, STEPS))
    return step / 3 * (function(low) + inner + function(high))


def _probit(probability: float) -> float:
    """Φ⁻¹, with ends: what is certain but for 10⁻¹⁵ is as good as certain."""
    return NORMAL.inv_cdf(min(max(probability, 1e-15), 1 - 1e-15))


def _bisect(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest value between two ends from which on a condition holds."""
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
