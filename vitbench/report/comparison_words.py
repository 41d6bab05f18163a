"""A comparison in words: what differs between the studies, what came out, and what limits that."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from vitbench.analysis.comparison import FASTER, SLOWER, UNCHANGED
from vitbench.analysis.conditions import Condition
from vitbench.analysis.side_by_side import IDENTICAL, SideBySide, verdict
from vitbench.report.comparison_tables import shared, shared_cells
from vitbench.report.markdown import Md, bold, bullets, escape, listed
from vitbench.report.numbers import fixed, plural, signed

KINDS = {"machine": "machine", "software": "software", "data": "data", "recipe": "recipe", "protocol": "timing"}
"""Kinds of conditions, as the first sentence names them where none of a kind differs."""
MOST_SAID = 8
"""Conditions that the first sentence names; the table below has them all."""
MOST_BROKEN = 5
"""Damaged files that a caveat names."""


def opening(found: SideBySide) -> list[Md]:
    """What differs, in a sentence, then what came out of each arm against its counterpart."""
    blocks = [_differing(found)]
    said = [line for pair in found.pairs for line in (*_timings(found, *pair), *_cells(found, *pair))]
    return [*blocks, bullets(said)] if said else blocks


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


def _timings(found: SideBySide, number: int, base: int) -> list[Md]:
    changes = found.changes(number, base).changes
    ratios = [change.ratio.estimate for change in changes if change.ratio]
    if not ratios:
        return []
    counts = Counter(change.word for change in changes)
    verdicts = ", ".join(f"{counts[word]} {word}" for word in (FASTER, SLOWER, UNCHANGED) if counts[word])
    others = sum(counts.values()) - sum(counts[word] for word in (FASTER, SLOWER, UNCHANGED))
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    ends = f", from {fixed(min(ratios), 3)} to {fixed(max(ratios), 3)}" if len(ratios) > 1 else ""
    where = "; on other machines, see the caveats" if _machines_differ(found, number, base) else ""
    over = f"{found.arms[number].letter}/{found.arms[base].letter}"
    return [
        Md(
            f"**Timings of {found.against(number, base)}**: of {len(ratios)} that are ok in both, "
            f"{verdicts or 'none can be judged'}{f' ({others} others)' if others else ''}. Latency {over} is "
            f"{fixed(mean, 3)} in the geometric mean{ends}{where}."
        )
    ]


def _cells(found: SideBySide, number: int, base: int) -> list[Md]:
    rows = [row for row in found.cells if row.bases[number] == base]
    judged = [each for row in rows if (each := row.judged[number]) is not None]
    if not judged:
        return []
    counts = Counter(verdict(each) for each in judged)
    names = (IDENTICAL, "better", "worse", "equivalent", "undecided", "underpowered", "invalid")
    verdicts = ", ".join(f"{counts[name]} {name}" for name in names if counts[name])
    means = [each.mean for each in judged if math.isfinite(each.mean)]
    ends = f", cell by cell from {signed(min(means), 2)} to {signed(max(means), 2)} points" if any(means) else ""
    return [
        Md(f"**Test accuracy of {found.against(number, base)}**, seed by seed in {plural(len(judged), 'cell')}: "
           f"{verdicts}{ends}.")
    ]  # fmt: skip


def _machines_differ(found: SideBySide, number: int, base: int) -> bool:
    return any(each.kind == "machine" and each.between(base, number) for each in found.conditions)


def caveats(found: SideBySide) -> Md:
    """What limits the comparison, one sentence each."""
    said = [
        *_about_conditions(found), *_about_matching(found), *_about_training(found), *_about_samples(found),
        *_about_records(found),
    ]  # fmt: skip
    return bullets(list(dict.fromkeys(said)))


def _about_conditions(found: SideBySide) -> list[Md]:
    said = []
    timed = bool(shared(found.timings))
    for number, base in found.pairs:
        arm, first = found.arms[number], found.arms[base].letter
        apart = {kind: [each.name for each in found.conditions if each.kind == kind and each.between(base, number)]
                 for kind in ("machine", "software")}  # fmt: skip
        unknown = [each.letter for each in (arm, found.arms[base]) if each.environment is None]
        if unknown:
            said.append(Md(f"On what {_letters(unknown)} ran was not recorded."))
        elif apart["machine"] and timed:
            also = ", and the software is another too" if apart["software"] else ""
            said.append(Md(f"{arm.letter} and {first} ran on **other machines or devices** "
                           f"({listed(apart['machine'], MOST_SAID)}{also}): their ratio of times is one of machines "
                           "with all that runs on them, and says nothing of versions of the code."))  # fmt: skip
        elif apart["software"]:
            said.append(Md(f"{arm.letter} and {first} ran **other software** "
                           f"({listed(apart['software'], MOST_SAID)}) on machines of one kind: a difference may be "
                           "due to any of it."))  # fmt: skip
    dirty = [arm.letter for arm in found.arms if (arm.trials["dirty"].astype(object) == True).any()]  # noqa: E712  # it may be missing
    if dirty:
        said.append(Md(f"Results of {', '.join(dirty)} came from a working tree with changes that no commit holds."))
    if timed:
        said.append(Md("Timings of different studies are not made in turns, round by round, as those within one study "
                       "are: an interval holds the noise within each, and not what changed on the machine "
                       "in between."))  # fmt: skip
    return said


def _about_matching(found: SideBySide) -> list[Md]:
    said = []
    devices = {arm.device for arm in found.arms}
    if len(devices) > 1:
        said.append(Md("A trial on one device has another identity than on another: rows are matched by model, data, "
                       "recipe and setting **with the device left out**."))  # fmt: skip
    studies = Counter(arm.study.path.resolve() for arm in found.arms)
    for path, number in studies.items():
        letters = ", ".join(arm.letter for arm in found.arms if arm.study.path.resolve() == path)
        if number > 1:
            several = len({arm.name for arm in found.arms if arm.letter in letters.split(", ")}) > 1
            why = "one study, in a column for each device and set of conditions" if several else "the same study"
            said.append(Md(f"{letters} are {why}."))
    protocols = [each for each in found.conditions if each.kind == "protocol" and each.apart]
    if protocols:
        named = "; ".join(_values(found, each) for each in protocols)
        said.append(Md(f"How long is timed is not the same everywhere: {named}. Medians do not depend on it, the "
                       "widths of intervals do."))  # fmt: skip
    return said


def _about_training(found: SideBySide) -> list[Md]:
    said = []
    for number, base in found.pairs:
        rows = [row for row in found.cells if row.bases[number] == base]
        pair = f"{found.arms[number].letter} and {found.arms[base].letter}"
        other_data = [row for row in rows if "data" in row.apart[number]]
        recipes = Counter(field for row in rows for field in row.apart[number] if field != "data")
        if other_data:
            were = "was" if len(other_data) == 1 else "were"
            said.append(Md(f"{plural(len(other_data), 'cell')} of {pair} {were} trained or tested on **other images** "
                           "or another split: their accuracies stand side by side, and are not compared "
                           "seed by seed."))  # fmt: skip
        if recipes:
            named = listed([f"{field} in {plural(n, 'cell')}" for field, n in recipes.items()], MOST_SAID)
            said.append(Md(f"**The recipe** of {pair} differs: {named}. A difference in accuracy may be due to "
                           "that."))  # fmt: skip
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


def _about_samples(found: SideBySide) -> list[Md]:
    said = []
    for number, arm in enumerate(found.arms):
        ok = [t for row in shared(found.timings) if (t := row.timings[number]) is not None and t.values is not None]
        single = sum(len(t.values.processes) == 1 for t in ok if t.values)
        unstable = sum(bool(t.unstable) for t in ok)
        if single:
            verb = "comes" if single == 1 else "come"
            said.append(Md(f"{plural(single, 'timing')} of {arm.letter} {verb} from one process, whose luck no "
                           "interval holds."))  # fmt: skip
        if unstable:
            verb = "is" if unstable == 1 else "are"
            said.append(Md(f"{unstable} of {plural(len(ok), 'timing')} of {arm.letter} {verb} not to be relied on, "
                           "marked ~; its own report says why."))  # fmt: skip
    return said


def _about_records(found: SideBySide) -> list[Md]:
    said = []
    for path in dict.fromkeys(arm.study.path.resolve() for arm in found.arms):
        arms = [arm for arm in found.arms if arm.study.path.resolve() == path]
        if damaged := arms[0].study.damaged:
            letters = ", ".join(arm.letter for arm in arms)
            said.append(Md(f"Set aside in {letters}: {listed(damaged, MOST_BROKEN)}."))
    return said
