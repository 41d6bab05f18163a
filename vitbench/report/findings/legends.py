"""Legends: what the verdicts, outcomes and columns of a report mean, of those that it has."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from vitbench.analysis.conclusions import Outcome
from vitbench.analysis.multiplicity import ALPHA
from vitbench.analysis.verdicts import BY_LESS, Verdict
from vitbench.report.markdown import Md
from vitbench.report.view import View

_PASSED = f"p after Holm's correction over all comparisons of the report is at most {ALPHA:g}"
MEANING: Mapping[Verdict, str] = {
    "invalid": "more than one seed failed, or what is compared does not run here",
    "equivalent": "a difference as large as the margin{margin}, which the suite sets for what does not matter to it, "
    f"is ruled out, corrected as differences are; where one is certain all the same, it is better or worse, {BY_LESS}",
    "better": _PASSED,
    "worse": _PASSED,
    "underpowered": "so few seeds, of runs that spread so far, would find {smallest} less than half of the time",
    "undecided": "neither a difference nor its absence is shown",
}
"""What a reader must know of each verdict, in the order in which they are judged."""
_BEYOND = "the difference has the claimed sign, and the claimed size lies outside the interval{beyond}"
OUTCOMES: Mapping[Outcome, str] = {
    "reproduced": "what was claimed came out{size}",
    "equal within the margin": "equality was claimed, and what was found is a difference for certain, {by_less}",
    "reproduced, within the margin": "the difference has the claimed sign, and the claimed size lies outside the "
    "interval by no more than the margin",
    "reproduced in sign, smaller than claimed": _BEYOND,
    "reproduced in sign, larger than claimed": _BEYOND,
    "not reproduced, within the margin": "a difference was claimed, and what was found is equivalent",
    "not reproduced, not equal": "equality was claimed, and what was found is a difference",
    "not reproduced, opposite sign": "a difference of the other sign was found",
    "undecided": "the runs do not tell",
}
"""What a reader must know of each outcome of a claim, in the order in which they are told."""


def legend(view: View) -> list[Md]:
    """What the verdicts of a report mean, of those that it has; empty where it has none."""
    every = [judged for place in view.places for judged in place.judged]
    said = legend_of({judged.verdict for judged in every}, view.study.info.suite.margin)
    if any(math.isfinite(judged.interval.low) for judged in every):
        interval = "interval at the level of the look that decided it" if view.looking else "95 % interval"
        said = f"A range beside a difference is its {interval}. {said}"
    if any(place.claims for place in view.places):
        said += " What the outcomes of claims mean: see Claims."
    return [Md(said)] if said else []


def legend_of_outcomes(view: View) -> list[Md]:
    """What the outcomes of a study's claims mean, of those that it has; empty where it has none."""
    tested = [each for place in view.places for each in place.claims]
    margin = view.study.info.suite.margin
    sized = any(each.fact.size is not None and each.fact.expected != "equal" for each in tested)
    size = ", and where a size was claimed of a difference, it lies in the interval" if sized else ""
    beyond = f" by more than the margin of {points(margin)}" if margin else ""
    words: dict[str, list[str]] = {}
    for outcome, meaning in OUTCOMES.items():
        if outcome in {each.outcome for each in tested}:
            words.setdefault(meaning.format(size=size, beyond=beyond, by_less=BY_LESS), []).append(outcome)
    said = " ".join(f"{', or '.join(names).capitalize()}: {meaning}." for meaning, names in words.items())
    if view.small:
        said += " In small: in the suite's small form, which tests another claim than the one that was published."
    return [Md(f"Outcomes of claims. {said}")] if said else []


def told(view: View, outcome: Outcome) -> str:
    """An outcome in words: with the size of the margin, and whether it is that of a suite's small form."""
    margin = view.study.info.suite.margin
    sized = outcome.replace("the margin", f"the margin of {points(margin)}") if margin else outcome
    return f"{sized}, in small" if view.small else sized


