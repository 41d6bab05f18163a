"""Intervals, sign-flip p-values and probabilities of improvement: properties, and agreement with scipy."""

import itertools
import math
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from vitbench.analysis import paired
from vitbench.analysis.paired import Interval, interval, probability_of_improvement, sign_flip_ps

# Accuracies move in steps of 0.01 points, so that ties are the rule.
points = st.integers(-2000, 2000).map(lambda k: k / 100)
some = st.lists(points, min_size=2, max_size=8)


def sign_flip_p(deltas: Sequence[float]) -> float:
    return sign_flip_ps([deltas])[0]


@given(st.lists(points, min_size=1, max_size=10))
@example([0.1, 0.2, -0.3])  # the sum of which is not 0 in floats
@example([0.1] * 3 + [0.3])
@example([0.1, 0.2, 0.3, 0.7, 0.4, 0.1])
@example([0.0] * 7)
def test_sign_flip_p_is_the_share_of_arrangements_in_exact_arithmetic(deltas: list[float]) -> None:
    cents = [round(100 * d) for d in deltas]
    arrangements = [sum(map(int.__mul__, signs, cents)) for signs in itertools.product((1, -1), repeat=len(cents))]
    expected = sum(abs(a) >= abs(sum(cents)) for a in arrangements) / len(arrangements)
    assert sign_flip_p(deltas) == expected


@given(st.lists(points, min_size=1, max_size=12), st.sampled_from([0.001, 0.1, 3.0, 1000.0]), st.randoms())
def test_sign_flip_p_keeps_under_sign_scale_and_order(deltas: list[float], scale: float, chance: object) -> None:
    p = sign_flip_p(deltas)
    shuffled = list(deltas)
    chance.shuffle(shuffled)
    assert sign_flip_p([-d for d in deltas]) == sign_flip_p([scale * d for d in deltas]) == sign_flip_p(shuffled) == p
    assert 2 / 2 ** len(deltas) <= p <= 1


def test_of_no_runs_there_is_no_probability_and_twenty_of_one_sign_have_the_smallest_p() -> None:
    assert math.isnan(sign_flip_p([])) and math.isnan(probability_of_improvement([], []))
    assert sign_flip_p([1.0] * 20) == 2 / 2**20


def test_many_deltas_are_judged_by_arrangements_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    deltas = list(np.random.default_rng(0).normal(0.4, 1, 18))
    exact = sign_flip_p(deltas)
    monkeypatch.setattr(paired, "EXACT_SIGNS", 10)
    drawn = sign_flip_p(deltas)
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact / paired.FLIPS))
    assert drawn == sign_flip_p(deltas)
    # Never 0, and exactly so where no arrangement drawn is as extreme.
    assert sign_flip_p([1.0] * 60) == 1 / (1 + paired.FLIPS)


def test_a_table_of_comparisons_has_the_p_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "AT_ONCE", 2)
    draw = np.random.default_rng(0)
    table = [list(draw.normal(0.2, 1, n)) for n in (30, 0, 8, 25, 30, 30, 1)]
    ps = sign_flip_ps(table)
    assert ps == pytest.approx([sign_flip_p(deltas) for deltas in table], rel=0, abs=0, nan_ok=True)
    assert len(set(ps[:1] + ps[4:6])) == 3


