"""Outcomes of claims: the sign by the verdict, the size by the interval and the suite's margin."""

from collections.abc import Sequence
from typing import get_args

import pytest

from tests.report.builders import build, factorial
from vitbench.analysis.conclusions import OUTCOMES, Outcome, conclude, outcome
from vitbench.analysis.factorial import runs_of
from vitbench.analysis.frames import trials_frame
from vitbench.analysis.verdicts import Comparison, judge
from vitbench.config.suite import Hypothesis

AROUND = (-0.6, -0.3, -0.2, 0.1, 0.2, 0.3, 0.5)  # Noise of seven seeds around a mean: an interval of some ±0.37


def fact(expected: str, size: float | None = None) -> Hypothesis:
    given = {"claim": "a claim", "axis": "norm", "value": "post", "against": "pre", "source": "someone"}
    return Hypothesis.model_validate({**given, "expected": expected, "size": size})


def outcome_of(
    mean: float, expected: str, size: float | None = None, margin: float | None = 1.0, seeds: int = 7
) -> Outcome:
    deltas = [mean + noise for noise in AROUND[:seeds]]
    (judged,) = judge([Comparison("post", tuple(deltas), seeds)], margin=margin, noise_floor=None)
    return outcome(fact(expected, size), judged, margin)


@pytest.mark.parametrize(
    ("mean", "expected", "size", "words"),
    [
        (-6.7, "lower", -6.9, "reproduced"),
        (-6.5, "lower", None, "reproduced"),
        (-6.5, "lower", -6.9, "reproduced, within the margin"),
        (-5.6, "lower", -6.9, "reproduced, within the margin"),  # 0.9 outside of the interval: less than the margin
        (-1.6, "lower", -6.9, "reproduced in sign, smaller than claimed"),
        (-9.0, "lower", -6.9, "reproduced in sign, larger than claimed"),
        (1.6, "higher", 6.9, "reproduced in sign, smaller than claimed"),
        (9.0, "higher", 6.9, "reproduced in sign, larger than claimed"),
        (-6.5, "higher", 6.5, "not reproduced, opposite sign"),
        (1.6, "lower", None, "not reproduced, opposite sign"),
        (-0.5, "lower", -6.9, "not reproduced, within the margin"),  # a certain sign, and no size that matters
        (0.0, "higher", None, "not reproduced, within the margin"),
        (0.5, "equal", -0.4, "equal within the margin"),  # for certain
        (0.2, "equal", -0.4, "reproduced"),
        (2.3, "equal", -0.4, "not reproduced, not equal"),
        (-2.3, "equal", None, "not reproduced, not equal"),
        (0.9, "equal", None, "not reproduced, not equal"),
    ],
)
def test_an_outcome_tells_sign_and_size_apart(mean: float, expected: str, size: float | None, words: str) -> None:
    assert outcome_of(mean, expected, size) == words


def test_without_a_margin_a_size_is_to_lie_in_the_interval() -> None:
    assert outcome_of(-5.6, "lower", -6.9, margin=None) == "reproduced in sign, smaller than claimed"
    assert outcome_of(-6.8, "lower", -6.9, margin=None) == "reproduced"
    assert outcome_of(0.05, "equal", None, margin=None) == "undecided"


def test_what_so_few_seeds_cannot_show_is_undecided_however_large() -> None:
    assert outcome_of(-6.9, "lower", -6.9, seeds=4) == "reproduced"
    assert outcome_of(-6.9, "lower", -6.9, seeds=3) == "undecided"


def test_every_outcome_has_a_meaning() -> None:
    assert set(OUTCOMES) == set(get_args(Outcome))


def test_claims_of_a_study_are_judged_with_its_margin(tmp_path) -> None:
    axes: dict[str, Sequence[str]] = {"norm": ("pre", "post")}
    plan = factorial(axes, seeds=range(7), time=False, accuracy=lambda cell, seed: 50 + AROUND[seed] - 3 * (
        cell.axes["norm"] == "post") * (1 + AROUND[seed] / 9))  # fmt: skip
    (runs,) = runs_of(trials_frame(build(tmp_path, plan)), axes)
    for margin, words in ((2.0, "reproduced, within the margin"), (None, "reproduced in sign, smaller than claimed")):
        (tested,) = conclude(
            runs, axes, (), hypotheses=[fact("lower", -4.0)], margin=margin, noise_floor=None
        ).hypotheses
        assert tested.outcome == words
    (effect,) = conclude(runs, axes, axes, margin=None, noise_floor=None).effects
    assert not effect.under and effect.judged.comparison.cells == ("post", "pre")


