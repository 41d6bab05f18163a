"""Rule 12: the statistics tested by simulation. Fixed seeds; every figure is of the functions that make the verdicts.

Arms are a baseline and m variants that share it, as in a table, with an effect of the seed that pairing takes away.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from vitbench.analysis.multiplicity import holm, seeds_for
from vitbench.analysis.paired import interval, sign_flip_p
from vitbench.analysis.power import power
from vitbench.analysis.verdicts import Comparison, judge

Floats = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]
"""Of mean 0 and variance 1."""


def normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return chance.standard_normal(shape)


def gamma(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """With a long left tail, as a run that now and then goes wrong."""
    return (2 - chance.gamma(2, size=shape)) / math.sqrt(2)


def exponential(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return 1 - chance.exponential(size=shape)


def lognormal(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return (math.exp(0.5) - chance.lognormal(size=shape)) / math.sqrt((math.e - 1) * math.e)


def p_values(deltas: Floats) -> Floats:
    """The sign-flip p of many sets of deltas (…, n) at once, apart from the package's."""
    n = deltas.shape[-1]
    signs = 1.0 - 2.0 * ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1)
    found = []
    for chunk in np.array_split(deltas.reshape(-1, n), max(1, deltas.size // n // 2000)):
        sums, observed = np.abs(chunk @ signs.T), np.abs(chunk.sum(axis=1))
        found.append((sums >= observed[:, None] * (1 - 1e-12)).mean(axis=1))
    return np.concatenate(found).reshape(deltas.shape[:-1])


def studies(chance: np.random.Generator, noise: Noise, count: int, comparisons: int, n: int) -> Floats:
    """Deltas (studies, comparisons, n) where no variant differs from its baseline."""
    seed = 3 * normal(chance, (count, 1, n))
    arms = 50 + seed + noise(chance, (count, comparisons + 1, n))
    return arms[:, 1:] - arms[:, :1]


def verdicts(deltas: Floats) -> set[str]:
    rows = [Comparison(str(i), tuple(d), len(d)) for i, d in enumerate(deltas)]
    return {j.verdict for j in judge(rows, margin=None, noise_floor=None)}


DECIDED = {"better", "worse"}


@pytest.mark.parametrize("noise", [normal, exponential, lognormal])
@pytest.mark.parametrize(("comparisons", "n", "count"), [(1, 6, 4000), (1, 8, 4000), (5, 9, 4000), (20, 10, 2000)])
def test_false_positives_in_a_table_are_at_most_5_percent(noise: Noise, comparisons: int, n: int, count: int) -> None:
    """Any better or worse in a study in which nothing differs (0.34 points of standard error, or 0.49)."""
    deltas = studies(np.random.default_rng([comparisons, n]), noise, count, comparisons, n)
    p = p_values(deltas)
    assert [sign_flip_p(d) for d in deltas[:50, 0]] == pytest.approx(list(p[:50, 0]))
    found = np.array([min(holm(list(row))) <= 0.05 for row in p])
    assert found.mean() <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / len(found))
    # The verdicts are these: on studies with a rejection, and on others.
    for study in (*np.flatnonzero(found)[:5], *np.flatnonzero(~found)[:5]):
        assert bool(verdicts(deltas[study]) & DECIDED) == found[study]


@pytest.mark.parametrize(
    ("noise", "comparisons", "n", "count"),
    [(normal, 1, 7, 2000), pytest.param(exponential, 1, 7, 2000, marks=pytest.mark.slow), (normal, 5, 8, 400)],
)
def test_verdicts_themselves_are_false_in_at_most_5_percent_of_studies(
    noise: Noise, comparisons: int, n: int, count: int
) -> None:
    """Through judge and nothing else; where the level is nearly used up, it is also nearly reached."""
    deltas = studies(np.random.default_rng(comparisons), noise, count, comparisons, n)
    false = np.mean([bool(verdicts(study) & DECIDED) for study in deltas])
    error = math.sqrt(0.05 * 0.95 / count)
    assert false <= 0.05 + 2.6 * error
    if comparisons == 1:
        assert false >= 6 / 2**7 - 2.6 * error


def coverage(chance: np.random.Generator, variant: Floats, baseline: Floats) -> float:
    seed = 3 * normal(chance, variant.shape)
    return float(np.mean([interval(d).holds(0.5) for d in (0.5 + variant + seed) - (baseline + seed)]))


@pytest.mark.parametrize(("n", "count"), [(5, 2000), (6, 2000), (7, 1500), (8, 1200), (9, 700), (10, 1000)])
@pytest.mark.parametrize("noise", [normal, exponential, pytest.param(lognormal, marks=pytest.mark.slow)])
def test_the_interval_covers_the_truth_in_at_least_93_percent(noise: Noise, n: int, count: int) -> None:
    """Both arms with the same noise, and a variant with it against a normal baseline, of which deltas are skewed."""
    chance = np.random.default_rng([n, count])
    shape = (count, n)
    alike = coverage(chance, noise(chance, shape), noise(chance, shape))
    unlike = coverage(chance, noise(chance, shape), normal(chance, shape))
    louder = coverage(chance, 2 * noise(chance, shape), normal(chance, shape))
    # The last as the docstring has it; the lognormal is found to be covered in 93.0 %, and may fall below by chance.
    error = math.sqrt(0.93 * 0.07 / count)
    assert min(alike, unlike) >= 0.93
    assert louder >= 0.93 - 2.6 * error
    assert max(alike, unlike, louder) <= 0.99


@pytest.mark.parametrize(("noise", "found"), [(gamma, 0.929), (exponential, 0.903), (lognormal, 0.845)])
def test_where_the_promise_of_coverage_ends(noise: Noise, found: float) -> None:
    """One arm all skewed and the other without noise, at n = 5: the docstring says how much is covered."""
    chance = np.random.default_rng(5)
    skewed = noise(chance, (4000, 5))
    assert coverage(chance, skewed, np.zeros_like(skewed)) == pytest.approx(found, abs=0.018)


EFFECTS = (0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


@pytest.mark.parametrize(("n", "count"), [*((n, 8000) for n in range(6, 13)), (14, 3000)])
def test_power_is_within_3_points_of_what_is_computed(n: int, count: int) -> None:
    """Holm's first step over 1 to 50 comparisons, at each effect."""
    deltas = normal(np.random.default_rng(n), (count, n))
    for effect in EFFECTS:
        p = p_values(deltas + effect)
        for comparisons in (1, 2, 3, 5, 10, 20, 50):
            if n >= seeds_for(comparisons):
                found = float(np.mean(comparisons * p <= 0.05))
                assert power(effect, n, comparisons) == pytest.approx(found, abs=0.03), (effect, comparisons)


@pytest.mark.parametrize(("n", "count"), [(7, 8000), pytest.param(20, 1500, marks=pytest.mark.slow)])
def test_power_is_that_of_the_test_itself(n: int, count: int) -> None:
    """The same with the package's own test, and up to the most seeds of which every arrangement is counted."""
    deltas = normal(np.random.default_rng(n), (count, n))
    for effect in (0.5, 1.0)[: 2 if n == 7 else 1]:
        found = np.mean([sign_flip_p(d) <= 0.05 for d in deltas + effect])
        assert power(effect, n) == pytest.approx(found, abs=0.03)
