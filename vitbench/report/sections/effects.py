"""Effects: what the axes do to test accuracy, how they interact, named cells, and the suite's claims, as tables."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

import pandas as pd

from vitbench.analysis.conclusions import Conclusions, Tested
from vitbench.analysis.paired import interval
from vitbench.analysis.verdicts import Judged, judge
from vitbench.config.suite import Hypothesis
from vitbench.report.document import Bar, Block, Heading, Scale, Table, filled, table
from vitbench.report.groups import Group
from vitbench.report.output import Files
from vitbench.report.sections.curves import TEST_ACCURACY, trends
from vitbench.report.text import (
    AT_CHANCE,
    NOTHING,
    SURVIVORS,
    Md,
    bold,
    count,
    cut,
    enumerated,
    escape,
    fixed,
    listed,
    points,
    probability,
    ranging,
    signed,
    span,
)
from vitbench.report.view import View

BELOW_NOISE = Md("‡")  # Marks a difference that is no larger than equivalent implementations differ by
DIFFERENCE, INTERVAL, VERDICT = "difference (points)", "95 % interval", "verdict"
OF_LOOK = "interval"  # Head of the column where the confidence is that of the look that decided a row
RIGHT = frozenset({DIFFERENCE, INTERVAL, OF_LOOK, "p (Holm)", "p", "p (permutation)", "P(better)", "seeds",
                   "pairs of cells", "claimed (points)"})  # fmt: skip
OPTIONAL = frozenset({"p", "p (permutation)", "P(better)", "pairs of cells", "source", "expected"})
MOST, MOST_NAMED = 60, 12  # Rows of a table; the CSV has them all
SEEDS_OF_EFFECTS = "Over the seeds with which each effect was judged, which may be fewer than those of a claim."
MOST_TASKS = 8  # Combinations of tasks that a table has columns for


class Row(NamedTuple):
    """A comparison of the report."""

    family: str  # "claims", "effects", "variants" or "interactions"
    name: str  # what is compared, such as the value of an axis
    context: str  # with what it is compared, and under which axis
    judged: Judged  # what the runs say
    tested: Tested | None = None  # the claim; None of all others


def rows_of(view: View, conclusions: Conclusions) -> list[Row]:
    """The comparisons of one group: claims, effects, named cells, interactions."""
    first = next(iter(view.train["cell"]), "")
    return [
        *(
            Row("claims", each.hypothesis.claim, _compared(view, each.hypothesis), each.judged, each)
            for each in conclusions.hypotheses
        ),
        *(Row("effects", *compared(view, e.axis, e.value, e.against), e.judged) for e in conclusions.effects),
        *(Row("variants", j.comparison.label, f"against {first}", j) for j in conclusions.variants),
        *(Row("interactions", *_crossed(view, j), j) for j in conclusions.interactions),
    ]


def compared(view: View, axis: str, value: str, against: str) -> tuple[str, str]:
    """A value of an axis as the name of a row, and what it is compared with: a number says of what it is."""
    called = view.axis_names[axis]
    if isinstance(view.study.info.axes[axis][0], str):
        return value, f"{called}, against {against}"
    return f"{called}={value}", f"against {against}"


def largest_first(rows: Iterable[Row]) -> list[Row]:
    """Differences in the order of a forest plot: the largest first, interactions last."""
    return sorted(rows, key=lambda row: (row.family == "interactions", -abs(row.judged.mean)))


def _crossed(view: View, judged: Judged) -> tuple[str, str]:
    """The two values of an interaction, and their axes with what they are compared with."""
    factors = judged.comparison.factors
    names = [compared(view, axis, value, against)[0] for axis, value, against in factors]
    bases = [compared(view, axis, against, value)[0] for axis, value, against in factors]
    words = [view.axis_names[axis] for (axis, value, _), name in zip(factors, names, strict=True) if name == value]
    return " × ".join(names), ", ".join(filter(None, [" by ".join(words), f"against {' and '.join(bases)}"]))


def _compared(view: View, hypothesis: Hypothesis) -> str:
    held = "".join(f", {view.axis_names.get(axis, axis)} {value}" for axis, value in hypothesis.where.items())
    which = f"{view.axis_names.get(hypothesis.axis, hypothesis.axis)} " if hypothesis.axis else ""
    return f"{which}{hypothesis.value} against {hypothesis.against}{held}"


TITLES = {"effects": "Main effects", "variants": "Named cells", "claims": "Claims", "interactions": "Interactions"}


def section(view: View, files: Files) -> list[Block]:
    """Main effects and named cells of each group, effects by condition, and trends along axes of numbers."""

    def of_group(group: Group) -> Iterator[Block]:
        if group.conclusions is not None:
            yield from _tables(view, rows_of(view, group.conclusions), ("effects", "variants"))
            yield from _by_task(view, group.conclusions)

    return [*view.by_group(of_group), *map(files.picture, trends(view, TEST_ACCURACY))]


def details(view: View, files: Files) -> Iterator[Block]:
    """Claims and interactions of each group, and which verdicts hang on the margin; all comparisons as numbers."""

    def of_group(group: Group) -> Iterator[Block]:
        if group.conclusions is not None:
            rows = rows_of(view, group.conclusions)
            yield from _tables(view, rows, ("claims", "interactions"))
            yield from _other_margins(view, rows)

    yield from view.by_group(of_group)
    if len(numbers := frame(view)):
        links = [files.table("verdicts", numbers), files.table("effects-by-seed", by_seed(view))]
        yield Md(f"As numbers: {links[0]}; each seed's difference: {links[1]}.")


def _tables(view: View, rows: Sequence[Row], families: Sequence[str]) -> Iterator[Block]:
    for family in families:
        members = [row for row in rows if row.family == family]
        known = [row for row in members if row.judged.n or row.tested is not None]
        if members:
            yield Heading(TITLES[family], 4)
        if known:
            yield _table(view, known)
            yield from cut(len(known), MOST)
        if without := [row.name for row in members if row not in known]:
            yield Md(f"Without a seed that both finished: {listed(without, MOST_NAMED)}.")


def _table(view: View, rows: Sequence[Row]) -> Table:
    lines = filled([{**_named(view, row), **numbers_of(view, row.judged)} for row in rows[:MOST]])
    left_out = set() if rows[0].tested is None else {"p (permutation)"}  # beside a claim there is no room for it
    left_out |= {"pairs of cells"} if all(line["pairs of cells"] == "1" for line in lines) else set()
    lines = [{name: cell for name, cell in line.items() if name not in left_out} for line in lines]
    bars = [Bar(r.judged.mean, r.judged.interval.low, r.judged.interval.high) for r in rows[:MOST]]
    also = set() if rows[0].tested is None else {VERDICT, "p (Holm)", "seeds"}
    drawn = {DIFFERENCE: (bars, scale_of(view.study.info.suite.margin))}
    return table(lines, right=RIGHT, bars=drawn, optional=OPTIONAL | also)


def scale_of(margin: float | None) -> Scale:
    """The scale of differences in accuracy, with the margin around zero where there is one; percentage points."""
    return Scale(0.0, (-margin, margin) if margin else None)


def note_of(margin: float | None, rows: Iterable[Judged]) -> str:
    """The note under a forest plot: the margin, the level of intervals that is not 95 %, and for how many comparisons
    verdicts are corrected.
    """
    rows = list(rows)
    family = max((each.family for each in rows), default=0)
    levels = {100 * each.confidence for each in rows if each.n > 1}
    by_look = f"intervals at {span(levels, lambda level: Md(f'{level:.3g}'))} %, by look" if levels - {95.0} else ""
    corrected = f"verdicts, not intervals, are corrected for {family} comparisons by Holm" if family > 1 else ""
    return "; ".join(filter(None, [f"band: the margin of ±{points(margin)}" if margin else "", by_look, corrected]))


def _named(view: View, row: Row) -> dict[str, Md]:
    words = escape(words_of(view, row.judged))
    verdict = bold(words)
    if (tested := row.tested) is not None:
        hypothesis = tested.hypothesis
        size = signed(hypothesis.size, 1) if hypothesis.size is not None else NOTHING
        return {"claim": escape(row.name), "outcome": bold(escape(outcome(view, tested))), VERDICT: words,
                "compared": escape(row.context), "expected": escape(hypothesis.expected), "claimed (points)": size,
                "source": escape(hypothesis.source)}  # fmt: skip
    if row.family == "effects":
        ((axis, value, against),) = row.judged.comparison.factors
        axis = view.axis_names[axis]
        return {"axis": escape(axis), "value": escape(value), VERDICT: verdict, "against": escape(against)}
    if row.family == "interactions":
        return {"together": escape(row.name), VERDICT: verdict, "interaction": escape(row.context)}
    return {"cell": escape(row.name), VERDICT: verdict}


def outcome(view: View, tested: Tested) -> str:
    """The outcome of a claim in words: with the size of the margin, and whether it is that of a suite's small form."""
    margin = view.study.info.suite.margin
    sized = tested.outcome.replace("the margin", f"the margin of {points(margin)}") if margin else tested.outcome
    return f"{sized} (small form)" if view.small else sized


