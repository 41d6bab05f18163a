"""Verdicts in tables: the suite's claims, the effects of its axes, their interactions, its variants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from vitbench.analysis.conclusions import Effect, Tested
from vitbench.analysis.factorial import LESS
from vitbench.analysis.multiplicity import seeds_for
from vitbench.analysis.paired import interval
from vitbench.analysis.verdicts import Judged, judge
from vitbench.report.accuracy import AT_CHANCE, SURVIVORS, decimals_of
from vitbench.report.document import Block, Table, bullets, table
from vitbench.report.findings.legends import points, told
from vitbench.report.markdown import NOTHING, Md, bold, escape
from vitbench.report.numbers import count, fixed, probability, signed
from vitbench.report.view import View

DIFFERENCE, INTERVAL, P, HOLM = "difference (points)", "95 % interval (points)", "p", "p (Holm)"
OF_LOOK = "interval (points)"
"""Head of the column where the confidence is that of the look that decided a row."""
BESIDE = "p (permutation)"
BETTER = "P(better)"
PAIRS = "cell pairs"
CLAIMED = "claimed (points)"
RIGHT = frozenset({"seeds", PAIRS, DIFFERENCE, INTERVAL, OF_LOOK, P, BESIDE, HOLM, BETTER, CLAIMED})
BELOW = Md("‡")
MAX_COMPARED = 60
"""Rows of a table of comparisons; what is beyond is in the CSV."""
MAX_CONDITIONS = 8
"""Combinations of conditions that a table has columns for."""


def claims(view: View, tested: Sequence[Tested]) -> Table:
    """The table of claims: what was said, what was found, and whether it came out."""
    rows = [_claim(view, each) for each in tested]
    if all(each.fact.size is None for each in tested):
        rows = [{name: cell for name, cell in row.items() if name != CLAIMED} for row in rows]
    return _table(rows, [each.judged for each in tested])


def _claim(view: View, tested: Tested) -> dict[str, Md]:
    fact = tested.fact
    shown = signed(fact.size, 1) if fact.size is not None else NOTHING
    return {
        "claim": escape(fact.claim),
        "outcome": bold(escape(told(view, tested.outcome))),
        "verdict": escape(_words(view, tested.judged)),
        "expected": escape(fact.expected),
        CLAIMED: shown,
        **_numbers(view, tested.judged, beside=False),
    }


def grounds(view: View, tested: Sequence[Tested]) -> list[Block]:
    """Of each claim what was compared, and where it comes from: too long for the columns of a table."""
    said = []
    for fact in (each.fact for each in tested):
        held = "".join(f", {view.axis_names.get(axis, axis)} {value}" for axis, value in fact.where.items())
        which = f"{view.axis_names.get(fact.axis, fact.axis)} " if fact.axis else ""
        compared = f"{which}{fact.value} against {fact.against}{held}"
        said.append(Md(f"{escape(fact.claim)}: {escape(compared)} (source: {escape(fact.source)})"))
    return [Md("What was compared, and where each claim comes from:"), bullets(said)]


def effects(view: View, found: Sequence[Effect]) -> Table:
    """The table of an axis' main effects."""
    rows = [
        {
            "value": escape(e.value),
            "verdict": bold(escape(_words(view, e.judged))),
            "against": escape(e.against),
            **_numbers(view, e.judged),
            PAIRS: _pairs(e.judged),
        }
        for e in found
    ]
    return _table(rows, [e.judged for e in found])


def under_conditions(view: View, found: Sequence[Effect]) -> list[Block]:
    """The effects of an axis under each combination of the conditions' values, where there are any; never a verdict."""
    columns = list(dict.fromkeys(values for e in found for values in e.under))
    if len(columns) < 2 or len(columns) > MAX_CONDITIONS:
        return []
    decimals = decimals_of(view) + 1
    names = {values: f"{' · '.join(values)} (points)" for values in columns}
    rows = [
        {"value": escape(e.value), **{names[v]: signed(e.under.get(v, math.nan), decimals) for v in columns}}
        for e in found
    ]
    what = " and ".join(escape(view.axis_names[axis]) for axis in view.conditions)
    said = f"These are means over the {len(columns)} values of {what}. Of each by itself, without a verdict:"
    return [Md(said), table(rows, right={*names.values()})]


