"""Verdicts in tables and sentences: the suite's claims, the effects of its axes, their interactions, its variants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import pandas as pd

from vitbench.analysis.conclusions import Effect, Tested
from vitbench.analysis.multiplicity import seeds_for
from vitbench.analysis.verdicts import Judged, Verdict
from vitbench.report.accuracy import SURVIVORS, decimals_of
from vitbench.report.judgements import Place
from vitbench.report.markdown import NOTHING, Md, bold, bullets, escape, table
from vitbench.report.numbers import count, fixed, plural, signed
from vitbench.report.view import View

DIFFERENCE, INTERVAL, P, HOLM = "difference (points)", "95 % interval (points)", "p", "p (Holm)"
BETTER = "P(better)"
RIGHT = frozenset({"seeds", "blocks", DIFFERENCE, INTERVAL, P, HOLM, BETTER, "claimed (points)"})
BELOW = Md("‡")
MAX_SAID = 8
"""Claims that have a line of their own in the first section; the table has them all."""
OUTCOMES = ("reproduced", "not reproduced", "undecided")
MAX_COMPARED = 60
"""Rows of a table of comparisons; what is beyond is in the CSV."""
MEANING: Mapping[Verdict, str] = {
    "better": "p after Holm's correction over its family of comparisons is at most 0.05",
    "worse": "p after Holm's correction over its family of comparisons is at most 0.05",
    "equivalent": "the interval lies within the margin{margin}, which the suite sets for what does not matter to it",
    "undecided": "neither a difference nor its absence is shown",
    "underpowered": "no result of so few seeds could pass the test",
    "invalid": "more than one seed failed, or what is compared does not run here",
}
"""What a reader must know of each verdict."""


def claims(view: View, tested: Sequence[Tested]) -> Md:
    """The table of claims: what was said, what was found, and whether it came out."""
    return table([_claim(view, each) for each in tested], right=RIGHT)


def _claim(view: View, tested: Tested) -> dict[str, Md]:
    fact = tested.fact
    shown = signed(fact.size, 1) if fact.size is not None else NOTHING
    return {
        "claim": escape(fact.claim),
        "outcome": bold(escape(tested.outcome)),
        "verdict": escape(tested.judged.verdict),
        "expected": escape(fact.expected),
        "claimed (points)": shown,
        **_numbers(view, tested.judged),
    }


def grounds(tested: Sequence[Tested]) -> list[Md]:
    """Of each claim what was compared, and where it comes from: too long for the columns of a table."""
    said = []
    for fact in (each.fact for each in tested):
        held = "".join(f", {axis} {value}" for axis, value in fact.where.items())
        compared = f"{fact.value} against {fact.against}{held}"
        said.append(Md(f"{escape(fact.claim)}: {escape(compared)} (source: {escape(fact.source)})"))
    return [Md("What was compared, and where each claim comes from:"), bullets(said)]


def effects(view: View, found: Sequence[Effect]) -> Md:
    """The table of an axis' main effects."""
    rows = [
        {
            "value": escape(e.value),
            "verdict": bold(escape(e.judged.verdict)),
            "against": escape(e.against),
            **_numbers(view, e.judged),
            "blocks": _blocks(e.judged),
        }
        for e in found
    ]
    return table(rows, right=RIGHT)


def compared(view: View, found: Sequence[Judged], name: str) -> list[Md]:
    """Comparisons by their labels, as one family: interactions, or cells against the first."""
    rows = [
        {name: escape(j.comparison.label), "verdict": bold(escape(j.verdict)), **_numbers(view, j)}
        for j in found[:MAX_COMPARED]
    ]
    if all(math.isnan(j.improvement) for j in found):  # nothing is a run of an interaction
        rows = [{column: cell for column, cell in row.items() if column != BETTER} for row in rows]
    more = [Md(f"Of {len(found):,} rows the first {MAX_COMPARED} are shown.")] if len(found) > MAX_COMPARED else []
    return [table(rows, right=RIGHT), *notes(view, found), *more]


