"""Limits: what differs between studies, and what limits their comparison: a name, a condition and a sentence each."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from vitbench.analysis.arms import Arm
from vitbench.analysis.conditions import Condition, Kind
from vitbench.analysis.side_by_side import SideBySide, shared
from vitbench.analysis.sides import Timing
from vitbench.report.groups import with_changes
from vitbench.report.sections.caveats import Caveat, in_words
from vitbench.report.sections.changes import Facts
from vitbench.report.text import Md, enumerated, escape, listed
from vitbench.store import TimeValues
from vitbench.wording import plural

MOST_NAMED = 8
MOST_BROKEN = 5  # Damaged files that are named

KINDS = {"machine": "machine", "software": "software", "data": "data", "recipe": "recipe", "protocol": "timing"}
"""Kinds of conditions, as a reader says them."""


def stated(comparison: SideBySide) -> Iterator[tuple[str, Md]]:
    """The name and the sentence of each limit that applies."""
    return in_words(LIMITS, comparison)


def letters(comparison: SideBySide, numbers: Iterable[int]) -> str:
    """Some arms by their letters."""
    return enumerated([comparison.arms[number].letter for number in numbers])


def differences(comparison: SideBySide) -> Md:
    """Conditions in which the arms differ, and those in which they do not."""
    if len({(arm.path.resolve(), arm.name) for arm in comparison.arms}) == 1:
        return Md(f"{letters(comparison, range(len(comparison.arms)))} are the same study.")
    apart = [each for each in comparison.conditions if each.differs]
    # What is not known of every arm is not known to be the same.
    other = {each.kind for each in comparison.conditions if each.differs or not each.known}
    same = ", ".join(name for kind, name in KINDS.items() if kind in {e.kind for e in comparison.conditions} - other)
    unknown = [number for number, arm in enumerate(comparison.arms) if arm.platform is None]
    named = "; ".join(_values(comparison, each) for each in apart[:MOST_NAMED])
    more = f"; {len(apart) - MOST_NAMED} more below" if len(apart) > MOST_NAMED else ""
    parts = [
        f"**Different:** {named or 'nothing that the records know of'}{more}.",
        f"**Same:** {same}." if same else "",
        f"**Unknown:** machine and software of {letters(comparison, unknown)}." if unknown else "",
    ]
    return Md(" ".join(filter(None, parts)))


def _values(comparison: SideBySide, condition: Condition) -> str:
    """A condition with its values, each with the letters of the arms that have it."""
    groups: dict[str, list[int]] = {}
    for number, value in enumerate(condition.values):
        groups.setdefault(value or "unknown", []).append(number)
    parts = "; ".join(f"{escape(value)} in {letters(comparison, arms)}" for value, arms in groups.items())
    return f"**{escape(condition.name)}** ({parts})"


def _of_arms(comparison: SideBySide, numbers: Sequence[int]) -> Facts:
    return [{"arms": letters(comparison, numbers)}] if numbers else []


def _arms(applies: Callable[[Arm], object]) -> Callable[[SideBySide], Facts]:
    """States which arms a sentence is about."""
    return lambda comparison: _of_arms(comparison, [n for n, arm in enumerate(comparison.arms) if applies(arm)])


def _unrecorded(comparison: SideBySide) -> Facts:
    compared = {number for pair in comparison.pairs if comparison.compared(*pair) for number in pair}
    return _of_arms(comparison, [n for n in sorted(compared) if _is_unrecorded(comparison.arms[n])])


def _is_unrecorded(arm: Arm) -> bool:
    return arm.platform is None or bool((arm.trials["environment"].isna() & (arm.trials["state"] == "ok")).any())


def _differing(comparison: SideBySide, kind: Kind) -> Facts:
    """Conditions in which an arm differs from one that it is compared with; only where both platforms are recorded."""
    pairs = [pair for pair in comparison.pairs if comparison.compared(*pair)]
    known = [pair for pair in pairs if all(comparison.arms[number].platform for number in pair)]
    names = [each.name for each in comparison.conditions if each.kind == kind
             and any(len({each.values[number] for number in pair} - {""}) > 1 for pair in known)]  # fmt: skip
    return [{"what": listed(names)}] if names else []


def _otherwise(comparison: SideBySide, *, images: bool) -> Facts:
    """In what arms trained cells otherwise than those that they are compared with, in images or in a recipe: a fact of
    those that are alike in that."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for number in range(len(comparison.arms)):
        fields = Counter(f for row in comparison.cells for f in row.apart[number] if (f == "data") == images)
        counts = {name: plural(cells, "cell") for name, cells in fields.items()}
        what = tuple(cells if images else f"{name} in {cells}" for name, cells in counts.items())
        alike.setdefault(what, []).append(number)
    return [{"arms": letters(comparison, numbers), "what": listed(what)} for what, numbers in alike.items() if what]


