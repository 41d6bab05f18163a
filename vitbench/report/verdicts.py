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
from vitbench.report.markdown import NOTHING, Md, bold, escape, table
from vitbench.report.numbers import count, fixed, signed
from vitbench.report.view import Place, View, plural

DIFFERENCE, INTERVAL, P, HOLM = "difference (points)", "95 % interval", "p", "p (Holm)"
RIGHT = frozenset({"seeds", "blocks", DIFFERENCE, INTERVAL, P, HOLM, "P(better)", "claimed (points)"})
BELOW = Md("‡")
MAX_SAID = 16
"""Claims that have a line of their own in the first section; the table has them all."""
MAX_COMPARED = 60
"""Rows of a table of comparisons; what is beyond is in the CSV."""
MEANING: Mapping[Verdict, str] = {
    "better": "p after Holm's correction over its family of comparisons is at most 0.05",
    "worse": "p after Holm's correction over its family of comparisons is at most 0.05",
    "equivalent": "the interval lies within the margin",
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
    held = "".join(f", {axis} {value}" for axis, value in fact.where.items())
    compared = f"{fact.value} against {fact.against}{held}"
    shown = signed(fact.size, 1) if fact.size is not None else NOTHING
    return {
        "claim": escape(fact.claim),
        "compared": escape(compared),
        "expected": escape(fact.expected),
        "claimed (points)": shown,
        **_numbers(view, tested.judged),
        "verdict": escape(tested.judged.verdict),
        "outcome": bold(escape(tested.outcome)),
        "source": escape(fact.source),
    }


def effects(view: View, found: Sequence[Effect]) -> Md:
    """The table of an axis' main effects."""
    rows = [
        {
            "value": escape(e.value),
            "against": escape(e.against),
            "blocks": _blocks(e.judged),
            **_numbers(view, e.judged),
            "verdict": bold(escape(e.judged.verdict)),
        }
        for e in found
    ]
    return table(rows, right=RIGHT)


def compared(view: View, found: Sequence[Judged], name: str) -> list[Md]:
    """Comparisons by their labels, as one family: interactions, or cells against the first."""
    rows = [
        {name: escape(j.comparison.label), **_numbers(view, j), "verdict": bold(escape(j.verdict))}
        for j in found[:MAX_COMPARED]
    ]
    more = [Md(f"Of {len(found):,} rows the first {MAX_COMPARED} are shown.")] if len(found) > MAX_COMPARED else []
    return [table(rows, right=RIGHT), *notes(view, found), *more]


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
        "seeds": seeds,
        DIFFERENCE: Md(f"{signed(judged.mean, decimals)}{mark}"),
        INTERVAL: Md(f"{signed(low, decimals)} to {signed(high, decimals)}") if math.isfinite(low) else NOTHING,
        "P(better)": fixed(judged.improvement, 2),
        P: probability(judged.p),
        HOLM: probability(judged.p_holm),
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
    said = [f"{counted}. Margin: {f'{margin:g} points' if margin else 'none is set, so that nothing is equivalent'}."]
    few = [j for j in judged if j.verdict == "underpowered"]
    if few:
        said.append(f"{seeds_for(family)} seeds are the fewest with which any row of this table can be shown.")
    if any(j.below_noise_floor and j.mean for j in judged):
        said.append(f"{BELOW} no further from 0 than exact twins are from one another.")
    if any(j.survivors for j in judged):
        said.append(f"{SURVIVORS} over survivors: not every planned seed has a result.")
    return [Md(f"*{escape(' '.join(said))}*")]


def legend(view: View) -> str:
    """What the verdicts of a report mean, of those that it has; empty where it has none."""
    return legend_of({judged.verdict for place in view.places for judged in _all_of(place)})


def legend_of(present: Collection[str]) -> str:
    """What some verdicts mean; empty where there are none."""
    words: dict[str, list[str]] = {}
    for verdict, meaning in MEANING.items():
        if verdict in present:
            words.setdefault(meaning, []).append(verdict)
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
    tally = Counter(each.outcome for each in tested)
    counted = ", ".join(f"{tally[name]} {name}" for name in ("reproduced", "not reproduced", "undecided"))
    said = [Md(f"Of {plural(len(tested), 'claim')} put to the test{on}: {counted}.")]
    return [*said, *(_outcome(view, each) for each in tested[:MAX_SAID])]


def _outcome(view: View, tested: Tested) -> Md:
    size = tested.fact.size
    claimed = Md(f"{signed(size, 1)} points") if size is not None else escape(tested.fact.expected)
    return Md(f"**{escape(tested.outcome[:1].upper() + tested.outcome[1:])}**: {escape(tested.fact.claim)}. Claimed: "
              f"{claimed}; found: {found(view, tested.judged)}.")  # fmt: skip


def frame(view: View) -> pd.DataFrame:
    """Every judged comparison as numbers, a row each: the family it belongs to, and all that was found."""
    rows = []
    for place in view.places:
        at = {"device": place.runs.device, "origin": view.letter(place.runs.origin)}
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