def compared(view: View, found: Sequence[Judged], name: str) -> list[Block]:
    """Comparisons by their labels: interactions, or cells against the first."""
    rows = [
        {name: escape(_label(view, j)), "verdict": bold(escape(_words(view, j))), **_numbers(view, j)}
        for j in found[:MAX_COMPARED]
    ]
    more = [Md(f"Of {len(found):,} rows the first {MAX_COMPARED} are shown.")] if len(found) > MAX_COMPARED else []
    return [_table(rows, found), *notes(view, found), *more]


def _words(view: View, judged: Judged) -> str:
    """A verdict, marked where it compares two cells that are both at chance."""
    c = judged.comparison
    arms = zip(c.cells, (c.variant, c.baseline), strict=False)
    both = c.cells and all(len(arm) > 1 and view.is_at_chance(cell, interval(arm)) for cell, arm in arms)
    return f"{judged.words} (both {AT_CHANCE})" if both else judged.words


def _label(view: View, judged: Judged) -> str:
    """What is compared, its axes called as in all tables."""
    named = [f"{view.axis_names[axis]}: {value} {LESS} {against}" for axis, value, against in judged.comparison.factors]
    return " by ".join(named) or judged.comparison.label


def _table(rows: Sequence[dict[str, Md]], found: Sequence[Judged]) -> Table:
    """Comparisons as a table, without the column of runs that beat one another where no row compares runs."""
    if all(math.isnan(j.improvement) for j in found):
        rows = [{column: cell for column, cell in row.items() if column != BETTER} for row in rows]
    return table(rows, right=RIGHT)


def without_interactions(view: View) -> list[Md]:
    """Why axes have no interactions, where a grid of two or more has results; nothing of any other study."""
    if len(view.axes) < 2 or not view.places:
        return []
    twins = [axis for axis in view.axes if axis in view.twin_axes]
    if not twins or len(view.axes) - len(twins) > 1:
        return []
    which = f"{' and '.join(map(escape, twins))} {'has' if len(twins) == 1 else 'have'} exact twins alone for values"
    return [Md(f"None can be: an interaction takes two axes that change what is computed, and {which}.")]


def _pairs(judged: Judged) -> Md:
    """Matched pairs of cells, and how many of them are no repetition of another by exact twins."""
    blocks, distinct = judged.comparison.blocks, judged.comparison.distinct
    return count(blocks) if distinct == blocks else Md(f"{count(blocks)} ({count(distinct)} distinct)")


def _numbers(view: View, judged: Judged, *, beside: bool = True) -> dict[str, Md]:
    """Columns of all comparisons; that of the permutation test where there is room, as there is not beside a claim."""
    decimals = decimals_of(view) + 1
    mark = f" {BELOW}" if _is_marked(judged) else ""
    low, high = judged.interval.low, judged.interval.high
    seeds = Md(f"{judged.n} of {judged.comparison.planned} {SURVIVORS}") if judged.survivors else count(judged.n)
    return {
        DIFFERENCE: Md(f"{signed(judged.mean, decimals)}{mark}"),
        OF_LOOK if view.looking else INTERVAL: Md(f"{signed(low, decimals)} to {signed(high, decimals)}")
        if math.isfinite(low)
        else NOTHING,
        HOLM: probability(judged.p_holm),
        P: probability(judged.p),
        **({BESIDE: probability(judged.p_permutation)} if beside else {}),
        BETTER: fixed(judged.improvement, 2),
        "seeds": seeds,
    }


def _is_marked(judged: Judged) -> bool:
    """Whether a difference is to be known as no larger than noise; of exact twins themselves that is no news."""
    return judged.below_noise_floor and bool(judged.mean) and not judged.comparison.twins