def without_interactions(view: View) -> list[Md]:
    """Why axes have no interactions, where a grid of two or more has results; nothing of any other study."""
    if len(view.axes) < 2 or not view.places:
        return []
    twins = [axis for axis in view.axes if axis in view.twin_axes]
    if not twins or len(view.axes) - len(twins) > 1:
        return []
    which = f"{' and '.join(map(escape, twins))} {'has' if len(twins) == 1 else 'have'} exact twins alone for values"
    return [Md(f"None can be: an interaction takes two axes that change what is computed, and {which}.")]


def _blocks(judged: Judged) -> Md:
    """Matched pairs of cells, and how many of them are no repetition of another by exact twins."""
    blocks, distinct = judged.comparison.blocks, judged.comparison.distinct
    return count(blocks) if distinct == blocks else Md(f"{count(blocks)} ({count(distinct)} distinct)")


def _numbers(view: View, judged: Judged) -> dict[str, Md]:
    decimals = decimals_of(view) + 1
    mark = f" {BELOW}" if judged.below_noise_floor and judged.mean else ""
    low, high = judged.interval.low, judged.interval.high
    seeds = Md(f"{judged.n} of {judged.comparison.planned} {SURVIVORS}") if judged.survivors else count(judged.n)
    return {
        DIFFERENCE: Md(f"{signed(judged.mean, decimals)}{mark}"),
        INTERVAL: Md(f"{signed(low, decimals)} to {signed(high, decimals)}") if math.isfinite(low) else NOTHING,
        HOLM: probability(judged.p_holm),
        P: probability(judged.p),
        BETTER: fixed(judged.improvement, 2),
        "seeds": seeds,
    }


def probability(p: float) -> Md:
    """A p-value: three decimals, or that it is smaller."""
    return Md("< 0.001") if p < 0.0005 else fixed(p, 3)


def notes(view: View, judged: Sequence[Judged], family: int = 0) -> list[Md]:
    """What the marks and words of a table mean, as far as it has them.

    Args:
        view: the study.
        judged: the table's rows.
        family: comparisons among which Holm's correction is made, where the table has only some of them.
    """
    margin, family = view.study.info.suite.margin, max(family, len(judged))
    counted = f"{family} comparisons" if family > 1 else "One comparison"
    counted += " in one family with the other axes'" if family > len(judged) else ""
    said = [f"{counted}. Margin: {points(margin) if margin else 'the suite sets none, so that nothing is equivalent'}."]
    few = [j for j in judged if j.verdict == "underpowered"]
    if few:
        said.append(f"{seeds_for(family)} seeds are the fewest with which any row of this table could be shown.")
    if any(j.below_noise_floor and j.mean for j in judged):
        said.append(f"{BELOW} no further from 0 than exact twins are from one another.")
    if any(j.survivors for j in judged):
        said.append(f"{SURVIVORS} over survivors: not every planned seed has a result.")
    return [Md(f"*{escape(' '.join(said))}*")]


def points(number: float) -> str:
    """Percentage points with their noun: 1 point, 0.5 points."""
    return f"{number:g} {'point' if number == 1 else 'points'}"


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
    said = ["A difference is one of test accuracies in percentage points, its mean over seeds; the interval is that of "
            "the mean. p (Holm) is p corrected for the number of comparisons in the family."]  # fmt: skip
    if any(not math.isnan(judged.improvement) for place in view.places for judged in _all_of(place)):
        said.append("P(better) is how often a run of the first beats a run of what it is compared with, over all pairs "
                    "of their runs, a tie counted half.")  # fmt: skip
    if margin := view.study.info.suite.margin:
        said.append(f"The margin, {points(margin)}, is set by the suite: a difference that is surely smaller does not "
                    "matter to it.")  # fmt: skip
    return [Md(" ".join(said))]


def legend(view: View) -> str:
    """What the verdicts of a report mean, of those that it has; empty where it has none."""
    present = {judged.verdict for place in view.places for judged in _all_of(place)}
    return legend_of(present, view.study.info.suite.margin)


def legend_of(present: Collection[str], margin: float | None = None) -> str:
    """What some verdicts mean; empty where there are none.

    Args:
        present: the verdicts.
        margin: percentage points, where all of them go by the same.
    """
    words: dict[str, list[str]] = {}
    for verdict, meaning in MEANING.items():
        if verdict in present:
            words.setdefault(meaning.format(margin=f" of {points(margin)}" if margin else ""), []).append(verdict)
    if not words:
        return ""
    said = " ".join(f"{' and '.join(names).capitalize()}: {meaning}." for meaning, names in words.items())
    return f"{said} p: two-sided sign-flip test over seeds."