def words_of(view: View, judged: Judged) -> str:
    """A verdict: of an interaction on two values together, and marked where both compared cells are at chance."""
    c, words = judged.comparison, judged.words
    if len(c.factors) > 1 and judged.verdict in ("better", "worse"):
        words = words.replace(judged.verdict, f"{judged.verdict} together", 1)
    arms = zip(c.cells, (c.variant, c.baseline), strict=False)
    both = c.cells and all(arm and view.is_at_chance(cell, fmean(arm), interval(arm).low) for cell, arm in arms)
    return f"{words} (both {AT_CHANCE})" if both else words


def numbers_of(view: View, judged: Judged) -> dict[str, Md]:
    """The columns that all comparisons have."""
    decimals, blocks = view.decimals + 1, judged.comparison.blocks
    mark = f" {BELOW_NOISE}" if is_marked(judged) else ""
    ends = ranging(judged.interval.low, judged.interval.high, decimals, sign=True)
    ends = Md(f"{ends} ({100 * judged.confidence:.3g} %)") if view.looking and ends != NOTHING else ends
    seeds = Md(f"{judged.n} of {judged.comparison.planned} {SURVIVORS}") if judged.survivors else count(judged.n)
    distinct = f" ({count(judged.comparison.distinct)} distinct)" if judged.comparison.distinct < blocks else ""
    return {
        DIFFERENCE: Md(f"{signed(judged.mean, decimals)}{mark}"),
        OF_LOOK if view.looking else INTERVAL: ends,
        "p (Holm)": probability(judged.p_holm),
        "p": probability(judged.p),
        "p (permutation)": probability(judged.p_permutation),
        "P(better)": fixed(judged.improvement, 2),
        "seeds": seeds,
        "pairs of cells": Md(f"{count(blocks)}{distinct}"),
    }