def test_all_tables_of_a_report_are_one_family_and_a_claim_that_is_an_effect_counts_once(tmp_path) -> None:
    axes: dict[str, Sequence[str]] = {"norm": ("pre", "post"), "positions": ("learned", "none", "sinusoidal")}
    (runs,) = runs_of(trials_frame(build(tmp_path, factorial(axes, seeds=range(6), time=False))), axes)
    turned = Hypothesis.model_validate({**fact("higher").model_dump(), "value": "pre", "against": "post"})
    part = Hypothesis.model_validate({**fact("equal").model_dump(), "where": {"positions": "none"}})
    facts, cells = [fact("lower"), turned, part], list(runs.function_of)[:2]
    conclusions = conclude(runs, axes, axes, hypotheses=facts, cells=cells, margin=None, noise_floor=None)
    claims, effects = conclusions.hypotheses, conclusions.effects
    assert (len(claims), len(effects), len(conclusions.interactions), len(conclusions.variants)) == (3, 3, 2, 1)
    # Two of the claims are the effect of the norm; the variant is a hypothesis of its own.
    assert {judged.family for judged in conclusions.judged} == {1 + 1 + 2 + 2 + 1}
    norm, claim, turned_claim = effects[0].judged, claims[0].judged, claims[1].judged
    assert norm.p_holm == claim.p_holm == turned_claim.p_holm
    assert norm.mean == claim.mean == -turned_claim.mean


def test_twins_that_one_stands_for_are_in_no_family_whatever_has_run(tmp_path) -> None:
    axes: dict[str, Sequence[str]] = {"patching": ("conv", "einops", "einops_layernorm"), "norm": ("pre", "post")}
    plan = factorial(axes, seeds=range(6), time=False)
    for number, missing in enumerate(("none", "einops", "conv")):  # of which nothing has run
        plan.state = lambda cell, kind, seed, missing=missing: (
            "pending" if cell.axes["patching"] == missing else "ok", ""
        )  # fmt: skip
        (runs,) = runs_of(trials_frame(build(tmp_path / str(number), plan)), axes)
        for once, values in ((True, ["einops_layernorm"]), (False, ["einops", "einops_layernorm"])):
            conclusions = conclude(runs, axes, axes, margin=None, noise_floor=None, once=once)
            apart = [each.value for each in conclusions.effects if each.axis == "patching"]
            assert missing == "conv" or apart == values
            assert {each.family for each in conclusions.judged} == {2 * len(values) + 1}


def test_which_arms_are_paired_is_told_by_the_specification_alone(tmp_path) -> None:
    """Arms of one start and equivalent implementations are paired, whatever their results."""
    axes: dict[str, Sequence[str]] = {"attention": ("batched", "sdpa"), "norm": ("pre", "post")}
    frame = trials_frame(build(tmp_path, factorial(axes, seeds=range(6), time=False)))
    for starts, paired in ((None, False), ("a.safetensors", True)):
        (runs,) = runs_of(frame.assign(pretrained_weights=starts), axes)
        conclusions = conclude(runs, axes, axes, margin=None, noise_floor=None)
        assert {e.axis: e.judged.paired for e in conclusions.effects} == {"attention": True, "norm": paired}
    apart = ["a" if norm == "pre" else "b" for norm in frame["norm"]]
    (runs,) = runs_of(frame.assign(pretrained_weights=apart), axes)
    assert not conclude(runs, axes, ["norm"], margin=None, noise_floor=None).effects[0].judged.paired
    assert conclude(runs, axes, ["norm"], margin=None, noise_floor=None, test="paired").effects[0].judged.paired


def test_claims_and_variants_that_a_device_does_not_have_are_left_out(tmp_path) -> None:
    """One device was given some of the cells alone, or the plan was edited."""
    axes = {"norm": ("pre", "post")}
    (runs,) = runs_of(trials_frame(build(tmp_path, factorial(axes, seeds=tuple(range(7)), time=False))), axes)
    facts = [fact("lower").model_copy(update={"axis": None, "against": against}) for against in ("pre", "elsewhere")]
    cells = ["pre", "post", "elsewhere"]
    conclusions = conclude(runs, {}, (), hypotheses=facts, cells=cells, margin=1.0, noise_floor=None)
    assert [tested.hypothesis.against for tested in conclusions.hypotheses] == ["pre"]
    assert [judged.comparison.label for judged in conclusions.variants] == ["post"]
