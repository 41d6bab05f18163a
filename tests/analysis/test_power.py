"""Holm's correction, the fewest seeds for a verdict, and power: against tables, exact cases and scipy."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vitbench.analysis import power as planning
from vitbench.analysis.multiplicity import holm, reachable, seeds_for, smallest_p
from vitbench.analysis.power import power, seeds_needed, smallest_effect

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6, 0.001]) == pytest.approx([1.0, 1.0, 0.003])
    assert holm([]) == []


@given(probabilities)
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    for (a, b), (c, d) in itertools.combinations(zip(p, adjusted, strict=True), 2):
        assert (a - c) * (b - d) >= 0
    m = len(p)
    assert all(a <= b <= min(1, m * a) for a, b in zip(p, adjusted, strict=True))
    assert min(adjusted) == min(1, m * min(p))


@given(probabilities, st.floats(0.001, 0.5))
def test_holm_rejects_what_its_steps_reject(p: list[float], alpha: float) -> None:
    """The procedure as Holm gives it: from the smallest p, until one is larger than α over those that are left."""
    rejected = set()
    for left, i in zip(itertools.count(len(p), -1), np.argsort(p, kind="stable"), strict=False):
        if left * p[i] > alpha:
            break
        rejected.add(int(i))
    assert {i for i, q in enumerate(holm(p)) if q <= alpha} == rejected


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_holm_refuses_what_is_no_probability(bad: float) -> None:
    with pytest.raises(ValueError, match="no p-values"):
        holm([0.5, bad])


def test_rule_8_the_seeds_that_a_verdict_takes() -> None:
    assert {m: seeds_for(m) for m in (1, 3, 5, 10, 20, 50)} == {1: 6, 3: 7, 5: 8, 10: 9, 20: 10, 50: 11}
    assert seeds_for(1, alpha=0.01) == 8


@given(st.integers(0, 40), st.integers(1, 200))
def test_a_verdict_is_reachable_from_the_fewest_seeds_on(n: int, comparisons: int) -> None:
    assert reachable(n, comparisons) == (n >= seeds_for(comparisons))
    assert smallest_p(n) == (min(1, 2 / 2**n) if n else 1)


@pytest.mark.parametrize(("n", "comparisons"), [(6, 1), (7, 3), (8, 5), (9, 10), (11, 50)])
@pytest.mark.parametrize("effect", [0.0, 0.5, 1.5])
def test_power_is_exact_where_all_deltas_must_have_one_sign(n: int, comparisons: int, effect: float) -> None:
    expected = stats.norm.cdf(effect) ** n + stats.norm.cdf(-effect) ** n
    assert power(effect, n, comparisons) == pytest.approx(expected)
    assert power(-effect, n, comparisons) == pytest.approx(expected)


@pytest.mark.parametrize("arrangements", [1, 2, 3])
def test_without_an_effect_every_arrangement_is_as_likely(arrangements: int) -> None:
    assert planning._exact_power(0.0, 8, arrangements) == pytest.approx(arrangements / 2**8, rel=1e-4)


@pytest.mark.parametrize("n", [6, 10, 30, 200])
@pytest.mark.parametrize("level", [0.025, 0.001])
def test_the_t_test_is_that_of_scipy(n: int, level: float) -> None:
    critical = stats.t.isf(level, n - 1)
    assert planning._t_quantile(n, level) == pytest.approx(critical, abs=1e-6)
    for effect in (0.0, 0.3, 1.0):
        expected = stats.nct.sf(critical, n - 1, effect * math.sqrt(n)) if effect else level
        assert planning._t_power(effect, n, level) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("comparisons", [1, 3, 10])
def test_power_grows_with_the_effect_and_with_seeds_and_falls_with_comparisons(comparisons: int) -> None:
    for n in (6, 7, 9, 12, 20, 60, 61, 300):
        found = [power(effect, n, comparisons) for effect in (0.0, 0.2, 0.5, 1.0, 2.0, 8.0)]
        assert found == sorted(found)
        assert found[0] <= 0.05 / comparisons + 1e-9
        assert power(0.5, n, comparisons + 1) <= power(0.5, n, comparisons)
        assert power(0.5, n, comparisons) <= power(0.5, n + 1, comparisons)
        assert found[-1] == (pytest.approx(1) if reachable(n, comparisons) else 0)


def test_the_level_of_very_many_seeds_joins_that_of_many() -> None:
    n = planning.ENUMERABLE
    assert power(0.3, n) == pytest.approx(power(0.3, n + 1), abs=0.01)


def test_the_smallest_effect_is_shown_with_the_power_that_was_wanted() -> None:
    for n, comparisons in ((6, 1), (8, 3), (10, 20), (40, 5), (400, 5)):
        assert power(smallest_effect(n, comparisons), n, comparisons) == pytest.approx(0.8)
        assert power(smallest_effect(n, comparisons, 0.5), n, comparisons) == pytest.approx(0.5)
    assert smallest_effect(5, 1) == math.inf
    assert smallest_effect(9, 20) == math.inf


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


def test_planning_loads_none_of_the_heavy_packages() -> None:
    code = "import sys, vitbench.analysis.power as p; p.smallest_effect(10, 3); print(sorted(" \
        "{'numpy', 'scipy', 'pandas', 'torch', 'triton'} & set(sys.modules)))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
