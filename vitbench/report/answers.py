"""Answers: the verdicts of a study as sentences, one for each axis, with every value of it by what was found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from vitbench.analysis.conclusions import Effect
from vitbench.analysis.multiplicity import seeds_for
from vitbench.analysis.verdicts import Judged, Verdict
from vitbench.report.accuracy import decimals_of
from vitbench.report.judgements import Place
from vitbench.report.markdown import Md, escape
from vitbench.report.numbers import plural, signed
from vitbench.report.view import View

AGAINST: Mapping[Verdict, str] = {
    "better": "than", "worse": "than", "equivalent": "to", "undecided": "against", "underpowered": "against",
    "invalid": "against",
}  # fmt: skip
"""Verdicts in the order in which a sentence has them → the word before what is compared with."""
SHOWN = frozenset({"better", "worse"})
MOST = 4
"""Values that a sentence names for each verdict before it counts the others."""
MOST_SENTENCES = 16

Named = Mapping[str, Judged]
"""What is compared, by name."""


def answers(view: View, place: Place, on: str) -> list[Md]:
    """The effects of axes, the interactions that are shown, and the cells against the first: a sentence each.

    Args:
        view: the study.
        place: whose runs.
        on: which these are, where there are others; begins with a space.
    """
    return [*_axes(view, place.effects, on), *_variants(view, place, on), *_interactions(view, place.interactions, on)]


def _axes(view: View, effects: Sequence[Effect], on: str) -> list[Md]:
    judged = [effect.judged for effect in effects]
    if judged and all(each.verdict == "underpowered" for each in judged):
        return [_powerless(view, judged, on, "effect of an axis")]
    by_axis: dict[str, list[Effect]] = {}
    for effect in effects:
        by_axis.setdefault(effect.axis, []).append(effect)
    strongest = sorted(by_axis, key=lambda axis: -max(_size(effect.judged) for effect in by_axis[axis]))
    said = [
        _sentence(view, f"Of {axis}{on}", {e.value: e.judged for e in by_axis[axis]}, by_axis[axis][0].against)
        for axis in strongest[:MOST_SENTENCES]
    ]
    rest = len(by_axis) - len(said)
    return [*said, *([Md(f"{plural(rest, 'further axis', 'further axes')}: see below.")] if rest else [])]


def _variants(view: View, place: Place, on: str) -> list[Md]:
    if not place.variants:
        return []
    if all(each.verdict == "underpowered" for each in place.variants):
        return [_powerless(view, place.variants, on, "difference from the first cell")]
    named = {each.comparison.label: each for each in place.variants}
    return [_sentence(view, f"Of the cells{on}", named, str(view.train["cell"].iloc[0]))]


def _interactions(view: View, found: Sequence[Judged], on: str) -> list[Md]:
    """Those that are shown; of the others how many there are."""
    shown = sorted((each for each in found if each.verdict in SHOWN), key=lambda each: -_size(each))
    if not found or all(each.verdict == "underpowered" for each in found):
        return []
    if not shown and len(found) == 1:
        only = found[0]
        return [Md(f"One interaction of axes was tested{on}, {escape(only.comparison.label)} "
                   f"({_number(view, only)}), and is not shown: **{only.verdict}**.")]  # fmt: skip
    if not shown:
        tally = Counter(each.verdict for each in found)
        some = [f"{tally[verdict]:,} **{verdict}**" for verdict in AGAINST if tally[verdict]]
        verdicts = ", ".join(some) if len(some) > 1 else f"all are **{found[0].verdict}**"
        return [Md(f"None of the {len(found):,} interactions of axes{on} is shown: {verdicts}.")]
    named = "; ".join(f"{escape(each.comparison.label)} ({_number(view, each)})" for each in shown[:MOST])
    more = f"; and {len(shown) - MOST:,} more" if len(shown) > MOST else ""
    counted = "The one interaction" if len(found) == 1 else f"{len(shown):,} of {len(found):,} interactions"
    verb = "is" if len(shown) == 1 else "are"
    return [Md(f"{counted} of axes{on} {verb} shown: {named}{more}.")]


def _powerless(view: View, judged: Sequence[Judged], on: str, what: str) -> Md:
    """What is said where no comparison of a family had a chance."""
    seeds = max(each.n for each in judged)
    said = f"No {what}{on} can be told from chance: {plural(seeds, 'seed')} of each cell cannot pass the test, "
    said += f"{seeds_for(len(judged))} could."
    known = [each for each in judged if math.isfinite(each.mean)]
    if not known:
        return Md(said)
    largest = max(known, key=_size)
    return Md(f"{said} The largest seen is {escape(largest.comparison.label)}, {_number(view, largest)}: "
              "**underpowered**.")  # fmt: skip


def _sentence(view: View, about: str, named: Named, against: str) -> Md:
    """What became of the values of one axis: those of one verdict together, the best first."""
    parts: list[str] = []
    for verdict, word in AGAINST.items():
        mine = {name: each for name, each in named.items() if each.verdict == verdict}
        order = sorted(mine, key=lambda name: -mine[name].mean if math.isfinite(mine[name].mean) else math.inf)
        if order:
            shown = [f"{escape(name)} ({_number(view, mine[name])})" for name in order[:MOST]]
            shown += [f"{len(order) - MOST:,} more"] if len(order) > MOST else []
            listed = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
            verb = "is" if len(order) == 1 else "are"
            parts.append(f"{listed} {verb} **{verdict}**" + (f" {word} {escape(against)}" if not parts else ""))
    return Md(f"{escape(about)}, {'; '.join(parts)}.")


def _number(view: View, judged: Judged) -> str:
    decimals = decimals_of(view) + 1
    if not math.isfinite(judged.mean):
        return "no seed"
    low, high = judged.interval.low, judged.interval.high
    span = f", {signed(low, decimals)} to {signed(high, decimals)}" if math.isfinite(low) else ""
    return f"{signed(judged.mean, decimals)} points{span}"


def _size(judged: Judged) -> float:
    return abs(judged.mean) if math.isfinite(judged.mean) else -1.0