def _all_of(place: Place) -> Iterator[Judged]:
    yield from (tested.judged for tested in place.claims)
    yield from (effect.judged for effect in place.effects)
    yield from place.interactions
    yield from place.variants


def found(view: View, judged: Judged) -> Md:
    """What a comparison came to, as part of a sentence, with its interval, seeds and verdict."""
    decimals = decimals_of(view) + 1
    low, high = judged.interval.low, judged.interval.high
    span = f"{signed(low, decimals)} to {signed(high, decimals)}, " if math.isfinite(low) else ""
    return Md(
        f"{signed(judged.mean, decimals)} points ({span}{plural(judged.n, 'seed')}): **{escape(judged.verdict)}**"
    )


def outcomes_in_words(view: View, tested: Sequence[Tested], on: str) -> list[Md]:
    """How the claims came out: counted, then each with the number that was claimed and the one that was found."""
    tally = Counter[str](each.outcome for each in tested)
    said = [Md(f"{plural(len(tested), 'claim')} put to the test{on}: {_counted(tally)}.")]
    # Those that came out otherwise than claimed are what a reader must not miss.
    shown = sorted(tested, key=lambda each: each.outcome == OUTCOMES[0]) if len(tested) > MAX_SAID else tested
    said += [_outcome(view, each) for each in shown[:MAX_SAID]]
    rest = Counter[str](each.outcome for each in shown[MAX_SAID:])
    return [*said, Md(f"{plural(rest.total(), 'further claim')}, {_counted(rest)}: see Claims.")] if rest else said


def _counted(tally: Counter[str]) -> str:
    """Outcomes in words: "all reproduced", "3 reproduced, 1 undecided"."""
    named = [name for name in OUTCOMES if tally[name]]
    if len(named) == 1 and tally.total() > 1:
        return f"{'both' if tally.total() == 2 else 'all'} {named[0]}"
    return ", ".join(f"{tally[name]} {name}" for name in named)


def _outcome(view: View, tested: Tested) -> Md:
    size = tested.fact.size
    claimed = Md(f"{signed(size, 1)} points") if size is not None else escape(tested.fact.expected)
    return Md(f"**{escape(tested.outcome[:1].upper() + tested.outcome[1:])}**: {escape(tested.fact.claim)}. Claimed: "
              f"{claimed}; found: {found(view, tested.judged)}.")  # fmt: skip


def frame(view: View) -> pd.DataFrame:
    """Every judged comparison as numbers, a row each: the family it belongs to, and all that was found."""
    rows = []
    for place in view.places:
        at = {"device": place.runs.device, "origin": view.origins.letter(place.runs.origin)}
        for each in place.claims:
            rows.append({**at, "family": "claims", "comparison": each.fact.claim, **_row(each.judged),
                         "expected": each.fact.expected, "published_points": each.fact.size,
                         "outcome": each.outcome})  # fmt: skip
        families = {
            "effects": [e.judged for e in place.effects],
            "interactions": place.interactions,
            "variants": place.variants,
        }
        rows += [
            {**at, "family": family, "comparison": j.comparison.label, **_row(j)}
            for family, judged in families.items()
            for j in judged
        ]
    columns = [*at, "family", "comparison", *_row_columns(), "expected", "published_points", "outcome"] if rows else []
    return pd.DataFrame(rows, columns=columns or ["device"])


def _row_columns() -> list[str]:
    return ["n", "planned", "failed", "blocks", "difference_points", "low", "high", "p", "p_holm", "p_better",
            "verdict", "below_noise_floor", "seeds_needed"]  # fmt: skip


def _row(judged: Judged) -> dict[str, object]:
    c = judged.comparison
    values = (judged.n, c.planned, c.failed, c.blocks, judged.mean, judged.interval.low, judged.interval.high, judged.p,
              judged.p_holm, judged.improvement, judged.verdict, judged.below_noise_floor,
              judged.seeds_needed)  # fmt: skip
    return dict(zip(_row_columns(), values, strict=True))