def notes(view: View, judged: Sequence[Judged]) -> list[Block]:
    """What the marks and words of a table mean, as far as it has them; empty where it has none."""
    said = _about_family(view, judged)
    if any(map(_is_marked, judged)):
        said.append(f"{BELOW} no further from 0 than exact twins are from one another.")
    if any(j.survivors for j in judged):
        said.append(f"{SURVIVORS} over survivors: not every planned seed has a result.")
    return [*([Md(f"*{escape(' '.join(said))}*")] if said else []), *_other_margins(view, judged)]


def _about_family(view: View, judged: Sequence[Judged]) -> list[str]:
    """What holds for all comparisons of a device and origin, with the first table of them."""
    if not any(place.judged and place.judged[0] is judged[0] for place in view.places):
        return []
    margin, size = view.study.info.suite.margin, judged[0].family
    counted = f"{size} comparisons, in one family over the tables of the report" if size > 1 else "One comparison"
    said = [f"{counted}. Margin: {points(margin) if margin else 'the suite sets none, so that nothing is equivalent'}."]
    every = next(place.judged for place in view.places if place.judged[0] is judged[0])
    if any(j.verdict == "underpowered" for j in every):
        fewest = seeds_for(min(j.burden for j in every))
        said.append(f"{fewest} seeds are the fewest with which {'any of them' if size > 1 else 'it'} could be shown.")
    return said


def _other_margins(view: View, judged: Sequence[Judged]) -> list[Block]:
    """The verdicts of a device and origin that half or twice the margin changes, with the first table of them."""
    margin = view.study.info.suite.margin
    place = next((place for place in view.places if place.judged and place.judged[0] is judged[0]), None)
    if not margin or place is None:
        return []
    names = {id(each.judged): each.fact.claim for each in place.claims}
    every = [each.comparison for each in place.judged]
    found = {margin: place.judged} | {
        other: judge(every, margin=other, noise_floor=None, test=view.study.info.suite.test)
        for other in (margin / 2, 2 * margin)
    }
    rows = [
        {"comparison": escape(names.get(id(first)) or _label(view, first))}
        | {f"margin {points(size)}": escape(words[size]) for size in sorted(words)}
        for i, first in enumerate(place.judged)
        for words in [{size: of_margin[i].words for size, of_margin in found.items()}]
        if len(set(words.values())) > 1
    ]
    if not rows:
        return [Md("With half or twice the margin no verdict changes.")]
    beyond = f" The first {MAX_COMPARED} of {len(rows):,} are shown." if len(rows) > MAX_COMPARED else ""
    said = f"With half or twice the margin these verdicts change, and no others.{beyond}"
    return [Md(said), table(rows[:MAX_COMPARED], right=set())]


def frame(view: View) -> pd.DataFrame:
    """Every judged comparison as numbers, a row each: the family it belongs to, and all that was found."""
    rows = []
    for place in view.places:
        at = {"device": place.runs.device, "origin": view.origins.letter(place.runs.origin)}
        for each in place.claims:
            rows.append({**at, "family": "claims", "comparison": each.fact.claim, **_row(each.judged),
                         "expected": each.fact.expected, "published_points": each.fact.size,
                         "outcome": each.outcome, "small": view.small})  # fmt: skip
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
    columns = [*at, "family", "comparison", *_row_columns(), "expected", "published_points", "outcome",
               "small"] if rows else []  # fmt: skip
    found = pd.DataFrame(rows, columns=columns or ["device"])
    if view.looking is None:
        return found
    of_claims = [judged for place in view.places for judged in place.judged]
    return found.assign(look=[j.look for j in of_claims], confidence=[j.confidence for j in of_claims])


def _row_columns() -> list[str]:
    return ["n", "planned", "failed", "blocks", "difference_points", "low", "high", "p", "p_permutation",
            "p_holm", "p_better", "verdict", "words", "below_noise_floor", "seeds_needed"]  # fmt: skip


def _row(judged: Judged) -> dict[str, object]:
    c = judged.comparison
    values = (judged.n, c.planned, c.failed, c.blocks, judged.mean, judged.interval.low, judged.interval.high, judged.p,
              judged.p_permutation, judged.p_holm, judged.improvement, judged.verdict, judged.words,
              judged.below_noise_floor,
              judged.seeds_needed)  # fmt: skip
    return dict(zip(_row_columns(), values, strict=True))