def _studies(comparison: SideBySide) -> list[list[int]]:
    paths = [arm.path.resolve() for arm in comparison.arms]
    return [[number for number, each in enumerate(paths) if each == path] for path in dict.fromkeys(paths)]


def _arms_of_one_study(comparison: SideBySide, *, copies: bool) -> Facts:
    names = [arm.name for arm in comparison.arms]
    several = [numbers for numbers in _studies(comparison) if len(numbers) > 1]
    parts = [letters(comparison, some) for some in several if (len({names[n] for n in some}) == 1) == copies]
    return [{"arms": "; ".join(parts)}] if parts else []


def _set_aside(comparison: SideBySide) -> Facts:
    for arms in _studies(comparison):
        if damaged := comparison.arms[arms[0]].damaged:
            yield {"arms": letters(comparison, arms), "files": listed(damaged, MOST_BROKEN)}


def _protocols(comparison: SideBySide) -> Facts:
    if apart := [each for each in comparison.conditions if each.kind == "protocol" and each.apart]:
        yield {"what": "; ".join(_values(comparison, each) for each in apart)}


def _seeds(comparison: SideBySide) -> Sequence[int]:
    return [len(cell.runs) for row in shared(comparison.cells) for cell in row.cells if cell and cell.runs]


def _of_timings(comparison: SideBySide, applies: Callable[[Timing, TimeValues], object]) -> Facts:
    """The number of timings of each arm to which something applies."""
    parts = []
    for number, arm in enumerate(comparison.arms):
        ok = [(t, t.values) for row in shared(comparison.timings) if (t := row.timings[number]) and t.values]
        some = sum(bool(applies(*each)) for each in ok)
        parts += [f"{some} of {plural(len(ok), 'timing')} of {arm.letter}"] if some else []
    return [{"timings": ", ".join(parts)}] if parts else []


LIMITS: tuple[Caveat[SideBySide], ...] = (
    Caveat("unrecorded-machine", _unrecorded, "Machine and software were not recorded with every result: {arms}."),
    Caveat("other-machines", lambda comparison: shared(comparison.timings) and _differing(comparison, "machine"),
          "Between **different machines or devices** ({what}), a ratio of times compares machines with all that runs "
          "on them, not versions of the code."),
    Caveat("other-software", lambda comparison: _differing(comparison, "software"),
          "Between **different software** ({what}), a difference may be due to any of it."),
    Caveat("uncommitted-changes", _arms(lambda arm: with_changes(arm.trials).any()),
          "Results of {arms} come from a working tree with uncommitted changes."),
    Caveat("timings-not-in-turns", lambda comparison: bool(shared(comparison.timings)),
          "Timings of different studies are not interleaved as those within one study are: intervals include the noise "
          "within each, not what changed on the machine in between."),
    Caveat("matched-without-device", lambda comparison: len({arm.device for arm in comparison.arms}) > 1,
          "Trials have another id on another device: rows are matched by model, data, recipe and setting, without the "
          "device."),
    Caveat("one-study-in-arms", lambda comparison: _arms_of_one_study(comparison, copies=False),
          "One study, in an arm for each device and environment: {arms}."),
    Caveat("study-given-twice", lambda comparison: _arms_of_one_study(comparison, copies=True),
          "The same study: {arms}."),
    Caveat("unequal-timing-protocol", _protocols,
          "Timing protocols differ: {what}. Medians do not depend on it, widths of intervals do."),
    Caveat("other-images", lambda comparison: _otherwise(comparison, images=True),
          "{arms}: {what} trained or tested on **different images** or another split, and not compared by seed."),
    Caveat("other-recipe", lambda comparison: _otherwise(comparison, images=False),
          "{arms}: **different recipes** ({what}). A difference in accuracy may be due to that."),
    Caveat("fallback-data", _arms(lambda arm: arm.info and arm.info.fallback is not None),
          "{arms}: the data are a fallback, not those that the suite names."),
    Caveat("one-seed", lambda comparison: min(_seeds(comparison), default=2) == 1,
          "**n = 1, no inference** for cells with one seed."),
    Caveat("drift-of-equal-seeds", lambda comparison: bool(_seeds(comparison)),
          "Equal seeds give equal initial weights, data order and augmentation everywhere; on another device or "
          "version sums are made in another order, so that equal runs drift apart. The test by seed allows for that."),
    Caveat("one-process", lambda comparison: _of_timings(comparison, lambda _, values: len(values.processes) == 1),
          "From a single process, so that variation between processes is unknown: {timings}."),
    Caveat("unstable-timings", lambda comparison: _of_timings(comparison, lambda timing, _: timing.unstable),
          "Unstable (marked ~; see the study's own report): {timings}."),
    Caveat("records-set-aside", _set_aside, "Set aside in {arms}: {files}."),
)  # fmt: skip
"""Every limit, in the order in which they are stated."""
