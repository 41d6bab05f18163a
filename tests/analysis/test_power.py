"""Holm's correction, the fewest seeds for a verdict, and power: against tables, exact cases and scipy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vitbench.analysis import power as planning
from vitbench.analysis.differences import paired, unpaired
from vitbench.analysis.multiplicity import holm, reachable, seeds_for, smallest_p
from vitbench.analysis.power import (
    equality_power,
    power,
    seeds_for_equality,
    seeds_needed,
    smallest_effect,
    smallest_margin,
)

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(probabilities, st.floats(0.001, 0.5))
def test_holm_rejects_what_its_steps_reject(p: list[float], alpha: float) -> None:
    """The procedure as Holm gives it: from the smallest p, until one is larger than α over those that are left."""
    rejected = set()
    for left, i in zip(itertools.count(len(p), -1), np.argsort(p, kind="stable"), strict=False):
        if left * p[i] > alpha:
            break
        rejected.add(int(i))
    assert {i for i, q in enumerate(holm(p)) if q <= alpha} == rejected
    assert max(holm(p)) <= 1


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_holm_refuses_what_is_no_probability(bad: float) -> None:
    with pytest.raises(ValueError, match="no p-values"):
        holm([0.5, bad])


def test_rule_8_the_seeds_that_a_verdict_takes() -> None:
    assert {m: seeds_for(m) for m in (1, 2, 5, 10, 20, 50, 100)} == {1: 4, 2: 5, 5: 5, 10: 6, 20: 6, 50: 7, 100: 8}
    assert [reachable(n, 1, alpha=0.005) for n in (5, 6)] == [False, True]
    assert [reachable(n, m, paired=True) for m in (1, 100) for n in (3, 4)] == [False, True] * 2
    assert [reachable(n, 10, paired=True, permutation=True) for n in (8, 9)] == [False, True]


@given(st.integers(0, 40), st.integers(1, 200))
def test_a_verdict_is_reachable_from_the_fewest_seeds_on(n: int, comparisons: int) -> None:
    assert reachable(n, comparisons) == (n >= seeds_for(comparisons))
    assert smallest_p(n) == (pytest.approx(2 / math.comb(2 * n, n)) if n >= 4 else 1)


@pytest.mark.parametrize("freedom", [5.0, 9.0, 11.7, 199.0])
@pytest.mark.parametrize("level", [0.025, 0.001])
def test_the_t_test_is_that_of_scipy(freedom: float, level: float) -> None:
    critical = stats.t.isf(level, freedom)
    assert planning._t_quantile(freedom, level) == pytest.approx(critical, abs=1e-5)
    for away in (0.0, 0.9, 3.0):
        expected = stats.nct.sf(critical, freedom, away) if away else level
        assert planning._beyond(critical, away, freedom) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("freedom", [2.0, 3.0])
def test_the_t_test_of_three_and_four_runs_is_that_of_scipy(freedom: float) -> None:
    critical = stats.t.isf(0.025, freedom)
    assert planning._t_quantile(freedom, 0.025) == pytest.approx(critical, rel=1e-4)
    for away in (2.0, critical, 2 * critical):
        expected = stats.nct.sf(critical, freedom, away)
        assert planning._beyond(critical, away, freedom) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("n", "effect"), [(4, 1.0), (6, 1.5), (9, 0.5)])
def test_the_power_of_paired_differences_is_that_of_the_t_test(n: int, effect: float) -> None:
    critical, away = stats.t.isf(0.025 / 3, n - 1), effect * math.sqrt(n)
    expected = stats.nct.sf(critical, n - 1, away) + stats.nct.sf(critical, n - 1, -away)
    assert power(effect, n, 3, paired=True) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("comparisons", [1, 3, 10])
def test_power_grows_with_the_effect_and_with_seeds_and_falls_with_comparisons(comparisons: int) -> None:
    for n in (4, 6, 7, 9, 12, 20, 60, 300):
        powers = [power(effect, n, comparisons) for effect in (0.0, 0.2, 0.5, 1.0, 2.0, 8.0)]
        assert powers == sorted(powers)
        assert powers[0] <= 0.05 / comparisons + 1e-9
        assert power(0.5, n, comparisons + 1) <= power(0.5, n, comparisons)
        assert power(0.5, n, comparisons) <= power(0.5, n + 1, comparisons)
        assert powers[-1] == (pytest.approx(1, abs=0.01) if reachable(n, comparisons) else 0)


def test_the_smallest_effect_is_shown_with_the_power_that_was_wanted() -> None:
    for n, comparisons in ((5, 1), (8, 3), (10, 20), (40, 5), (400, 5)):
        assert power(smallest_effect(n, comparisons), n, comparisons) == pytest.approx(0.8)
        assert power(smallest_effect(n, comparisons, 0.5), n, comparisons) == pytest.approx(0.5)
    assert smallest_effect(3, 1) == math.inf
    assert smallest_effect(5, 7) == math.inf
    assert smallest_effect(4, 1e6, paired=True) == planning.LARGEST_EFFECT, "it can be shown, but hardly ever"
    assert smallest_effect(5, 1, 0.01) == 0, "found as often without any effect"


@pytest.mark.parametrize("pairs", [False, True])
def test_the_smallest_margin_shows_equal_arms_to_be_equal_with_the_power_that_is_planned(pairs: bool) -> None:
    for n, comparisons in ((4, 1), (5, 20), (40, 5)):
        margin = smallest_margin(n, comparisons, paired=pairs)
        assert equality_power(0.0, margin, n, comparisons, paired=pairs) == pytest.approx(0.8)
    assert smallest_margin(2, paired=pairs) == math.inf


def test_seeds_needed_are_the_fewest_that_show_the_effect() -> None:
    for effect, sd, comparisons in ((1.0, 1.0, 1), (0.5, 0.4, 10), (-0.3, 1.0, 3)):
        n = seeds_needed(effect, sd, comparisons)
        assert n is not None
        assert power(effect / sd, n, comparisons) >= 0.8 > power(effect / sd, n - 1, comparisons)
    assert seeds_needed(0.2, 0.0) == seeds_for(1)
    assert seeds_needed(0.2, 0.0, 20) == seeds_for(20)
    assert seeds_needed(0.0, 0.0) is None
    assert seeds_needed(0.0, 1.0) is None
    assert seeds_needed(0.001, 1.0) is None


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(("effect", "margin", "comparisons"), [(0.0, 1.0, 1), (0.0, 1.5, 6), (0.5, 1.5, 1)])
def test_seeds_for_equality_are_the_fewest_that_show_it(
    effect: float, margin: float, comparisons: float, pairs: bool
) -> None:
    """By the verdict's own p of simulated arms: a margin of which only one side was counted took a third less."""
    chance, n = np.random.default_rng(0), seeds_for_equality(effect, margin, 1.0, comparisons, paired=pairs)
    assert n is not None
    for seeds, enough in ((n, True), (n - 1, False)):
        arms = chance.normal(0, math.sqrt(0.5), (2, 20_000, seeds))
        difference = paired(arms[0] - arms[1] + effect) if pairs else unpaired(arms[0] + effect, arms[1])
        share = (difference.p_equivalent(margin) <= 0.05 / comparisons).mean()
        known = equality_power(effect, margin, seeds, comparisons, paired=pairs)
        assert share == pytest.approx(known, abs=0.03) and (known >= 0.8) == enough


def test_an_equality_takes_four_seeds_at_the_least_and_is_within_the_margin() -> None:
    assert seeds_for_equality(0.0, 1.0, 0.0) == seeds_for_equality(0.0, 1.0, 0.01) == 4
    assert seeds_for_equality(1.0, 1.0, 0.1) is seeds_for_equality(-2.0, 1.0, 0.1) is None
    assert seeds_for_equality(0.0, 0.01, 1.0) is None


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6, 0.001]) == pytest.approx([1.0, 1.0, 0.003])
    assert holm([]) == []
