"""Rule 12: the statistics tested by simulation. Fixed seeds; every figure is of the functions that make the verdicts.

A study is a baseline and m variants that share it, independent of one another. ``docs/statistics-notes.md`` shows the
same figures beside those of the candidates that were not taken.
"""

import math

import numpy as np
import pytest

from tools.simulate_rules import (
    REPORTS,
    Floats,
    Noise,
    arms,
    by_rule,
    by_sign_flip,
    exponential,
    lognormal,
    normal,
    rejected,
    shipped,
    silent,
    simulated,
)
from vitbench.analysis.differences import paired, unpaired
from vitbench.analysis.multiplicity import holm
from vitbench.analysis.paired import interval, sign_flip_ps
from vitbench.analysis.power import power
from vitbench.analysis.verdicts import Comparison, judge

DECIDED = {"better", "worse"}


def heavy(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return chance.standard_t(3, size=shape) / math.sqrt(3)


def uneven(chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Spreads of arms that differ up to 6 : 1."""
    spread = np.exp(chance.uniform(-0.5, 0.5, (*shape[:-1], 1)) * math.log(6))
    return spread * normal(chance, shape)


def any_of(p: Floats) -> float:
    return float(rejected(p).any(axis=1).mean())


STUDIES = 4000
SIZES = [(1, 4), (1, 5), (5, 6), (10, 6), pytest.param(20, 7, marks=pytest.mark.slow)]
TODAY = {1: 6, 5: 8, 10: 9, 20: 10}
"""Comparisons → seeds with which the sign-flip test had the power that the rule has with the seeds above."""


@pytest.mark.parametrize("noise", [normal, heavy, exponential, uneven])
@pytest.mark.parametrize(("comparisons", "n"), SIZES)
def test_false_positives_in_a_report_are_at_most_5_percent(noise: Noise, comparisons: int, n: int) -> None:
    """Reports in which nothing differs, and something is called better or worse; found are .01 to .04."""
    assert any_of(by_rule(*arms(STUDIES, comparisons, n, noise, noise))) <= 0.055


@pytest.mark.parametrize(
    ("variant", "baseline", "times"),
    [(exponential, normal, 2.0), (lognormal, normal, 2.0), (exponential, normal, 20.0), (exponential, silent, 1.0)],
)
@pytest.mark.parametrize(("comparisons", "n"), SIZES[1:])
def test_skewed_variants_are_called_different_no_more_often_than_by_the_sign_flip_test(
    variant: Noise, baseline: Noise, times: float, comparisons: int, n: int
) -> None:
    """Each test has the seeds that it takes; the error is that of the difference of two simulated rates."""
    rate = any_of(by_rule(*arms(STUDIES, comparisons, n, variant, baseline, times=times)))
    before = any_of(by_sign_flip(*arms(STUDIES, comparisons, TODAY[comparisons], variant, baseline, times=times)))
    assert rate <= before + 2 * math.sqrt(2 * before * (1 - before) / STUDIES)


@pytest.mark.parametrize(("comparisons", "n"), [(1, 5), (5, 6), (10, 6), (20, 7)])
def test_fewer_runs_have_the_power_that_the_sign_flip_test_had(comparisons: int, n: int) -> None:
    """Power .8 at 2 standard deviations; a quarter fewer runs, for one comparison a sixth."""
    assert rejected(by_rule(*arms(2000, comparisons, n, normal, normal, effect=2.0))).mean() >= 0.8
    before = TODAY[comparisons]
    assert n <= (0.75 if comparisons > 1 else 5 / 6) * before
    assert rejected(by_sign_flip(*arms(2000, comparisons, before - 1, normal, normal, effect=2.0))).mean() < 0.8


@pytest.mark.parametrize("n", [4, 5, 6, 7, 8, pytest.param(10, marks=pytest.mark.slow)])
def test_power_is_within_8_points_of_what_is_computed(n: int) -> None:
    """Holm's first step over 1 to 50 comparisons; 6 points, and the simulation's own error."""
    for effect in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0):
        p = by_rule(*arms(2000, 1, n, normal, normal, effect=effect))
        for comparisons in (1, 3, 5, 10, 20, 50):
            assert power(effect, n, comparisons) == pytest.approx(float(np.mean(comparisons * p <= 0.05)), abs=0.08)


@pytest.mark.parametrize("noise", [normal, heavy, exponential, uneven])
@pytest.mark.parametrize("n", [4, 6, 10])
def test_the_interval_of_two_arms_covers_the_truth(noise: Noise, n: int) -> None:
    variants, baselines = arms(STUDIES, 1, n, noise, noise, effect=1.0)
    difference = unpaired(variants, baselines)
    covered = np.abs(difference.mean - math.sqrt(2)) <= difference.reach(0.95)
    assert 0.94 <= covered.mean() <= 0.99


def test_paired_differences_of_a_shared_start_have_their_level_power_and_coverage() -> None:
    chance = np.random.default_rng(1)
    luck = 5 * normal(chance, (STUDIES, 6))
    deltas = (luck + normal(chance, luck.shape)) - (luck + normal(chance, luck.shape))
    assert np.mean(paired(deltas).p <= 0.05) == pytest.approx(0.05, abs=0.01)
    shifted = paired(deltas + 1.5 * math.sqrt(2))
    assert np.mean(shifted.p <= 0.05) == pytest.approx(power(1.5, 6, paired=True), abs=0.03)
    covered = np.abs(shifted.mean - 1.5 * math.sqrt(2)) <= shifted.reach(0.95)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("studies", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_verdicts_are_those_of_the_rule(studies: int) -> None:
    """Five comparisons, judged through ``judge`` and nothing else."""
    variants, baselines = arms(studies, 5, 6, normal, normal)
    p = by_rule(variants, baselines)
    decided = np.array([[each in DECIDED for each in verdicts(v, b)] for v, b in zip(variants, baselines, strict=True)])
    assert (decided == rejected(p)).all()
    assert list(rejected(p[:1])[0]) == [each <= 0.05 for each in holm(list(p[0]))]
    assert decided.any(axis=1).mean() <= 0.055


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if "planted" in name else name for name in REPORTS]
)
@pytest.mark.parametrize(
    ("effect", "claims"), [(0.0, 0.0), (2.0, 0.85), pytest.param(3.0, 0.98, marks=pytest.mark.slow)]
)
def test_a_whole_report_keeps_5_percent_and_its_claims_have_the_power_of_few_comparisons(
    name: str, effect: float, claims: float
) -> None:
    """Claims, effects and interactions together; no kind of them finds less than by Holm without weights."""
    report = REPORTS[name](effect)
    p, true = simulated(report, 2000)
    decided = np.array([shipped(each, report[1]) for each in p.tolist()])
    assert decided[:, ~true].any(axis=1).mean() <= 0.055
    alike = rejected(p)
    for family in range(3) if effect else ():
        # A claim of equality that is wrong weighs less: what that costs is in docs/statistics-notes.md.
        members = true & np.array([row.family == family and row.expected != "equal" for row in report[1]])
        if members.any():
            power = decided[:, members].mean()
            assert power >= alike[:, members].mean() - 0.005
            assert family or power >= max(claims, alike[:, members].mean())


def test_the_verdicts_of_a_report_are_those_of_the_weighed_correction() -> None:
    report = REPORTS["2 × 3 grid"](2.0)
    means, rows, n = report
    p, _ = simulated(report, 100)
    chance = np.random.default_rng([100, len(rows), n])
    runs = normal(chance, (100, len(means), n)) + math.sqrt(2) * means[:, None]
    for study, each in zip(runs, p.tolist(), strict=True):
        pairs = [(study[list(row.variant)].mean(axis=0), study[list(row.baseline)].mean(axis=0)) for row in rows]
        comparisons = [
            Comparison(
                str(i), tuple((v - b).tolist()), n, variant=tuple(v), baseline=tuple(b), expected=rows[i].expected
            )
            for i, (v, b) in enumerate(pairs)
        ]
        judged = judge(comparisons, margin=None, noise_floor=None)
        assert [j.verdict in DECIDED for j in judged] == shipped(each, rows)


@pytest.mark.slow
def test_a_difference_of_the_margin_is_called_equivalent_in_at_most_5_percent_of_reports() -> None:
    """Reports have five rows; and what is equal is found to be."""
    variants, baselines = arms(2000, 5, 8, normal, normal)
    reports = [verdicts(v + 1.2, b, margin=1.2) for v, b in zip(variants, baselines, strict=True)]
    assert np.mean(["equivalent" in words for words in reports]) <= 0.055
    close = [verdicts(0.2 * v, 0.2 * b, margin=1.2) for v, b in zip(variants[:50], baselines[:50], strict=True)]
    assert all(set(words) == {"equivalent"} for words in close)


def verdicts(variants: Floats, baselines: Floats, margin: float | None = None) -> list[str]:
    rows = [
        Comparison(str(i), tuple((v - b).tolist()), len(v), variant=tuple(v.tolist()), baseline=tuple(b.tolist()))
        for i, (v, b) in enumerate(zip(variants, baselines, strict=True))
    ]
    return [j.verdict for j in judge(rows, margin=margin, noise_floor=None)]


@pytest.mark.parametrize(("n", "count"), [(5, 2000), (8, 1200), (10, 1000)])
@pytest.mark.parametrize("noise", [normal, exponential, pytest.param(lognormal, marks=pytest.mark.slow)])
def test_the_interval_of_one_mean_covers_the_truth_in_at_least_93_percent(noise: Noise, n: int, count: int) -> None:
    """Intervals of differences; a cell's accuracy less anything fixed is a difference, too."""
    chance = np.random.default_rng([n, count])
    deltas = noise(chance, (count, n)) - noise(chance, (count, n))
    assert 0.93 <= np.mean([interval(d).holds(0.0) for d in deltas]) <= 0.99


def test_the_sign_flip_test_is_exact() -> None:
    deltas = exponential(np.random.default_rng(7), (2000, 7)) - exponential(np.random.default_rng(8), (2000, 7))
    p = by_sign_flip(deltas, np.zeros_like(deltas))
    assert sign_flip_ps(deltas[:50]) == pytest.approx(list(p[:50]))
    assert np.mean(p <= 0.05) == pytest.approx(6 / 2**7, abs=0.012)
