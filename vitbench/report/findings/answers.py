"""Answers: the verdicts of a study as sentences, one for each axis, with every value of it by what was found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from vitbench.analysis.conclusions import Effect
from vitbench.analysis.multiplicity import ALPHA, seeds_for
from vitbench.analysis.verdicts import BY_LESS, Judged
from vitbench.report.accuracy import decimals_of
from vitbench.report.findings.judgements import Place
from vitbench.report.findings.legends import points
from vitbench.report.markdown import Md, escape
from vitbench.report.numbers import enumerated, fixed, plural, signed
from vitbench.report.view import View

AGAINST: Mapping[str, str] = {
    "better": "than", "worse": "than", f"better, {BY_LESS}": "than", f"worse, {BY_LESS}": "than", "equivalent": "to",
    "undecided": "against", "underpowered": "against", "invalid": "against",
}  # fmt: skip
"""Verdicts in words, in the order in which a sentence has them → the word before what is compared with."""
SHOWN = frozenset({"better", "worse"})
MOST = 4
"""Values that a sentence names for each verdict before it counts the others."""
MOST_INTERACTIONS = 2
ENGLISH = frozenset(("all", "any", "both", "first", "last", "neither", "no", "none", "other", "same", "true", "false"))
"""Values that a reader would take for words of the sentence in which they stand."""
MOST_SENTENCES = 16

Named = Mapping[str, Judged]
"""What is compared, by name."""


def opening(view: View, place: Place, on: str) -> list[Md]:
    """The axes whose every comparison is a claim of the suite, without numbers: the sentences on claims have them."""
    if _are_powerless(place.effects):
        return []
    return [
        _sentence(view, f"{escape(view.axis_names[axis])}{on}: ", _named(effects), effects[0].against, brief=True)
        for axis, effects in _by_axis(place.effects).items()
        if _is_claimed(place, effects)
    ]


def answers(view: View, place: Place, on: str) -> list[Md]:
    """The effects of the other axes, the cells against the first, the interactions that are shown: a sentence each.

    Args:
        view: the study.
        place: whose runs.
        on: which these are, where there are others; begins with a space.
    """
    return [
        *_axes(view, place, on), *_variants(view, place, on), *_interactions(view, place.interactions, on),
        *_to_decide(view, place, on),
    ]  # fmt: skip


def number(view: View, judged: Judged) -> str:
    """A difference with its interval."""
    if not math.isfinite(judged.mean):
        return "no seed"
    span = _span(view, judged)
    return f"{signed(judged.mean, decimals_of(view) + 1)} points{f', {span}' if span else ''}"


def _to_decide(view: View, place: Place, on: str) -> list[Md]:
    """How many seeds would decide what the suite asks and the runs leave open."""
    asked = [*(t.judged for t in place.claims), *(e.judged for e in place.effects), *place.variants]
    left = {
        j.comparison.key or j.comparison.label: j
        for j in asked
        if j.verdict in {"undecided", "underpowered"} and j.n > 1  # a single seed has no spread
    }
    if not (needed := [j.seeds_needed for j in left.values()]):
        return []
    several = len(left) > 1
    which = f"{len(left):,} comparisons are" if several else "One comparison is"
    seeds = [n for n in needed if n is not None]
    many = str(max(seeds)) if len(seeds) == len(needed) else "more than 1,000"
    planned = max(j.comparison.planned for j in left.values())
    size = "the differences as large as they look" if several else "the difference as large as it looks"
    return [
        Md(f"{which} open{on}: were {size}, **{many} seeds** would decide {'each' if several else 'it'} 4 times out of "
           f"5; this study has {planned}.")
    ]  # fmt: skip


def _by_axis(effects: Sequence[Effect]) -> dict[str, list[Effect]]:
    """Axis → its effects, the axis with the strongest first."""
    found: dict[str, list[Effect]] = {}
    for effect in effects:
        found.setdefault(effect.axis, []).append(effect)
    return dict(sorted(found.items(), key=lambda item: -max(_size(effect.judged) for effect in item[1])))


def _named(effects: Sequence[Effect]) -> dict[str, Judged]:
    return {effect.value: effect.judged for effect in effects}


def _is_claimed(place: Place, effects: Sequence[Effect]) -> bool:
    """Whether the effects of an axis are all put to the test as claims, over the whole grid."""
    facts = [tested.fact for tested in place.claims if not tested.fact.where]
    claimed = {(fact.axis, frozenset((fact.value, fact.against))) for fact in facts}
    return all((effect.axis, frozenset((effect.value, effect.against))) in claimed for effect in effects)


def _are_powerless(effects: Sequence[Effect]) -> bool:
    return bool(effects) and all(effect.judged.verdict == "underpowered" for effect in effects)


def _axes(view: View, place: Place, on: str) -> list[Md]:
    if _are_powerless(place.effects):
        return [_powerless(view, [effect.judged for effect in place.effects], on, "effect of an axis")]
    found = [effects for effects in _by_axis(place.effects).values() if not _is_claimed(place, effects)]
    said = [_of_axis(view, effects, on) for effects in found[:MOST_SENTENCES]]
    rest = len(found) - len(said)
    return [*said, *([Md(f"{plural(rest, 'further axis', 'further axes')}: see below.")] if rest else [])]


def _of_axis(view: View, effects: Sequence[Effect], on: str) -> Md:
    """One axis; where a mean is over conditions under which the effect is not the same, also its ends."""
    name = f"{escape(view.axis_names[effects[0].axis])}{on}"
    over = max(len(effect.under) for effect in effects)
    if over < 2:
        return _sentence(view, f"{name}: ", _named(effects), effects[0].against)
    what = " and ".join(escape(view.axis_names[axis]) for axis in view.conditions)
    said = _sentence(view, f"{name}, a mean over {over} values of {what}: ", _named(effects), effects[0].against)
    decimals, ends = decimals_of(view) + 1, []
    for effect in effects[:MOST]:
        if len(effect.under) > 1:
            order = sorted(effect.under, key=lambda values: abs(effect.under[values]))
            each = [f"{signed(effect.under[v], decimals)} ({escape(' · '.join(v))})" for v in (order[0], order[-1])]
            ends.append(f"{escape(effect.value)} from {' to '.join(each)}")
    return Md(f"{said} By {what}: {'; '.join(ends)}.")


def _variants(view: View, place: Place, on: str) -> list[Md]:
    if not place.variants:
        return []
    if all(each.verdict == "underpowered" for each in place.variants):
        return [_powerless(view, place.variants, on, "difference from the first cell")]
    named = {each.comparison.label: each for each in place.variants}
    return [_sentence(view, f"O{on[2:]}: " if on else "", named, view.first_cell)]


def _interactions(view: View, found: Sequence[Judged], on: str) -> list[Md]:
    """Those that are shown; of the others how many there are."""
    shown = sorted((each for each in found if each.verdict in SHOWN), key=lambda each: -_size(each))
    if not found or all(each.verdict == "underpowered" for each in found):
        return []
    if not shown and len(found) == 1:
        return [Md(f"One interaction was tested{on}: {_interaction(view, found[0])}: "
                   f"**{found[0].words}**.")]  # fmt: skip
    if not shown:
        tally = Counter(each.words for each in found)
        margin = view.study.info.suite.margin
        if margin and set(tally) == {"equivalent"}:
            return [Md(f"None of the {len(found):,} interactions{on} exceeds the margin of {points(margin)}: all are "
                       "**equivalent**.")]  # fmt: skip
        some = [f"{tally[words]:,} **{words}**" for words in AGAINST if tally[words]]
        verdicts = "; ".join(some) if len(some) > 1 else f"all are **{found[0].words}**"
        beyond = "chance and the margin" if margin else "chance"
        return [Md(f"None of the {len(found):,} interactions{on} is beyond {beyond}: {verdicts}.")]
    named = "; ".join(_interaction(view, each) for each in shown[:MOST_INTERACTIONS])
    more = f"; for {len(shown) - MOST_INTERACTIONS:,} more see Interactions" if len(shown) > MOST_INTERACTIONS else ""
    counted = "The one interaction" if len(found) == 1 else f"{len(shown):,} of {len(found):,} interactions"
    verb = "is" if len(shown) == 1 else "are"
    return [Md(f"{counted}{on} {verb} beyond chance: {named}{more}.")]


def _interaction(view: View, judged: Judged) -> str:
    """An interaction in words: how the effect of one axis differs with the value of the other, a condition if it is."""
    one, other = judged.comparison.factors
    if one[0] in view.conditions:  # it is symmetric
        one, other = other, one
    (axis, value, against), (by, here, there) = one, other
    return (
        f"the effect of {escape(value)} against {escape(against)} ({escape(view.axis_names[axis])}) is "
        f"{_amount(view, judged)} {'higher' if judged.mean > 0 else 'lower'} with {escape(here)} than with "
        f"{escape(there)} ({escape(view.axis_names[by])}{_ranging(view, judged, '; ')})"
    )


def _powerless(view: View, judged: Sequence[Judged], on: str, what: str) -> Md:
    """What is said where no comparison of a kind had a chance."""
    seeds, family = max(each.n for each in judged), judged[0].family
    fewest = seeds_for(min(each.burden for each in judged))
    corrected = f" after correction for {family:,} comparisons" if family > 1 else ""
    said = f"No {what}{on} can be told from chance: with {plural(seeds, 'seed')} "
    if seeds < fewest or not view.study.info.suite.margin:
        said += f"none can reach p ≤ {ALPHA:g}{corrected}, whatever its size; {fewest} seeds could."
    else:
        size = points(view.study.info.suite.margin)
        said += f"one as large as the margin, {size}, would be found less than half of the time{corrected}."
    known = [each for each in judged if math.isfinite(each.mean)]
    if not known:
        return Md(said)
    largest = max(known, key=_size)
    factors = largest.comparison.factors
    named = "; ".join(f"{view.axis_names[axis]}: {value} against {against}" for axis, value, against in factors)
    named = named or f"{largest.comparison.label} against {view.first_cell}"
    return Md(f"{said} The largest seen is that of {escape(named)} ({number(view, largest)}): **underpowered**.")


def _sentence(view: View, begin: str, named: Named, against: str, *, brief: bool = False) -> Md:
    """What became of some values: those of one verdict together, the best first; ``brief`` without any number."""
    parts: list[str] = []
    for words in AGAINST:
        if mine := {name: each for name, each in named.items() if each.words == words}:
            parts.append(_group(view, words, mine, "" if parts else _called(against), brief=brief))
    return Md(f"{begin}{'; '.join(parts)}.")


def _group(view: View, words: str, group: Named, against: str, *, brief: bool) -> str:
    """Values of one verdict in words; ``against`` is empty where it has been said."""
    order = sorted(group, key=lambda name: -group[name].mean if math.isfinite(group[name].mean) else math.inf)
    verb = "is" if len(order) == 1 else "are"
    margin = f" of {points(view.study.info.suite.margin or 0.0)}," if words.endswith(BY_LESS) else ""
    plain = f"{verb} **{words}**{f'{margin} {AGAINST[words]} {against}' if against else margin.rstrip(',')}"
    only = group[order[0]] if len(order) == 1 and not brief else None
    if only and words in SHOWN:
        return f"{_called(order[0])} {plain} by {_amount(view, only)}{_ranging(view, only, ' (', ')')}"
    shown = [_called(name) if brief else f"{_called(name)} ({number(view, group[name])})" for name in order[:MOST]]
    shown += [f"{len(order) - MOST:,} more"] if len(order) > MOST else []
    return f"{enumerated(shown)} {plain}"


def _called(value: str) -> str:
    """A value in a sentence: one that is a word of English there stands in quotation marks ("none" is worse)."""
    return f'"{escape(value)}"' if value in ENGLISH else escape(value)


def _amount(view: View, judged: Judged) -> str:
    return f"{fixed(abs(judged.mean), decimals_of(view) + 1)} points"


def _ranging(view: View, judged: Judged, before: str, after: str = "") -> str:
    """The interval of an amount that is told without its sign: without theirs, too, where both ends are on its side."""
    low, high, decimals = judged.interval.low, judged.interval.high, decimals_of(view) + 1
    if not math.isfinite(low):
        return ""
    if low > 0 or high < 0:
        near, far = sorted((abs(low), abs(high)))
        return f"{before}{fixed(near, decimals)} to {fixed(far, decimals)}{after}"
    return f"{before}{_span(view, judged)}{after}"


def _span(view: View, judged: Judged) -> str:
    low, high, decimals = judged.interval.low, judged.interval.high, decimals_of(view) + 1
    return f"{signed(low, decimals)} to {signed(high, decimals)}" if math.isfinite(low) else ""


def _size(judged: Judged) -> float:
    return abs(judged.mean) if math.isfinite(judged.mean) else -1.0