@pytest.mark.parametrize("n", [4, 6, 8, 9])
def test_bca_is_that_of_scipy(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval has neither the expansion nor t here, and scipy's has the noise of its random resamples."""
    deltas = np.random.default_rng(n).gamma(2, size=n)
    scale = np.abs(deltas - deltas.mean()).max()
    low, high = paired._bca(np.sort(deltas - deltas.mean()) / scale, stats.norm.isf(0.025))
    resampled = stats.bootstrap((deltas,), np.mean, n_resamples=200_000, method="BCa", rng=np.random.default_rng(1))
    expected = pytest.approx(resampled.confidence_interval, abs=0.01 * scale)
    assert (deltas.mean() + scale * low, deltas.mean() + scale * high) == expected


def test_the_interval_reaches_as_far_as_students_t_and_further_to_the_side_of_the_skew() -> None:
    deltas = [0.1, 0.2, 0.15, 0.3, 2.5]
    low, high = stats.t.interval(0.95, 4, np.mean(deltas), stats.sem(deltas))
    reached = interval(deltas)
    assert reached.low == pytest.approx(low)
    assert reached.high > high + 0.1


@given(some, st.sampled_from([0.1, 1.0, 7.0]), points)
def test_the_interval_moves_with_its_deltas(deltas: list[float], scale: float, shift: float) -> None:
    """Scaled, shifted, mirrored."""
    whole, narrow = interval(deltas), interval(deltas, 0.8)
    near = {"rel": 1e-6, "abs": 1e-6}
    moved = interval([scale * d + shift for d in deltas])
    assert (moved.low, moved.high) == pytest.approx((scale * whole.low + shift, scale * whole.high + shift), **near)
    mirrored = interval([-d for d in deltas])
    assert (-mirrored.high, -mirrored.low) == pytest.approx((whole.low, whole.high), **near)
    assert interval(deltas[::-1]) == whole
    assert whole.holds(float(np.mean(deltas))) or len(set(deltas)) == 1
    assert narrow.low >= whole.low and narrow.high <= whole.high


def test_resamples_are_all_there_are_with_their_probabilities() -> None:
    for n in range(2, paired.EXACT_BOOTSTRAP + 1):
        counts, weights = paired._resamples(n)
        assert len(counts) == math.comb(2 * n - 1, n) == len(np.unique(counts, axis=0))
        assert (counts.sum(axis=1) == n).all() and (counts >= 0).all()
        assert weights.sum() == pytest.approx(1)
        assert weights @ counts == pytest.approx(np.ones(n))
    draws = list(itertools.product(range(3), repeat=3))
    counts, weights = paired._resamples(3)
    for count, weight in zip(counts, weights, strict=True):
        same = sum([draw.count(i) for i in range(3)] == list(count) for draw in draws)
        assert weight == pytest.approx(same / len(draws))


def test_more_deltas_than_can_be_enumerated() -> None:
    deltas = list(np.random.default_rng(3).normal(1, 1, 30))
    first = interval(deltas)
    assert first == interval(deltas)
    low, high = stats.t.interval(0.95, 29, np.mean(deltas), stats.sem(deltas))
    assert (first.low, first.high) == pytest.approx((low, high), abs=0.1)


def test_equal_deltas_have_an_interval_of_no_width() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert interval([0.0] * 5) == Interval(0.0, 0.0)
        assert interval([0.5] * 30) == Interval(0.5, 0.5)
        rounded = interval([50.3 - 50.1, 60.3 - 60.1, 0.2])
    assert rounded.low == rounded.high == pytest.approx(0.2)


@pytest.mark.parametrize("deltas", [[], [1.5]])
def test_fewer_than_two_deltas_have_no_interval(deltas: list[float]) -> None:
    empty = interval(deltas)
    assert math.isnan(empty.low) and math.isnan(empty.high)
    assert not empty.holds(1.5) and not empty.within(100)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    for function in (interval, sign_flip_p):
        with pytest.raises(ValueError, match="not finite"):
            function([1.0, bad, 2.0])
    with pytest.raises(ValueError, match="not finite"):
        probability_of_improvement([1.0], [bad])


def test_within_is_of_the_whole_interval() -> None:
    assert Interval(-0.4, 0.5).within(0.5)
    assert not Interval(-0.6, 0.5).within(0.5)
    assert not Interval(-0.4, 0.51).within(0.5)


@given(st.lists(points, min_size=1, max_size=6), st.lists(points, min_size=1, max_size=6))
def test_probability_of_improvement_is_mann_whitneys_u(variant: list[float], baseline: list[float]) -> None:
    probability = probability_of_improvement(variant, baseline)
    u = stats.mannwhitneyu(variant, baseline, method="asymptotic", alternative="greater").statistic
    assert probability == pytest.approx(u / (len(variant) * len(baseline)))
    assert probability + probability_of_improvement(baseline, variant) == pytest.approx(1)
