"""Verdicts of rule 9, one table a family: each word where the rules ask for it, and nowhere else."""

import math
import statistics
from dataclasses import replace

import pytest
from scipy import stats

from vitbench.analysis.paired import Interval
from vitbench.analysis.power import power, seeds_for_equality, seeds_needed
from vitbench.analysis.verdicts import Comparison, Judged, judge

CLEAR = (1.0, 1.2, 0.9, 1.1, 1.3, 0.8, 1.0, 1.15, 0.95, 1.05, 1.2, 0.85, 0.9, 1.1)
"""All of one sign: the smallest p that their number allows."""

MIXED = (0.8, -0.7, 0.5, -0.6, 0.9, -0.8, 0.4, -0.5, 0.7, -0.6, 0.3, -0.2, 0.8, -0.9)


def row(deltas: tuple[float, ...], failed: int = 0, planned: int | None = None) -> Comparison:
    return Comparison("variant", deltas, len(deltas) + failed if planned is None else planned, failed)


def interval_of(deltas: tuple[float, ...]) -> Interval:
    """Interval of a mean at 95 %, by Student's t."""
    return Interval(*stats.ttest_1samp(deltas, 0).confidence_interval(0.95))


def judged(comparison: Comparison, *others: Comparison, margin: float | None = None, **changes: object) -> Judged:
    return judge([comparison, *others], margin=margin, noise_floor=None, **changes)[0]


def test_better_and_worse_by_the_sign_of_the_mean() -> None:
    mirrored = tuple(-d for d in CLEAR)
    assert judged(row(CLEAR)).verdict == "better"
    assert judged(row(mirrored)).verdict == "worse"
    assert judged(row(CLEAR), higher_is_better=False).verdict == "worse"
    assert judged(row(mirrored), higher_is_better=False).verdict == "better"
    assert judged(row(MIXED)).verdict == "undecided"


def test_underpowered_where_the_planned_seeds_would_miss_the_margin_more_often_than_not() -> None:
    """The spread that was seen decides; and what is equivalent, or better all the same, is not underpowered."""
    sd = statistics.stdev(MIXED)
    for margin in (0.1, 0.3, 0.5, 0.6):
        low = power(margin / sd, len(MIXED), 1, paired=True) < 0.5
        assert judged(row(MIXED), margin=margin).verdict == (
            "equivalent" if interval_of(MIXED).within(margin) else "underpowered" if low else "undecided"
        )
    assert judged(row(MIXED), margin=0.1).verdict == "underpowered"
    assert judged(row(CLEAR), margin=0.001).verdict == "better"
    assert judged(row(MIXED, planned=1000), margin=0.1).verdict == "undecided", "the planned seeds count"


def test_equivalent_where_the_whole_interval_lies_within_the_margin() -> None:
    reach = max(abs(interval_of(CLEAR).low), abs(interval_of(CLEAR).high))
    assert judged(row(CLEAR), margin=reach * 1.001).verdict == "equivalent"
    assert judged(row(CLEAR), margin=reach * 0.999).verdict == "better"
    assert judged(row(MIXED), margin=5.0).verdict == "equivalent"
    assert judged(row(MIXED)).verdict == "undecided"
    rows = judge([row(CLEAR)] * 5, margin=reach * 1.001, noise_floor=None)
    assert {j.verdict for j in rows} == {"better"}, "corrected as differences are"


def test_equivalent_implementations_are_equivalent_within_any_margin_and_never_a_difference() -> None:
    assert judged(row((0.0,) * 8), margin=0.001).verdict == "equivalent"
    assert judged(row((0.0,) * 8)).verdict == "undecided"
    assert judged(row((0.0,) * 8)).p == 1


def test_invalid_with_more_than_one_failed_seed() -> None:
    survivors = judged(row(CLEAR[:9], failed=1))
    assert survivors.verdict == "better"
    assert survivors.survivors and survivors.n == 9
    lost = judged(row(CLEAR[:9], failed=2), margin=5.0)
    assert lost.verdict == "invalid"
    assert math.isnan(lost.p) and math.isnan(lost.p_holm)
    assert lost.mean == pytest.approx(sum(CLEAR[:9]) / 9)
    assert not judged(row(CLEAR)).survivors


def test_a_row_that_failed_still_counts_in_the_family() -> None:
    """The family is fixed before looking: failed rows make no other row significant."""
    six = row(CLEAR[:6])
    assert judged(six).verdict == "better"
    for other in (row((), failed=6), row((), planned=6), row(MIXED[:6])):
        first = judged(six, other)
        assert first.p_holm == 2 * first.p and first.family == 2


def test_a_claim_weighs_most_and_an_expected_equality_least() -> None:
    """The difference of a claimed equality, or of equivalent implementations; of such a claim the equality is shown."""
    six, other = row(CLEAR[:6]), row(MIXED[:6])
    p, of_other = judged(six).p, judged(other).p
    assert p < of_other / 8
    cases = (("lower", False, 2), ("equal", False, 0.25), (None, True, 0.25), (None, False, 1))
    for expected, equivalent, weight in cases:
        first = judged(replace(six, expected=expected, equivalent=equivalent), other)
        if p / weight < of_other:
            assert first.p_holm == pytest.approx(p * (weight + 1) / weight)
        assert first.burden == (weight + 1) / weight and first.family == 2
    mixed, wide = row(MIXED), max(abs(end) for end in (interval_of(MIXED).low, interval_of(MIXED).high))
    assert judged(mixed, margin=wide * 1.05).verdict == "equivalent"
    for expected, word in ((None, "undecided"), ("equal", "equivalent")):
        assert judged(replace(mixed, expected=expected), *[mixed] * 4, margin=wide * 1.35).verdict == word


