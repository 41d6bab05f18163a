"""Paired differences between two arms, one for each seed that both finished: interval, p-value, chance of a better run.

With n seeds, the deltas d[1..n] are the variant's result less the baseline's in the same seed. Seeds are the unit of
inference: they are assumed to be independent of one another, and nothing is assumed about their distribution except
where a function says so. Everything here is a pure function of the deltas; the order of seeds does not matter.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

CONFIDENCE = 0.95

EXACT_BOOTSTRAP = 9  # Most deltas of which every resample is enumerated: 24,310 distinct ones
RESAMPLES = 20_000  # Resamples drawn, from a fixed seed, where there are more deltas
MOST_BOOTSTRAP = 1000
"""Deltas up to which the bootstrap is part of an interval. Of more it takes gigabytes, and is nearly Student's t."""

EXACT_SIGNS = 20  # Most deltas of which every arrangement of signs is enumerated: 524,288, up to the sign of all
FLIPS = 99_999  # Arrangements drawn, from a fixed seed, where there are more deltas
PARTS = 10  # Parts in which the resamples are counted, one after the other: all of them as floats take too much memory
AT_ONCE = 256  # Comparisons whose sums over arrangements are in memory together
ROUNDING = 1e-9  # Relative to what was added up, differences that are equal but for the rounding of floats
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A confidence interval; its ends are not numbers where there are too few deltas for one."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether the value lies in the interval."""
        return self.low <= value <= self.high

    def within(self, margin: float) -> bool:
        """Whether the whole interval lies in [-margin, margin]."""
        return -margin <= self.low and self.high <= margin


