"""Differences of two arms: Welch's t, the permutation test and the rule, against scipy and by hand."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from vitbench.analysis import differences
from vitbench.analysis.differences import paired, permutation_p, rule, unpaired

CHANCE = np.random.default_rng(0)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 7), (9, 6)])
def test_welch_is_that_of_scipy(n: int, m: int) -> None:
    variant, baseline = CHANCE.normal(1, 3, (20, n)), CHANCE.normal(0, 1, (20, m))
    expected = stats.ttest_ind(variant, baseline, axis=1, equal_var=False)
    difference = unpaired(variant, baseline)
    assert difference.p == pytest.approx(expected.pvalue)
    assert difference.freedom == pytest.approx(expected.df)
    interval = expected.confidence_interval(0.95)
    assert difference.mean - difference.reach(0.95) == pytest.approx(interval.low)
    assert difference.mean + difference.reach(0.95) == pytest.approx(interval.high)


def test_paired_is_that_of_scipy() -> None:
    deltas = CHANCE.normal(0.5, 1, (20, 6))
    assert paired(deltas).p == pytest.approx(stats.ttest_1samp(deltas, 0, axis=1).pvalue)


@pytest.mark.parametrize("margin", [0.5, 1.0, 3.0])
def test_equivalent_at_5_percent_exactly_where_the_interval_lies_within_the_margin(margin: float) -> None:
    difference = unpaired(CHANCE.normal(0, 1, (300, 8)), CHANCE.normal(0, 1, (300, 8)))
    reach = difference.reach(0.95)
    inside = (difference.mean - reach >= -margin) & (difference.mean + reach <= margin)
    assert list(difference.p_equivalent(margin) <= 0.05) == list(inside)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 4), (3, 6)])
def test_permutation_p_is_the_share_of_splits_with_as_large_a_statistic(n: int, m: int) -> None:
    variant, baseline = CHANCE.normal(1, 2, n), CHANCE.normal(0, 1, m)
    pooled = np.concatenate([variant, baseline])
    observed = abs(stats.ttest_ind(variant, baseline, equal_var=False).statistic)
    splits = [np.isin(np.arange(n + m), chosen) for chosen in combinations(range(n + m), n)]
    statistics = [abs(stats.ttest_ind(pooled[split], pooled[~split], equal_var=False).statistic) for split in splits]
    expected = np.mean(np.array(statistics) >= observed * (1 - 1e-9))
    assert permutation_p(variant[None], baseline[None]) == pytest.approx([expected])


@pytest.mark.parametrize("n", [4, 5, 8])
def test_the_smallest_permutation_p_also_of_arms_without_spread(n: int) -> None:
    apart = np.arange(n) / n
    for variant in (apart + 100, np.full(n, 3.0)):
        (p,) = permutation_p(variant[None], np.zeros((1, n)))
        assert p == pytest.approx(2 / math.comb(2 * n, n))
    assert permutation_p(np.ones((1, n)), np.ones((1, n))) == [1.0]
    assert unpaired(np.ones((1, n)), np.ones((1, n))).p == [1.0]
    assert unpaired(np.ones((1, n)), np.zeros((1, n))).p == [0.0]


def test_many_runs_are_split_at_random_and_never_have_p_0(monkeypatch: pytest.MonkeyPatch) -> None:
    variant, baseline = CHANCE.normal(0.8, 1, (3, 8)), CHANCE.normal(0, 1, (3, 8))
    exact = permutation_p(variant, baseline)
    monkeypatch.setattr(differences, "EXACT_SPLITS", 10)
    differences._splits.cache_clear()
    drawn = permutation_p(variant, baseline)
    assert drawn == pytest.approx(exact, abs=0.006) and list(drawn) != list(exact)
    assert permutation_p(np.arange(12.0)[None] + 1e6, np.arange(12.0)[None]) >= 1 / (1 + differences.DRAWN_SPLITS)
    differences._splits.cache_clear()


def test_the_rule_is_the_larger_p_and_welchs_counts_more_where_spreads_differ() -> None:
    alike = np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    for factor, times in ((1.0, 1.0), (1.25, 1.0), (2.5, 4.0), (0.4, 4.0), (0.2, 10.0), (0.0, 10.0)):
        variant = 5.2 + factor * alike
        p, beside = rule(variant, alike)
        assert beside == permutation_p(variant, alike)
        assert p == pytest.approx(min(1, max(times * unpaired(variant, alike).p[0], beside[0])))


def test_neither_the_order_of_runs_nor_which_arm_is_the_baseline_matters() -> None:
    variant, baseline = CHANCE.normal(1, 1, (5, 6)), CHANCE.normal(0, 2, (5, 6))
    p = rule(variant, baseline)[0]
    assert rule(baseline, variant)[0] == pytest.approx(p)
    assert rule(variant[:, ::-1], baseline[:, [3, 1, 2, 0, 5, 4]])[0] == pytest.approx(p)
    assert rule(7 * variant - 3, 7 * baseline - 3)[0] == pytest.approx(p)