def legend_of(present: Collection[str], margin: float | None = None) -> str:
    """What some verdicts mean; empty where there are none.

    Args:
        present: the verdicts.
        margin: percentage points, where all of them go by the same.
    """
    words: dict[str, list[str]] = {}
    for verdict, meaning in MEANING.items():
        if verdict in present:
            size = f"a difference of the margin, {points(margin)}," if margin else "any difference"
            said = meaning.format(margin=f" of {points(margin)}" if margin else "", smallest=size)
            words.setdefault(said, []).append(verdict)
    if not words:
        return ""
    said = " ".join(f"{' and '.join(names).capitalize()}: {meaning}." for meaning, names in words.items())
    return f"{said} p: two-sided, of Welch's t and of a permutation test, the larger of the two."


def columns_explained(view: View, family: str, axis: str = "") -> list[Md]:
    """What the columns of tables of comparisons say, for the first such table of a report; nothing for the others.

    Args:
        view: the study.
        family: the table's, a field of :class:`vitbench.report.view.Place`.
        axis: of a table of effects, whose.
    """
    order = ("claims", "effects", "variants", "interactions")  # as on the page
    present = [each for each in order if any(getattr(place, each) for place in view.places)]
    axes = [axis for axis in view.axes if any(e.axis == axis for place in view.places for e in place.effects)]
    if present[:1] != [family] or (family == "effects" and axes[:1] != [axis]):
        return []
    every = [judged for place in view.places for judged in place.judged]
    said = ["A difference is one of test accuracies in percentage points, its mean over seeds; the interval is "
            "Welch's, of two arms that are trained independently. p is two-sided, the larger of that of the "
            "permutation test and of Welch's t (up to ten times it, where the arms' standard deviations "
            "differ); p (Holm) is p corrected for all comparisons of the report, among which what a claim says "
            "weighs twice, and a difference where a claim or exact twins let expect none a quarter. Under normal, "
            "heavy-tailed and unequal noise at most 5 % of reports without any effect name one; where the variants' "
            "noise is skewed and of twice the baseline's spread, up to 9 %."]  # fmt: skip
    if any(judged.paired for judged in every):
        said.append("Arms that share what they start from are compared by Student's t of the differences in each seed, "
                    "with the sign-flip test beside it.")  # fmt: skip
    said += _about_looks(view)
    if any(judged.only_by_interval for judged in every):
        said.append("A verdict goes by the corrected p, and an interval is not corrected: it may exclude 0 where the "
                    "verdict is undecided or underpowered.")  # fmt: skip
    if any(not math.isnan(judged.improvement) for judged in every):
        said.append("P(better) is how often a run of the value (or cell) that a row is about beats a run of what it is "
                    "compared with, over all pairs of their runs, a tie counted half; a difference that is a mean over "
                    "several pairs of cells has none.")  # fmt: skip
    if margin := view.study.info.suite.margin:
        said.append(f"The margin, {points(margin)}, is set by the suite: a difference that is surely smaller does not "
                    "matter to it.")  # fmt: skip
    return [Md(" ".join(said))]


def _about_looks(view: View) -> list[str]:
    """When results were looked at, what that saved, and what it means for p and intervals; nothing without looks."""
    if view.looking is None:
        return []
    plan = view.looking.plan
    of_plan = set(plan.seeds)
    planned = sum(int(seed) in of_plan for seed in view.train["seed"])
    at = {judged.look: judged.confidence for place in view.places for judged in place.judged if judged.look}
    decided = ", ".join(f"{look} seeds" for look in sorted(at)) or "none yet"
    return [
        f"The plan has looks at the results, after {', '.join(map(str, plan.at))} seeds of a cell. What is decided at "
        "one stops there, and a cell is trained on as long as an open comparison uses its runs. So far that takes "
        f"{planned} of {plan.trainings} trainings: {max(plan.trainings - planned, 0)} fewer.",
        f"A row goes by the seeds of the look that decided it, or of the latest (here: {decided}). After a share t of "
        "the seeds t² of the 5 % of error may have been spent (Kim and DeMets 1987), so that an early look takes a "
        "smaller p; p (Holm) is scaled by that, and at most 0.05 decides at each. A row's interval has the confidence "
        "of its look, not 95 %, so that it never contradicts the verdict. A difference that was shown early is on "
        "average a little too large.",
    ]


def points(number: float) -> str:
    """Percentage points with their noun: 1 point, 0.5 points."""
    return f"{number:g} {'point' if number == 1 else 'points'}"
