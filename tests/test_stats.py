"""The statistics for scores from anywhere, against scipy."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from vitbench.stats import compare

SCORES = {
    "plain": [71.237, 70.112, 72.419, 70.931, 71.823, 71.058],
    "gated": [73.914, 74.822, 74.137, 73.246, 74.631, 73.549],
    "deeper": [71.318, 70.426, 72.143, 71.259, 71.571, 71.184],
}
"""Without ties: scipy tells numbers apart that differ by rounding alone."""


def test_the_figures_are_scipys_where_it_has_them() -> None:
    frame = compare(SCORES, margin=2.0).set_index("variant")
    assert list(frame.index) == ["gated", "deeper"] and set(frame.baseline) == {"plain"} and set(frame.runs) == {6}
    for name, row in frame.iterrows():
        welch = scipy_stats.ttest_ind(SCORES[str(name)], SCORES["plain"], equal_var=False)
        interval = welch.confidence_interval(0.95)
        assert (row.low, row.high) == pytest.approx((interval.low, interval.high), abs=1e-12)
        assert row.difference == pytest.approx(np.mean(SCORES[str(name)]) - np.mean(SCORES["plain"]))
        exact = scipy_stats.permutation_test(
            (SCORES[str(name)], SCORES["plain"]),
            lambda a, b, axis: abs(scipy_stats.ttest_ind(a, b, equal_var=False, axis=axis).statistic),
            vectorized=True, alternative="greater", n_resamples=np.inf,
        )  # fmt: skip
        assert row.p_permutation == pytest.approx(exact.pvalue, abs=1e-12)
        assert row.p >= max(welch.pvalue, exact.pvalue) - 1e-12
        greater = [float(a > b) + 0.5 * float(a == b) for a, b in itertools.product(SCORES[str(name)], SCORES["plain"])]
        assert row.improvement == pytest.approx(np.mean(greater))
    smaller, larger = sorted(frame.p)
    assert sorted(frame.p_holm) == pytest.approx([min(1.0, 2 * smaller), max(larger, min(1.0, 2 * smaller))])
    assert list(frame.verdict) == ["better", "equivalent"]


def test_pairs_losses_and_another_baseline() -> None:
    paired = compare({k: SCORES[k] for k in ("plain", "gated")}, paired=True).iloc[0]
    assert paired.p == pytest.approx(scipy_stats.ttest_rel(SCORES["gated"], SCORES["plain"]).pvalue)
    assert compare(SCORES, baseline="gated", higher_is_better=False).verdict.tolist() == ["better", "better"]


def test_too_few_runs_are_no_verdict() -> None:
    row = compare({"a": [1.0, 1.1, 1.2], "b": [5.0, 5.1, 5.2]}).iloc[0]
    assert row.verdict == "underpowered" and math.isnan(row.p)


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ({"a": [1.0] * 4}, {}, "baseline 'a': scores are of 'a'"),
        ({}, {}, "scores are of nothing"),
        (SCORES, {"baseline": "plian"}, "baseline 'plian': scores are of 'plain', 'gated', 'deeper'"),
        ({"a": [1.0] * 4, "b": [1.0] * 5}, {}, "a has 4 scores, but b has 5"),
        ({"a": [1.0] * 4, "b": [math.nan] * 4}, {}, "b: a score is not finite: nan"),
        (SCORES, {"margin": 0.0}, "margin: 0.0 is not positive"),
        ([[1.0] * 4, [2.0] * 4], {}, "a mapping of names to scores, not a list"),
        # By seed, they would be compared by their seeds.
        *(({"a": [70.0, 71.0, 72.0, 71.5], "b": b}, {"margin": 4.0}, "b: a sequence of numbers, one a run: ")
          for b in ({0: 80.0, 1: 81.0, 2: 82.0, 3: 81.5}, {1.0, 2.0, 3.0}, "9999", 3.0, [None] * 4)),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(scores: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError if message.startswith(("a mapping", "b: a seq")) else ValueError, match=message):
        compare(scores, **options)
