"""The difference of two arms: estimate, interval, and the p-values that a verdict goes by.

Arms that are trained independently are compared by Welch's t, arms that share what they start from by the t of their
paired differences: see :func:`unpaired` and :func:`paired`. Runs are the unit of inference, and everything here is a
pure function of their results. Leading axes are of many comparisons at once.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

EXACT_SPLITS = 200_000  # Most splits that are enumerated: two arms of up to 10 runs
DRAWN_SPLITS = 99_999  # Splits drawn, from a fixed seed, where there are more
AT_ONCE = 4_000_000  # Statistics, over comparisons and splits, that are in memory together
MOST_KEPT = 32_000_000
"""Runs in splits that are kept for the next comparison of arms of these sizes; more are drawn again, part by part."""

LIKE_SPREADS, MOST_TIMES = 1.25, 10.0
"""Ratio of the arms' standard deviations from which Welch's p counts more than once, and how often at most."""

ROUNDING = 1e-9  # Relative to what was added up, what is equal but for the rounding of floats
Floats = npt.NDArray[np.float64]
Splits = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Difference:
    """An estimated difference, as a t distribution around it."""

    mean: Floats  # the variant's mean less the baseline's
    se: Floats  # its standard error
    freedom: Floats  # degrees of freedom

    @property
    def p(self) -> Floats:
        """Two-sided p of no difference. Of arms without any spread, 1 where their means are equal and else 0."""
        return self._beyond(np.abs(self.mean))

    def p_equivalent(self, margin: float) -> Floats:
        """p of a difference of the margin or more, of either sign: at most 0.05 where the 95 % interval lies within it.

        The larger of the two p-values of two one-sided tests, times 2.
        """
        return np.minimum(1.0, self._beyond(margin - np.abs(self.mean)))

    def reach(self, confidence: float) -> Floats:
        """Half the width of the confidence interval."""
        return np.asarray(special.stdtrit(self.freedom, (1 + confidence) / 2) * self.se)

    def _beyond(self, distance: Floats) -> Floats:
        """P(|t| > distance / se), continued beyond 1 for a distance below 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.se > 0, distance / self.se, np.where(distance > 0, np.inf, 0.0))
        return np.where(np.isnan(self.se), np.nan, 2 * special.stdtr(self.freedom, -t))


def paired(deltas: Floats) -> Difference:
    """The mean of paired differences, (…, n) → (…): m ± t(n - 1) · s / √n; NaN of fewer than two.

    Source: Student 1908, The Probable Error of a Mean.
    """
    n = deltas.shape[-1]
    mean, variance = _moments(deltas)
    return Difference(mean, np.sqrt(variance / max(n, 1)), np.full(mean.shape, max(n - 1.0, 1.0)))


def unpaired(variant: Floats, baseline: Floats) -> Difference:
    """The difference of the means of two arms, (…, n) and (…, m) → (…), by Welch's t with Satterthwaite's freedom.

    With v = s² / n of either arm: (v + v₀)² / (v² / (n - 1) + v₀² / (m - 1)) degrees of freedom, se = √(v + v₀).

    Source: Welch 1947, The Generalization of "Student's" Problem when Several Different Population Variances Are
    Involved.
    """
    sizes = variant.shape[-1], baseline.shape[-1]
    (mean, variance), (base_mean, base_variance) = _moments(variant), _moments(baseline)
    parts = [(of / max(n, 1), max(n - 1, 1)) for of, n in zip((variance, base_variance), sizes, strict=True)]
    return of_sources(mean - base_mean, parts)


def of_sources(mean: npt.ArrayLike, parts: Sequence[tuple[npt.ArrayLike, int]]) -> Difference:
    """An estimate whose variance is a sum of independent parts, each known with degrees of freedom of its own.

    Of parts v[i] with f[i] degrees, (Σ v)² / Σ (v² / f).

    Source: Satterthwaite 1946, An Approximate Distribution of Estimates of Variance Components.
    """
    variances, freedoms = [np.asarray(part, dtype=np.float64) for part, _ in parts], [left for _, left in parts]
    total = np.asarray(sum(variances))
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = 1 / sum((each / total) ** 2 / left for each, left in zip(variances, freedoms, strict=True))
    return Difference(np.asarray(mean), np.sqrt(total), np.where(total > 0, freedom, float(sum(freedoms))))


def rule(variant: Floats, baseline: Floats) -> tuple[Floats, Floats]:
    """The p of two independent arms that a verdict goes by, and the permutation p beside it.

    It is the larger of the permutation's and of Welch's, which counts (r / 1.25)² times, at least once and at most ten
    times, where r is the larger of the arms' standard deviations over the smaller: noise that is skewed and nearly all
    in one arm makes Welch's p that much too small. Chosen by simulation among others: docs/statistics-notes.md.

    Args:
        variant: (comparisons, n).
        baseline: (comparisons, m).
    """
    spreads = np.sort([np.sqrt(_moments(arm)[1]) for arm in (variant, baseline)], axis=0)
    smallest = spreads[1] / LIKE_SPREADS / MOST_TIMES  # beyond which no ratio counts for more
    ratio = spreads[1] / np.where(spreads[1] > 0, np.maximum(spreads[0], smallest), 1.0)
    welch = unpaired(variant, baseline).p * np.clip((ratio / LIKE_SPREADS) ** 2, 1.0, MOST_TIMES)
    beside = permutation_p(variant, baseline)
    return np.minimum(1.0, np.maximum(welch, beside)), beside


