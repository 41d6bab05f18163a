"""Limits: what differs between studies, and what limits their comparison: a name, a condition and a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from vitbench.analysis.arms import Arm
from vitbench.analysis.conditions import Condition
from vitbench.analysis.side_by_side import SideBySide
from vitbench.analysis.sides import Timing
from vitbench.report.comparisons.comparison_tables import shared
from vitbench.report.origins import with_changes
from vitbench.report.sections.caveats import Caveat, in_words
from vitbench.report.sections.changes import Facts
from vitbench.report.text import Md, enumerated, escape, listed
from vitbench.store import TimeValues
from vitbench.wording import plural

MOST_NAMED = 8
MOST_BROKEN = 5  # Damaged files that are named

KINDS = {"machine": "machine", "software": "software", "data": "data", "recipe": "recipe", "protocol": "timing"}
"""Kinds of conditions, as a reader says them."""


def stated(found: SideBySide) -> Iterator[tuple[str, Md]]:
    """The name and the sentence of each limit that applies."""
    return in_words(LIMITS, found)


def letters(found: SideBySide, numbers: Iterable[int]) -> str:
    """Some arms by their letters."""
    return enumerated([found.arms[number].letter for number in numbers])


def differences(found: SideBySide) -> Md:
    """Conditions in which the arms differ, and those in which they do not."""
    if len({(arm.path.resolve(), arm.name) for arm in found.arms}) == 1:
        return Md(f"{letters(found, range(len(found.arms)))} are the same study.")
    apart = [each for each in found.conditions if each.differs]
    # What is not known of every arm is not known to be the same.
    other = {each.kind for each in found.conditions if each.differs or not each.known}
    same = ", ".join(name for kind, name in KINDS.items() if kind in {e.kind for e in found.conditions} - other)
    unknown = [number for number, arm in enumerate(found.arms) if arm.conditions is None]
    named = "; ".join(_values(found, each) for each in apart[:MOST_NAMED])
    more = f"; {len(apart) - MOST_NAMED} more below" if len(apart) > MOST_NAMED else ""
    parts = [
        f"**Different:** {named or 'nothing that the records know of'}{more}.",
        f"**Same:** {same}." if same else "",
        f"**Unknown:** machine and software of {letters(found, unknown)}." if unknown else "",
    ]
    return Md(" ".join(filter(None, parts)))


def _values(found: SideBySide, condition: Condition) -> str:
    """A condition with its values, each with the letters of the arms that have it."""
    groups: dict[str, list[int]] = {}
    for number, value in enumerate(condition.values):
        groups.setdefault(value or "unknown", []).append(number)
    parts = "; ".join(f"{escape(value)} in {letters(found, arms)}" for value, arms in groups.items())
    return f"**{escape(condition.name)}** ({parts})"


def _by_pair(facts: Callable[[SideBySide, int, int], Mapping[str, str]]) -> Callable[[SideBySide], Facts]:
    """Facts of pairs of arms (none where the first is empty), those that are alike stated once for all their pairs."""

    def grouped(found: SideBySide) -> Facts:
        groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for number, base in found.pairs:
            values = facts(found, number, base) if found.compared(number, base) else {}
            if any([*values.values()][:1]):
                groups.setdefault(tuple(values.items()), []).append(found.against(number, base))
        return ({"pairs": enumerated(pairs), **dict(items)} for items, pairs in groups.items())

    return grouped


def _of_arms(found: SideBySide, numbers: Sequence[int]) -> Facts:
    return [{"arms": letters(found, numbers)}] if numbers else []


def _arms(applies: Callable[[Arm], object]) -> Callable[[SideBySide], Facts]:
    """States which arms a sentence is about."""
    return lambda found: _of_arms(found, [number for number, arm in enumerate(found.arms) if applies(arm)])


def _unrecorded(found: SideBySide) -> Facts:
    compared = {number for pair in found.pairs if found.compared(*pair) for number in pair}
    return _of_arms(found, [n for n in sorted(compared) if _is_unrecorded(found.arms[n])])


def _is_unrecorded(arm: Arm) -> bool:
    return arm.conditions is None or bool((arm.trials["origin"].isna() & (arm.trials["state"] == "ok")).any())


def _apart(found: SideBySide, number: int, base: int, kind: str) -> Md:
    if found.arms[number].conditions is None or found.arms[base].conditions is None:
        return Md("")
    return listed([e.name for e in found.conditions if e.kind == kind and e.between(base, number)])


def _machines(found: SideBySide, number: int, base: int) -> Mapping[str, str]:
    also = ", and other software" if _apart(found, number, base, "software") else ""
    return {"what": _apart(found, number, base, "machine") if shared(found.timings) else "", "also": also}


def _software(found: SideBySide, number: int, base: int) -> Mapping[str, str]:
    machines = _machines(found, number, base)["what"]
    return {"what": "" if machines else _apart(found, number, base, "software")}


def _otherwise(found: SideBySide, number: int, base: int) -> Counter[str]:
    """In what cells were trained otherwise than in another arm → cells."""
    return Counter(name for row in found.cells if row.bases[number] == base for name in row.apart[number])


def _images(found: SideBySide, number: int, base: int) -> Mapping[str, str]:
    others = _otherwise(found, number, base)["data"]
    return {"cells": plural(others, "cell") if others else ""}


def _recipes(found: SideBySide, number: int, base: int) -> Mapping[str, str]:
    fields = _otherwise(found, number, base)
    return {"what": listed([f"{f} in {plural(n, 'cell')}" for f, n in fields.items() if f != "data"])}


def _studies(found: SideBySide) -> list[list[int]]:
    paths = [arm.path.resolve() for arm in found.arms]
    return [[number for number, each in enumerate(paths) if each == path] for path in dict.fromkeys(paths)]


def _arms_of_one_study(found: SideBySide, *, copies: bool) -> Facts:
    several = [arms for arms in _studies(found) if len(arms) > 1]
    parts = [letters(found, arms) for arms in several if (len({found.arms[n].name for n in arms}) == 1) == copies]
    return [{"arms": "; ".join(parts)}] if parts else []


def _set_aside(found: SideBySide) -> Facts:
    for arms in _studies(found):
        if damaged := found.arms[arms[0]].damaged:
            yield {"arms": letters(found, arms), "files": listed(damaged, MOST_BROKEN)}


def _protocols(found: SideBySide) -> Facts:
    if apart := [each for each in found.conditions if each.kind == "protocol" and each.apart]:
        yield {"what": "; ".join(_values(found, each) for each in apart)}


def _seeds(found: SideBySide) -> Sequence[int]:
    return [len(cell.runs) for row in shared(found.cells) for cell in row.cells if cell and cell.runs]


def _of_timings(found: SideBySide, applies: Callable[[Timing, TimeValues], object]) -> Facts:
    """The number of timings of each arm to which something applies."""
    parts = []
    for number, arm in enumerate(found.arms):
        ok = [(t, t.values) for row in shared(found.timings) if (t := row.timings[number]) and t.values]
        some = sum(bool(applies(*each)) for each in ok)
        parts += [f"{some} of {plural(len(ok), 'timing')} of {arm.letter}"] if some else []
    return [{"timings": ", ".join(parts)}] if parts else []


LIMITS: tuple[Caveat[SideBySide], ...] = (
    Caveat("unrecorded-machine", _unrecorded, "Machine and software were not recorded with every result: {arms}."),
    Caveat("other-machines", _by_pair(_machines),
          "{pairs}: **different machines or devices** ({what}{also}). A ratio of times compares machines with all that "
          "runs on them, not versions of the code."),
    Caveat("other-software", _by_pair(_software),
          "{pairs}: **different software** ({what}). A difference may be due to any of it."),
    Caveat("uncommitted-changes", _arms(lambda arm: with_changes(arm.trials).any()),
          "Results of {arms} come from a working tree with uncommitted changes."),
    Caveat("timings-not-in-turns", lambda found: bool(shared(found.timings)),
          "Timings of different studies are not interleaved as those within one study are: intervals include the noise "
          "within each, not what changed on the machine in between."),
    Caveat("matched-without-device", lambda found: len({arm.device for arm in found.arms}) > 1,
          "Trials have another id on another device: rows are matched by model, data, recipe and setting, without the "
          "device."),
    Caveat("one-study-in-arms", lambda found: _arms_of_one_study(found, copies=False),
          "One study, in an arm for each device and environment: {arms}."),
    Caveat("study-given-twice", lambda found: _arms_of_one_study(found, copies=True), "The same study: {arms}."),
    Caveat("unequal-timing-protocol", _protocols,
          "Timing protocols differ: {what}. Medians do not depend on it, widths of intervals do."),
    Caveat("other-images", _by_pair(_images),
          "{pairs}: {cells} trained or tested on **different images** or another split, and not compared by seed."),
    Caveat("other-recipe", _by_pair(_recipes),
          "{pairs}: **different recipes** ({what}). A difference in accuracy may be due to that."),
    Caveat("fallback-data", _arms(lambda arm: arm.info and arm.info.fallback is not None),
          "{arms}: the data are a fallback, not those that the suite names."),
    Caveat("one-seed", lambda found: min(_seeds(found), default=2) == 1,
          "**n = 1, no inference** for cells with one seed."),
    Caveat("drift-of-equal-seeds", lambda found: bool(_seeds(found)),
          "Equal seeds give equal initial weights, data order and augmentation everywhere; on another device or "
          "version sums are made in another order, so that equal runs drift apart. The test by seed allows for that."),
    Caveat("one-process", lambda found: _of_timings(found, lambda _, values: len(values.processes) == 1),
          "From a single process, so that variation between processes is unknown: {timings}."),
    Caveat("unstable-timings", lambda found: _of_timings(found, lambda timing, _: timing.unstable),
          "Unstable (marked ~; see the study's own report): {timings}."),
    Caveat("records-set-aside", _set_aside, "Set aside in {arms}: {files}."),
)  # fmt: skip
"""Every limit, in the order in which they are stated."""