@pytest.mark.parametrize(("expected", "weights"), [("equal", 2 + 10), ("higher", (0.25 + 10) / 0.25)])
def test_seeds_to_show_equality_are_by_the_weight_of_equality(expected: str, weights: float) -> None:
    variant, baseline = (52.0, 53.0, 51.5, 54.0, 52.5, 53.5), (53.0, 52.0, 54.0, 51.5, 53.5, 52.5)
    comparison = Comparison("variant", (-1.0, 1.0, -2.5, 2.5, -1.0, 1.0), 6, variant=variant, baseline=baseline)
    others = [replace(comparison, key=bytes([number])) for number in range(10)]
    judgement, *_ = judge([replace(comparison, expected=expected), *others], margin=2.0, noise_floor=None)
    sd = math.hypot(statistics.stdev(variant), statistics.stdev(baseline))
    burden = weights / 2 if expected == "equal" else weights
    assert judgement.seeds_needed == seeds_for_equality(0.0, 2.0, sd, burden)
    assert judgement.seeds_needed != seeds_for_equality(0.0, 2.0, sd, judgement.burden)


def test_what_a_judgement_tells() -> None:
    variant, baseline = (52.0, 53.0, 51.5, 54.0, 52.5, 53.5), (51.0, 52.5, 51.0, 52.0, 52.0, 52.0)
    deltas = tuple(v - b for v, b in zip(variant, baseline, strict=True))
    comparison = Comparison("variant", deltas, 6, variant=variant, baseline=baseline)
    (judgement,) = judge([comparison], margin=None, noise_floor=0.2)
    assert judgement.n == 6
    assert judgement.mean == pytest.approx(sum(deltas) / 6)
    assert (judgement.interval.low, judgement.interval.high) == pytest.approx(
        stats.ttest_ind(variant, baseline, equal_var=False).confidence_interval(0.95)
    )
    assert judgement.p == judgement.p_holm >= judgement.p_permutation
    assert judgement.family == 1 and not judgement.paired
    wins = sum((v > b) + (v == b) / 2 for v in variant for b in baseline) / 36
    assert judgement.improvement == pytest.approx(wins)
    sd = math.hypot(statistics.stdev(variant), statistics.stdev(baseline))
    assert judgement.seeds_needed == seeds_needed(judgement.mean, sd)
    for margin, size in ((1.0, judgement.mean), (50.0, 50.0 - judgement.mean)):  # from 0, or from the margin
        assert judged(comparison, margin=margin).seeds_needed == seeds_needed(size, sd)
    assert not judgement.below_noise_floor
    several = judged(replace(comparison, blocks=2))
    assert math.isnan(several.improvement) and several.mean == judgement.mean, "means over blocks are no runs"
    single = Comparison("variant", deltas[:1], 6, variant=variant[:1], baseline=baseline[:1])
    assert math.isnan(judged(single).improvement), "one run against another is no probability"
    assert judged(comparison, *[row(MIXED)] * 49).verdict == "underpowered", "at a fiftieth of the level"
    assert judged(comparison, higher_is_better=False).improvement == pytest.approx(1 - wins)


def test_a_difference_can_be_certain_and_equivalent_and_an_interval_can_exclude_what_the_test_does_not() -> None:
    small = tuple(0.5 + d for d in (-0.2, -0.1, 0.0, 0.1, 0.2, 0.05))
    equal = judged(row(small), margin=1.0)
    assert equal.verdict == "equivalent" and equal.certain
    assert equal.words == "better, by less than the margin"
    mirrored = judged(row(tuple(-d for d in small)), margin=1.0)
    fewer = judged(mirrored.comparison, margin=1.0, higher_is_better=False)
    assert (mirrored.words, fewer.words) == ("worse, by less than the margin", "better, by less than the margin")
    assert judged(row(MIXED), margin=5.0).words == "equivalent" and judged(row(CLEAR)).words == "better"
    few = judged(row(tuple(2 + d for d in small[:3])))
    assert few.verdict == "underpowered" and few.interval.low > 0 and not few.certain
    assert not judged(row(small[:4], failed=2)).certain


def test_of_nothing_nothing_is_said() -> None:
    assert judge([], margin=None, noise_floor=None) == []
    (empty,) = judge([row((), planned=5)], margin=1.0, noise_floor=1.0)
    assert (empty.n, empty.verdict, empty.seeds_needed, empty.below_noise_floor) == (0, "underpowered", None, False)
    assert all(map(math.isnan, (empty.mean, empty.p, empty.p_holm, empty.improvement, empty.interval.low)))


def test_what_makes_no_sense_is_refused() -> None:
    for margin in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="margin"):
            judged(row(CLEAR), margin=margin)
    with pytest.raises(ValueError, match="not finite"):
        judged(row((1.0, math.nan)))