def permutation_p(variant: Floats, baseline: Floats) -> Floats:
    """Two-sided p of the studentised permutation test, (comparisons, n) and (comparisons, m) → (comparisons,).

    The share of the ways to split all runs into arms of these sizes for which |Welch's t| is at least as large as
    observed; the smallest p of two arms of n is 2 / C(2n, n). Exact up to 200,000 splits; beyond, from 99,999 drawn
    with a fixed seed, with the observed one counted among them.

    P(p ≤ α) ≤ α exactly where the runs of both arms can be exchanged, whatever the noise, and in large arms also where
    only their means are equal.

    scipy.stats.permutation_test gives the same exact p-values (to the last digit) and takes 3 to 27 times as long, with
    a memory that grows with comparisons × splits × runs: splits are shared here, and sums over them matrix products.

    Sources: Janssen 1997, Studentized Permutation Tests for Non-i.i.d. Hypotheses and the Generalized Behrens-Fisher
    Problem; Chung and Romano 2013, Exact and Asymptotically Robust Permutation Tests.
    """
    n, m = variant.shape[-1], baseline.shape[-1]
    if min(n, m) < 2:
        return np.full(len(variant), np.nan)
    pooled = np.concatenate([np.sort(variant, axis=-1), np.sort(baseline, axis=-1)], axis=-1)
    pooled = pooled - pooled.mean(axis=-1, keepdims=True)
    size = np.abs(pooled).max(axis=-1, keepdims=True)
    pooled = np.where(size > 0, pooled / np.where(size > 0, size, 1.0), 0.0)
    observed = _squared_t(pooled, (np.arange(n + m) < n).astype(np.int8)[None], n, m) * (1 - ROUNDING)
    hits, tried, exact = np.zeros(len(pooled)), 0, math.comb(n + m, n) <= EXACT_SPLITS
    few = exact or DRAWN_SPLITS * (n + m) <= MOST_KEPT
    for splits in [_splits(n, m)] if few else _drawn(n, m):
        tried += len(splits)
        rows = max(1, AT_ONCE // len(splits))
        for start in range(0, len(pooled), rows):
            some = slice(start, start + rows)
            hits[some] += (_squared_t(pooled[some], splits, n, m) >= observed[some]).sum(axis=1)
    return hits / tried if exact else (1 + hits) / (1 + tried)


def _moments(values: Floats) -> tuple[Floats, Floats]:
    """Mean and variance over the last axis; a spread that is the rounding of floats alone is none."""
    n = values.shape[-1]
    if not n:
        return np.full(values.shape[:-1], np.nan), np.full(values.shape[:-1], np.nan)
    mean = values.mean(axis=-1)
    if n < 2:
        return mean, np.full(mean.shape, np.nan)
    variance = values.var(axis=-1, ddof=1)
    return mean, np.where(np.sqrt(variance) > ROUNDING * np.abs(values).max(axis=-1), variance, 0.0)


def _squared_t(pooled: Floats, splits: Splits, n: int, m: int) -> Floats:
    """(comparisons, n + m) values of mean 0 → (comparisons, splits): Welch's t², infinite where neither arm varies."""
    of_split = splits.T.astype(np.float64)
    sums, squares = pooled @ of_split, (pooled**2) @ of_split
    rest, rest_squares = pooled.sum(axis=1)[:, None] - sums, (pooled**2).sum(axis=1)[:, None] - squares
    within = (squares - sums**2 / n) / (n * (n - 1)) + (rest_squares - rest**2 / m) / (m * (m - 1))
    apart = (sums / n - rest / m) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(apart <= ROUNDING**2, 0.0, np.where(within <= ROUNDING**2, np.inf, apart / within))


@functools.lru_cache(maxsize=8)
def _splits(n: int, m: int) -> Splits:
    """Which of n + m runs are the first arm's, (splits, n + m): in all ways, or in as many as are drawn.

    Of two arms of one size a split and its mirror image count alike, so that the first run stays.
    """
    together = n + m
    if math.comb(together, n) > EXACT_SPLITS:
        return np.concatenate([*_drawn(n, m)])
    first = n == m
    chosen = itertools.combinations(range(int(first), together), n - first)
    places = np.array([(0, *rest) if first else rest for rest in chosen])
    splits = np.zeros((len(places), together), dtype=np.int8)
    np.put_along_axis(splits, places, 1, axis=1)
    return splits


def _drawn(n: int, m: int) -> Iterator[Splits]:
    """Splits drawn from a fixed seed, part by part: of arms of thousands of runs all of them are gigabytes."""
    chance, part = np.random.default_rng(0), max(1, MOST_KEPT // (n + m) // 8)
    for start in range(0, DRAWN_SPLITS, part):
        number = min(part, DRAWN_SPLITS - start)
        order = chance.permuted(np.tile(np.arange(n + m, dtype=np.int32), (number, 1)), axis=1)
        yield (order < n).astype(np.int8)