def is_marked(judged: Judged) -> bool:
    """Whether a difference is no larger than noise; of equivalent implementations themselves that is no news."""
    return judged.below_noise_floor and bool(judged.mean) and not judged.comparison.equivalent


def _by_task(view: View, conclusions: Conclusions) -> list[Block]:
    """Each effect under each combination of the conditions' values by itself, which has no verdict."""
    effects = [each for each in conclusions.effects if each.under]
    columns = list(dict.fromkeys(values for each in effects for values in each.under))
    if not 2 <= len(columns) <= MOST_TASKS:
        return []
    names = {values: f"{' · '.join(values)} (points)" for values in columns}
    lines = [
        {"axis": escape(view.axis_names[e.axis]), "value": escape(e.value)}
        | {names[values]: signed(e.under.get(values, math.nan), view.decimals + 1) for values in columns}
        for e in effects
    ]
    what = enumerated([escape(view.axis_names[axis]) for axis in view.task_axes])
    return [
        Heading(f"Effects by {what}", 4),
        table(lines, right=set(names.values()), caption=SEEDS_OF_EFFECTS if view.looking else ""),
    ]


def _other_margins(view: View, rows: Sequence[Row]) -> list[Block]:
    """The verdicts that half or twice the margin changes."""
    margin = view.study.info.suite.margin
    if not margin:
        return []
    comparisons = [row.judged.comparison for row in rows]
    words = {
        f"margin {points(size)}": [row.judged.words for row in rows] if size == margin else
        [j.words for j in judge(comparisons, margin=size, noise_floor=None, test=view.study.info.suite.test)]
        for size in (margin / 2, margin, 2 * margin)
    }  # fmt: skip
    lines = [
        {"comparison": escape(f"{row.name} ({row.context})")} | {head: escape(of[n]) for head, of in words.items()}
        for n, row in enumerate(rows)
        if len({of[n] for of in words.values()}) > 1
    ]
    if not lines:
        return [Md("No verdict changes with half or twice the margin.")]
    return [Heading("Verdicts that change with half or twice the margin", 4), table(lines[:MOST], right=set())]


NUMBERS = ["n", "planned", "failed", "blocks", "difference_points", "low", "high", "p", "p_permutation", "p_holm",
           "p_better", "verdict", "words", "below_noise_floor", "seeds_needed"]  # fmt: skip


def _every(view: View) -> Iterator[tuple[dict[str, object], Row]]:
    """Every comparison, after the columns that name it in tables of numbers."""
    for conclusions in view.conclusions:
        runs = conclusions.runs
        for row in rows_of(view, conclusions):
            compared = row.name if row.tested else row.judged.comparison.label
            letter = view.environments.letter(runs.environment)
            yield {"device": runs.device, "environment": letter, "family": row.family,
                   "comparison": compared}, row  # fmt: skip


def frame(view: View) -> pd.DataFrame:
    """Every comparison as numbers, a row each."""
    lines = []
    for named, row in _every(view):
        j, c = row.judged, row.judged.comparison
        values = (j.n, c.planned, c.failed, c.blocks, j.mean, j.interval.low, j.interval.high, j.p, j.p_permutation,
                  j.p_holm, j.improvement, j.verdict, j.words, j.below_noise_floor, j.seeds_needed)  # fmt: skip
        tested = {} if row.tested is None else {
            "expected": row.tested.hypothesis.expected, "published_points": row.tested.hypothesis.size,
            "outcome": row.tested.outcome, "small": view.small,
        }  # fmt: skip
        looked = {"look": j.look, "confidence": j.confidence} if view.looking else {}
        lines.append({**named, **dict(zip(NUMBERS, values, strict=True)), **tested, **looked})
    columns = ["device", "environment", "family", "comparison", *NUMBERS, "expected", "published_points", "outcome",
               "small", *(["look", "confidence"] if view.looking else [])]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)


def by_seed(view: View) -> pd.DataFrame:
    """The difference of every comparison in each seed."""
    lines = [
        {**named, "seed": seed, "difference_points": delta}
        for named, row in _every(view)
        for seed, delta in zip(row.judged.comparison.seeds, row.judged.comparison.deltas, strict=False)
    ]
    return pd.DataFrame(lines, columns=["device", "environment", "family", "comparison", "seed", "difference_points"])
