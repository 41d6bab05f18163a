"""A comparison in words: what differs between the studies, what came out, and what limits that."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from vitbench.analysis.comparison import EQUIVALENT, FASTER, IDENTICAL, OK_NOW, SLOWER, TOO_FEW, UNDECIDED, Change
from vitbench.analysis.conditions import Condition
from vitbench.analysis.side_by_side import SideBySide, verdict
from vitbench.report.comparisons.comparison_tables import shared, shared_cells
from vitbench.report.document import Block, Bullets, bullets
from vitbench.report.markdown import Md, bold, escape, listed
from vitbench.report.origins import with_changes
from vitbench.report.text import fixed, plural, signed

KINDS = {"machine": "machine", "software": "software", "data": "data", "recipe": "recipe", "protocol": "timing"}
"""Kinds of conditions, as the first sentence names them where none of a kind differs."""
MOST_SAID = 8
"""Conditions that the first sentence names; the table below has them all."""
MOST_BROKEN = 5
"""Damaged files that a caveat names."""
JUDGED = (SLOWER, FASTER, UNDECIDED, EQUIVALENT, IDENTICAL, TOO_FEW)
"""What a ratio comes to, in the order in which a reader asks."""

Pair = tuple[int, int]
"""Number of an arm, and of the one that it is compared with."""
Of = TypeVar("Of", Pair, str)


def opening(found: SideBySide) -> list[Block]:
    """What differs, in a sentence, then what came out of each arm against its counterpart."""
    blocks: list[Block] = [_differing(found)]
    said = [
        Md(f"**{what} {_of_pairs(found, pairs)}**{', each' if len(pairs) > 1 else ''}: {text}.")
        for what, of in (("Timings of", _timings), ("Test accuracy of", _cells))
        for text, pairs in _grouped((pair, of(found, *pair)) for pair in found.pairs).items()
    ]
    return [*blocks, bullets(said)] if said else blocks


def _grouped(said: Iterable[tuple[Of, Md | None]]) -> dict[Md, list[Of]]:
    """What is said, each time of all of which it is said; nothing of None."""
    groups: dict[Md, list[Of]] = {}
    for of, text in said:
        if text is not None:
            groups.setdefault(text, []).append(of)
    return groups


def _of_pairs(found: SideBySide, pairs: Sequence[Pair]) -> str:
    """Some arms, each with the one that it is compared with."""
    return _letters([found.against(*pair) for pair in pairs])


def _differing(found: SideBySide) -> Md:
    who = _letters([arm.letter for arm in found.arms])
    apart = [each for each in found.conditions if each.differs]
    told = {each.kind for each in found.conditions}
    # What is not known of every arm is not known to be the same.
    other = {each.kind for each in apart} | {each.kind for each in found.conditions if not each.known}
    same = [name for kind, name in KINDS.items() if kind in told - other]
    alike = f" The same: {', '.join(same)}." if same else ""
    unknown = [arm.letter for arm in found.arms if arm.environment is None]
    if unknown:
        alike += " Whether anything else differs, no record tells."
    if len({(arm.study.path.resolve(), arm.name) for arm in found.arms}) == 1:
        return Md(f"**{who} are the same study**, so that nothing can differ between them.")
    if not apart and unknown:
        return Md(f"**Of {_letters(unknown)} nothing is recorded of machine and software**, so that what differs "
                  f"between {who} may be due to either.{alike}")  # fmt: skip
    if not apart:
        return Md(f"**{who} differ in nothing that their records tell**, so that what differs between them is "
                  f"noise, or something that no record tells.{alike}")  # fmt: skip
    shown = "; ".join(_values(found, each) for each in apart[:MOST_SAID])
    more = f"; and {len(apart) - MOST_SAID} more, see below" if len(apart) > MOST_SAID else ""
    first = f"**Of {_letters(unknown)} nothing is recorded of machine and software.** " if unknown else ""
    return Md(f"{first}{who} differ in {shown}{more}.{alike}")


def _values(found: SideBySide, condition: Condition) -> str:
    """A condition with its values, each with the letters of the arms that have it."""
    groups: dict[str, list[str]] = {}
    for arm, value in zip(found.arms, condition.values, strict=True):
        groups.setdefault(value or "not known", []).append(arm.letter)
    parts = (f"{escape(value)} in {_letters(letters)}" for value, letters in groups.items())
    return f"{bold(escape(condition.name))} ({', '.join(parts)})"


def _letters(letters: Sequence[str]) -> str:
    return " and ".join([", ".join(letters[:-1]), letters[-1]] if len(letters) > 1 else letters)


def _timings(found: SideBySide, number: int, base: int) -> Md | None:
    """What became of the timings of an arm; None where none is compared."""
    every = found.changes(number, base).changes
    changes = [change for change in every if change.ratio]
    lost = _counted(Counter(change.word for change in every if change.lost))
    gained = sum(change.word == OK_NOW for change in every)
    others = f". **No longer ok: {lost}**" if lost else ""
    others += f". Ok in {found.arms[number].letter} alone: {gained}" if gained else ""
    if not changes:
        return Md(f"none is ok in both{others}") if every else None
    counts = Counter(change.word for change in changes)
    verdicts = _counted({word: counts[word] for word in JUDGED})
    if doubtful := sum(change.doubtful for change in changes):
        verdicts += f"; not to be relied on (~): {doubtful}"
    where = "; on other machines, see the caveats" if _machines_differ(found, number, base) else ""
    if counts[IDENTICAL] == len(changes):
        return Md(
            f"all {len(changes)} that are ok in both hold the same samples: one measurement, and not two{where}{others}"
        )
    ratios = [change.ratio.estimate for change in changes if change.ratio]
    many = len(ratios) > 1
    shown = f"{_two(min(ratios), max(ratios), 3)}, in the geometric mean {fixed(_geometric_mean(ratios), 3)}" if many \
        else fixed(ratios[0], 3)  # fmt: skip
    return Md(f"of {len(changes)} that are ok in both, {verdicts}. {'Ratios' if many else 'The ratio'} of latencies: "
              f"{shown}{_widest(changes)}{where}{others}")  # fmt: skip


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {escape(word)}" for word, n in counts.items() if n)


def _widest(changes: Sequence[Change]) -> str:
    """The interval that leaves most open, so that nobody takes how far ratios agree for how well each is known."""
    known = [change.ratio for change in changes if change.ratio and change.judged]
    if not known:
        return ""
    widest = max(known, key=lambda ratio: ratio.high / ratio.low)
    return f"; {'widest ' if len(known) > 1 else ''}95 % interval {_two(widest.low, widest.high, 3)}"


def _two(low: float, high: float, decimals: int) -> str:
    return f"{fixed(low, decimals)} to {fixed(high, decimals)}"


def _geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _cells(found: SideBySide, number: int, base: int) -> Md | None:
    """What became of the accuracies of an arm; None where no cell is compared."""
    rows = [row for row in found.cells if row.bases[number] == base]
    judged = [each for row in rows if (each := row.judged[number]) is not None]
    if not judged:
        return None
    counts = Counter(verdict(each) for each in judged)
    if counts[IDENTICAL] == len(judged):
        return Md(f"identical in every seed of {plural(len(judged), 'cell')}")
    names = (IDENTICAL, "better", "worse", "equivalent", "undecided", "underpowered", "invalid")
    verdicts = ", ".join(f"{counts[name]} {name}" for name in names if counts[name])
    means = [each.mean for each in judged if math.isfinite(each.mean)]
    ends = f"; differences from {signed(min(means), 2)} to {signed(max(means), 2)} points" if any(means) else ""
    return Md(f"seed by seed in {plural(len(judged), 'cell')}, {verdicts}{ends}")


def _machines_differ(found: SideBySide, number: int, base: int) -> bool:
    return any(each.kind == "machine" and each.between(base, number) for each in found.conditions)


def caveats(found: SideBySide) -> Bullets:
    """What limits the comparison, one sentence each."""
    said = [
        *_about_conditions(found), *_about_matching(found), *_about_training(found), *_about_samples(found),
        *_about_records(found),
    ]  # fmt: skip
    return bullets(list(dict.fromkeys(said)))


def _about_conditions(found: SideBySide) -> list[Md]:
    timed = bool(shared(found.timings))
    pairs = [pair for pair in found.pairs if found.compared(*pair)]
    unknown = [arm.letter for n, arm in enumerate(found.arms)
               if arm.environment is None and any(n in pair for pair in pairs)]  # fmt: skip
    said = [Md(f"On what {_letters(unknown)} ran was not recorded.")] if unknown else []
    said += [Md(f"{_of_pairs(found, of)}: {text}.")
             for text, of in _grouped((pair, _apart(found, *pair, timed=timed)) for pair in pairs).items()]  # fmt: skip
    dirty = [arm.letter for arm in found.arms if with_changes(arm.trials).any()]
    if dirty:
        said.append(Md(f"Results of {', '.join(dirty)} came from a working tree with changes that no commit holds."))
    if timed:
        said.append(Md("Timings of different studies are not made in turns, round by round, as those within one study "
                       "are: an interval holds the noise within each, and not what changed on the machine "
                       "in between."))  # fmt: skip
    return said


def _apart(found: SideBySide, number: int, base: int, *, timed: bool) -> Md | None:
    """In what machine and software two arms differ, and what that means; None where they do not, or nobody knows."""
    if found.arms[number].environment is None or found.arms[base].environment is None:
        return None
    apart = {kind: [each.name for each in found.conditions if each.kind == kind and each.between(base, number)]
             for kind in ("machine", "software")}  # fmt: skip
    if apart["machine"] and timed:
        also = ", and the software is another too" if apart["software"] else ""
        return Md(f"**other machines or devices** ({listed(apart['machine'], MOST_SAID)}{also}). A ratio of times is "
                  "one of machines with all that runs on them, and says nothing of versions of the code")  # fmt: skip
    if apart["software"]:
        return Md(f"**other software** ({listed(apart['software'], MOST_SAID)}) on machines of one kind. A difference "
                  "may be due to any of it")  # fmt: skip
    return None


def _about_matching(found: SideBySide) -> list[Md]:
    said = []
    devices = {arm.device for arm in found.arms}
    if len(devices) > 1:
        said.append(Md("A trial on one device has another identity than on another: rows are matched by model, data, "
                       "recipe and setting **with the device left out**."))  # fmt: skip
    parts: list[str] = []
    copies: list[str] = []
    for path in dict.fromkeys(arm.study.path.resolve() for arm in found.arms):
        arms = [arm for arm in found.arms if arm.study.path.resolve() == path]
        if len(arms) > 1:
            (parts if len({arm.name for arm in arms}) > 1 else copies).append(_letters([arm.letter for arm in arms]))
    if parts:
        said.append(Md(f"One study, in an arm for each device and set of conditions: {'; '.join(parts)}."))
    if copies:
        said.append(Md(f"The same study: {'; '.join(copies)}."))
    protocols = [each for each in found.conditions if each.kind == "protocol" and each.apart]
    if protocols:
        named = "; ".join(_values(found, each) for each in protocols)
        said.append(Md(f"How long is timed is not the same everywhere: {named}. Medians do not depend on it, the "
                       "widths of intervals do."))  # fmt: skip
    return said


def _about_training(found: SideBySide) -> list[Md]:
    data = _grouped((pair, _other_images(found, *pair)) for pair in found.pairs)
    said = [Md(f"{_of_pairs(found, pairs)}: {text}.") for text, pairs in data.items()]
    recipes = _grouped((pair, _other_recipe(found, *pair)) for pair in found.pairs)
    said += [Md(f"{_of_pairs(found, pairs)}: {text}.") for text, pairs in recipes.items()]
    fallback = [arm.letter for arm in found.arms if arm.study.info.fallback is not None]
    if fallback:
        said.append(Md(f"{', '.join(fallback)}: the data are a fallback, and not those that the suite names."))
    seeds = [len(cell.runs) for row in shared_cells(found.cells) for cell in row.cells if cell and cell.runs]
    if seeds and min(seeds) == 1:
        said.append(Md("**n = 1, no inference** for cells with one seed: nothing tells luck from effect."))
    if seeds:
        said.append(Md("The same seed gives the same initial weights, data order and augmentation everywhere; sums are "
                       "made in another order on another device or by another version, so that equal runs still "
                       "drift apart. The seed by seed test allows for that."))  # fmt: skip
    return said


def _other_images(found: SideBySide, number: int, base: int) -> Md | None:
    others = sum("data" in row.apart[number] for row in found.cells if row.bases[number] == base)
    if not others:
        return None
    return Md(f"{plural(others, 'cell')} trained or tested on **other images** or another split. Their accuracies "
              "stand side by side, and are not compared seed by seed")  # fmt: skip


def _other_recipe(found: SideBySide, number: int, base: int) -> Md | None:
    rows = [row for row in found.cells if row.bases[number] == base]
    recipes = Counter(field for row in rows for field in row.apart[number] if field != "data")
    if not recipes:
        return None
    named = listed([f"{field} in {plural(n, 'cell')}" for field, n in recipes.items()], MOST_SAID)
    return Md(f"**another recipe** ({named}). A difference in accuracy may be due to that")


def _about_samples(found: SideBySide) -> list[Md]:
    single: list[tuple[str, Md | None]] = []
    unstable: list[tuple[str, Md | None]] = []
    for number, arm in enumerate(found.arms):
        ok = [t for row in shared(found.timings) if (t := row.timings[number]) is not None and t.values is not None]
        counted = (
            (single, sum(len(t.values.processes) == 1 for t in ok if t.values)),
            (unstable, sum(bool(t.unstable) for t in ok)),
        )
        for kind, number_of in counted:
            kind.append((arm.letter, Md(f"{number_of} of {plural(len(ok), 'timing')}") if number_of else None))
    said = []
    if alone := _of_letters(_grouped(single)):
        said.append(Md(f"From one process, whose luck no interval holds: {alone}."))
    if marked := _of_letters(_grouped(unstable)):
        said.append(Md(f"Not to be relied on, marked ~: {marked}; the study's own report says why."))
    return said


def _of_letters(groups: Mapping[Md, Sequence[str]]) -> str:
    """How many timings of each arm: 1 of 4 timings of B and D each, 1 of 8 timings of E."""
    return ", ".join(f"{text} of {_letters(letters)}{' each' if len(letters) > 1 else ''}"
                     for text, letters in groups.items())  # fmt: skip


def _about_records(found: SideBySide) -> list[Md]:
    said = []
    for path in dict.fromkeys(arm.study.path.resolve() for arm in found.arms):
        arms = [arm for arm in found.arms if arm.study.path.resolve() == path]
        if damaged := arms[0].study.damaged:
            letters = ", ".join(arm.letter for arm in arms)
            said.append(Md(f"Set aside in {letters}: {listed(damaged, MOST_BROKEN)}."))
    return said