def interval(deltas: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Confidence interval of the mean delta: the hull of Student's t interval and of the expanded BCa interval.

    With mean m, standard deviation s (divisor n - 1) and z = t(n - 1) · √(n / (n - 1)), t the quantile at
    (1 + confidence) / 2:

    - Student: m ± t · s / √n.
    - Expanded BCa: the bootstrap's quantiles at Φ(z0 + (z0 ± z) / (1 - a (z0 ± z))), with z0 = Φ⁻¹ of the share of
      resampled means below m (ties half) and a = Σ(d - m)³ / 6 (Σ(d - m)²)^1.5. Plain BCa has 1.96 for z; at n = 5 its
      resamples are too narrow by √(4 / 5) and know nothing of t, which the larger z makes up for.

    Every resample is enumerated for n ≤ 9; beyond, 20,000 are drawn with a fixed seed; beyond n = 1,000 Student's t
    stands alone. All deltas equal, as of equivalent implementations: that value twice. Fewer than two deltas: NaN.

    The promise: a 95 % interval covers at least 93 % at n = 5…10 where the arms are normal or skewed, alike or not, and
    of spreads up to 1 : 2. Coverage found, and what else was tried: docs/statistics-notes.md, The interval of a mean.

    Args:
        deltas: (n,), the variant less the baseline in each seed.
        confidence: of the interval, two-sided.

    Raises:
        ValueError: where a delta is not finite.

    Sources: Efron 1987, Better Bootstrap Confidence Intervals (BCa); Hesterberg 2015, What Teachers Should Know About
    the Bootstrap (how much too narrow small resamples are, and the expanded percentiles).
    """
    d = _finite(deltas)
    n = len(d)
    if n < 2:
        return Interval(math.nan, math.nan)
    mean = float(d.mean())
    centred = d - mean
    scale = float(np.abs(centred).max())
    if scale <= ROUNDING * float(np.abs(d).max()):
        return Interval(float(d[0]), float(d[0]))
    t = float(special.stdtrit(n - 1, (1 + confidence) / 2))
    reach = t * float(d.std(ddof=1)) / math.sqrt(n)
    if n > MOST_BOOTSTRAP:
        return Interval(mean - reach, mean + reach)
    low, high = _bca(centred / scale, t * math.sqrt(n / (n - 1)))
    return Interval(mean + min(scale * low, -reach), mean + max(scale * high, reach))


def sign_flip_ps(table: Sequence[Sequence[float]]) -> list[float]:
    """Two-sided p of the sign-flip permutation test of the mean of each of some comparisons; NaN of no delta at all.

    The share of the 2ⁿ arrangements ±d[1], …, ±d[n] whose sum is at least as far from 0 as that of the deltas
    themselves; the smallest p is 2 / 2ⁿ. Exact for n ≤ 20; beyond, from 99,999 arrangements drawn with a fixed seed,
    with the observed one counted among them: (1 + hits) / 100,000. Comparisons of equally many deltas meet the same.

    Null hypothesis: in every seed the arms are exchangeable, so that d is as likely as -d. Then P(p ≤ α) ≤ α exactly,
    whatever the noise. Arms that only have the same mean may differ in more: found at α = 0.05 were up to 5.8 % false
    positives for normal against skewed arms of one spread, and up to 8 % in one comparison, 12 % in a table of 20,
    where the skewed arm also has twice the spread.

    scipy.stats.permutation_test gives the same exact p-values, and takes 50 (n = 10) to 1,000 times (n = 20) as long.

    Args:
        table: of each comparison (n,) deltas, the variant less the baseline in each seed.

    Raises:
        ValueError: where a delta is not finite.

    Sources: Fisher 1935, The Design of Experiments, §21; Phipson and Smyth 2010, Permutation P-values Should Never Be
    Zero.
    """
    arrays = [_finite(deltas) for deltas in table]
    p = [math.nan] * len(arrays)
    for n in {len(d) for d in arrays} - {0}:
        exact = n <= EXACT_SIGNS
        alike = [i for i, d in enumerate(arrays) if len(d) == n]
        for some in (alike[start : start + AT_ONCE] for start in range(0, len(alike), AT_ONCE)):
            deltas = np.stack([arrays[i] for i in some])
            # What is equal but for rounding is a tie: a tie taken for less would make p too small.
            extreme = np.abs(deltas.sum(axis=1)) - ROUNDING * np.abs(deltas).sum(axis=1)
            hits = sum((np.abs(signs @ deltas.T) >= extreme).sum(axis=0) for signs in _arrangements(n, exact=exact))
            for i, count in zip(some, hits, strict=True):
                p[i] = float(count / 2 ** (n - 1) if exact else (1 + count) / (1 + FLIPS))
    return p


def probability_of_improvement(variant: Sequence[float], baseline: Sequence[float]) -> float:
    """P(a run of the variant > a run of the baseline), ties half: ΣΣ ([v > b] + [v = b] / 2) / (n m); NaN of no runs.

    Over all pairs of runs and not seed by seed: what to expect of one run each, where the mean delta tells by how much
    the arms differ. No interval goes with it: a percentile bootstrap of 5 to 10 runs would promise more than it keeps.

    Args:
        variant: (n,), results of the variant's runs.
        baseline: (m,), results of the baseline's.

    Raises:
        ValueError: where a result is not finite.

    Sources: Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice, §4.3; it is the
    Mann-Whitney U over n m.
    """
    v, b = _finite(variant), _finite(baseline)
    if not len(v) or not len(b):
        return math.nan
    return float(np.mean(np.greater.outer(v, b) + 0.5 * np.equal.outer(v, b)))


def _finite(values: Iterable[float]) -> Floats:
    """The values in ascending order, so that nothing depends on the order of seeds."""
    array = np.sort(np.asarray(tuple(values), dtype=np.float64))
    if not np.isfinite(array).all():
        raise ValueError(f"not finite: {', '.join(str(v) for v in array[~np.isfinite(array)])}")
    return array


@functools.lru_cache(maxsize=8)
def _arrangements(n: int, *, exact: bool) -> list[npt.NDArray[np.int8]]:
    """(…, n) signs in parts: all arrangements but mirror images, which count alike; or those drawn."""
    if exact:
        every = np.arange(2 ** (n - 1), dtype=np.int32)
        return [
            (1 - 2 * (some[:, None] >> np.arange(n)[::-1] & 1)).astype(np.int8)
            for some in np.array_split(every, -(-len(every) // 2**14))
        ]
    chance = np.random.default_rng(0)
    return [chance.integers(2, size=(FLIPS // 9, n), dtype=np.int8) * 2 - 1 for _ in range(9)]


def _bca(centred: Floats, z: float) -> tuple[float, float]:
    """Ends of the BCa interval of the mean of deltas whose mean is 0, at ±z of the normal distribution."""
    counts, weights = _resamples(len(centred))
    means = np.concatenate([some @ centred for some in np.array_split(counts, PARTS)]) / len(centred)
    below = float(weights[means < -ROUNDING].sum() + weights[np.abs(means) <= ROUNDING].sum() / 2)
    bias = float(special.ndtri(below))
    acceleration = float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5))
    order = np.argsort(means, kind="stable")
    means, weights = means[order], weights[order]

    def share(z: float) -> float:
        shifted = bias + z
        shrink = 1 - acceleration * shifted
        return float(special.ndtr(bias + shifted / shrink)) if shrink > 0 else float(shifted > 0)

    # From either end the first mean that leaves no more than its share beyond: mirrored deltas, mirrored interval.
    low = np.searchsorted(np.cumsum(weights), share(-z) - ROUNDING)
    high = np.searchsorted(np.cumsum(weights[::-1]), 1 - share(z) - ROUNDING)
    return float(means[low]), float(means[::-1][high])


@functools.lru_cache(maxsize=8)
def _resamples(n: int) -> tuple[npt.NDArray[Any], Floats]:
    """Resamples of n deltas: how often each holds each delta (R, n), and the probability of each (R,)."""
    if n > EXACT_BOOTSTRAP:
        chance = np.random.default_rng(0)
        counts = np.empty((RESAMPLES, n), dtype=np.min_scalar_type(n))
        for some in np.array_split(counts, 100):  # the draws are integers, of which there is never a second large array
            drawn = chance.integers(n, size=some.shape) + n * np.arange(len(some))[:, None]
            some[:] = np.bincount(drawn.ravel(), minlength=some.size).reshape(some.shape)
        return counts, np.full(RESAMPLES, 1 / RESAMPLES)
    # Stars and bars: n - 1 bars among 2n - 1 places, and the stars between two bars are one delta's count.
    bars = np.array([*itertools.combinations(range(2 * n - 1), n - 1)], dtype=np.int64).reshape(-1, n - 1)
    ends = np.full((len(bars), 1), -1), np.full((len(bars), 1), 2 * n - 1)
    counts = np.diff(np.concatenate([ends[0], bars, ends[1]], axis=1), axis=1) - 1
    factorials = np.array([math.factorial(k) for k in range(n + 1)], dtype=np.float64)
    return counts.astype(np.float64), factorials[n] / factorials[counts].prod(axis=1) / float(n) ** n
