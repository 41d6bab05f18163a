"""Comparison: the timings and trained cells of several arms in rows, each compared with the first study's.

Rows are matched by what a trial is, its device left out: a GPU's trial has another id than a CPU's, and is the same
work. Of timings the protocol is left out, too, but for what it changes in the work (compilation, CUDA graphs), unless
an arm has several protocols of one work. Benchmarks of pytest are matched by their full names. Trained cells of the
same label and model are one row even where their data or recipe differ, and the row says so.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from vitbench.analysis.arms import Arm, Trained, arms_of
from vitbench.analysis.conditions import Condition, conditions_of
from vitbench.analysis.frames import level
from vitbench.analysis.regressions import IDENTICAL, MARGIN, Change, Changes, alone, change, order
from vitbench.analysis.sides import HARDWARE, ComparisonError, Timing
from vitbench.analysis.timings import FEW
from vitbench.analysis.verdicts import Comparison, Judged, judge
from vitbench.config.dead_fields import dead
from vitbench.config.recipe import TrainSpec
from vitbench.store import PlannedTrial
from vitbench.wording import plural

T = TypeVar("T")


@dataclass(frozen=True)
class TimingRow:
    """One timing in all arms."""

    timings: tuple[Timing | None, ...]  # of each arm; None where it is not planned
    # of each arm, the number of the arm that it is compared with; None of the first, and where one of the two does not
    # plan it
    bases: tuple[int | None, ...]
    changes: tuple[Change | None, ...]  # of each arm against that one; None, too, where neither is ok

    @property
    def first(self) -> Timing:
        """The timing of the first arm that plans it."""
        return next(timing for timing in self.timings if timing)

    @property
    def label(self) -> str:
        """The timing in words."""
        return self.first.label

    @property
    def planned(self) -> PlannedTrial:
        """The trial in the first arm that plans it; a benchmark of pytest has none."""
        assert self.first.planned is not None
        return self.first.planned

    @property
    def cell(self) -> str:
        """The cell, and what tells the timing from others of one description."""
        return f"{self.planned.cell}{self.label.removeprefix(self.planned.description)}"

    @property
    def setting(self) -> str:
        """The rest of the label: which part is timed, and how."""
        return self.planned.description.removeprefix(f"{self.planned.cell}, ")


@dataclass(frozen=True)
class CellRow:
    """One trained cell in all arms."""

    label: str  # of the cell, in the first arm that plans it
    cells: tuple[Trained | None, ...]  # of each arm; None where it is not planned
    bases: tuple[int | None, ...]  # see :class:`TimingRow`
    # of each arm against that one, seed by seed; None of the first, and where that cannot be
    judged: tuple[Judged | None, ...]
    # of each arm, in what it was trained otherwise than that one: "data", and fields of the recipe with both values
    apart: tuple[tuple[str, ...], ...]


Row = TypeVar("Row", TimingRow, CellRow)


@dataclass(frozen=True)
class SideBySide:
    """Several arms, row by row."""

    arms: tuple[Arm, ...]  # two or more
    conditions: tuple[Condition, ...]  # under what they came about
    timings: tuple[TimingRow, ...]  # in the order of the first arm that plans each
    cells: tuple[CellRow, ...]  # likewise
    # (number of an arm, number of one that it is compared with), in their order; of every arm but the first there is
    # one at least
    pairs: tuple[tuple[int, int], ...]
    margin: float  # fraction by which latencies may differ and still be equivalent

    def exit_status(self, fail_over: float | None) -> int:
        """1 where a timing of a later study regressed against the first study's on the same type of device.

        How the first study's own devices and environments compare is no regression, nor is a device that it lacks.

        Raises:
            ComparisonError: where nothing that an arm is compared with has a result; where there is a limit, and
                nothing that could be judged by it.
        """
        bases = [row.timings[base] for row in self.timings for base in row.bases if base is not None]
        cells = [row.cells[base] for row in self.cells for base in row.bases if base is not None]
        if not any(t and t.values for t in bases) and not any(cell and cell.runs for cell in cells):
            raise ComparisonError(f"nothing to compare: none of the {plural(len(bases), 'timing')} was ok in A")
        if fail_over is None:
            return 0
        judged = [n for n in range(len(self.arms)) if self.limit(n, fail_over) is not None]
        if not judged:
            raise ComparisonError("nothing to judge: a regression is one of a later study on a device of the first one")
        changes = [change for row in self.timings for n in judged if (change := row.changes[n])]
        if not any(change.lost or change.judged for change in changes):
            raise ComparisonError(
                f"nothing to judge: an interval takes {FEW} samples on both sides, which no timing has"
            )
        return int(any(change.regressed(fail_over) for change in changes))

    def limit(self, number: int, fail_over: float | None) -> float | None:
        """The limit that an arm is judged by; None of the first study's own arms, and of a device that it lacks."""
        arm = self.arms[number]
        had = {first.device for first in self.arms if not first.study_number}
        return fail_over if arm.study_number and arm.device in had else None

    @cached_property
    def sections(self) -> dict[tuple[int, int], Changes]:
        """Changes between the arms of each pair: pairs of later studies, or all pairs of a single study."""
        later = [pair for pair in self.pairs if self.arms[pair[0]].study_number] or self.pairs
        changes = {pair: self.changes(*pair) for pair in later}
        return {pair: each for pair, each in changes.items() if each.alone or self.compared(*pair)}

    def summaries(self, fail_over: float | None) -> list[str]:
        """Counts of verdicts on the timings and accuracies of each pair, a line each."""
        lines = []
        for (number, base), changes in self.sections.items():
            who = f"{self.against(number, base)}: " if len(self.sections) > 1 else ""
            if changes.changes or changes.alone or changes.neither:
                lines.append(f"{who}{changes.summary(self.limit(number, fail_over))}")
            rows = [row for row in self.cells if row.bases[number] == base]
            verdicts = Counter(verdict(row.judged[number]) for row in rows if row.judged[number])
            if verdicts:
                counts = ", ".join(f"{n} {word}" for word, n in verdicts.most_common())
                lines.append(f"{who}test accuracy of {plural(verdicts.total(), 'cell')}: {counts}")
        return lines

    def against(self, number: int, base: int) -> str:
        """The names of an arm and of the one that it is compared with, in words."""
        return f"{self.arms[number].letter} against {self.arms[base].letter}"

    def compared(self, number: int, base: int) -> bool:
        """Whether any timing or cell of an arm is compared with another arm's."""
        of_rows = [*(row.bases for row in self.timings), *(row.bases for row in self.cells)]
        return any(bases[number] == base for bases in of_rows)

    def changes(self, number: int, base: int) -> Changes:
        """Changes of the timings of an arm that are compared with those of another."""
        both = [row.changes[number] for row in self.timings if row.bases[number] == base]
        changes = sorted((c for c in both if c is not None), key=order)
        study_number = self.arms[number].study_number
        first = next(pair for pair in self.pairs if self.arms[pair[0]].study_number == study_number) == (number, base)
        return Changes(tuple(changes), self._alone(study_number) if first and study_number else (), both.count(None))

    def _alone(self, study_number: int) -> tuple[Change, ...]:
        """Timings that only one of the first and a later study plans on a device."""
        changes: dict[tuple[str, str], Change] = {}
        for row in self.timings:
            for number, (arm, timing) in enumerate(zip(self.arms, row.timings, strict=True)):
                if timing is None or arm.study_number not in (0, study_number):
                    continue
                others = [
                    n for n, other in enumerate(self.arms) if other.study_number == study_number and row.timings[n]
                ]
                if arm.study_number:
                    met = row.bases[number] is not None
                else:
                    met = any(self.arms[n].device == arm.device or row.bases[n] == number for n in others)
                if not met:
                    only = alone(timing, arm.letter, later=bool(arm.study_number))
                    changes.setdefault((arm.device, timing.label), only)
        return tuple(sorted(changes.values(), key=lambda change: (change.word, change.label)))


def verdict(judged: Judged | None) -> str:
    """The verdict on a cell in a word; of runs that agree in every digit, that they do; empty of none."""
    if judged is None:
        return ""
    return IDENTICAL if judged.n and not any(judged.comparison.deltas) else judged.verdict


def side_by_side(paths: Sequence[Path], margin: float = MARGIN) -> SideBySide:
    """Compare some studies, or files of pytest-benchmark, with the first; of one study its devices and environments.

    Args:
        paths: folders of the studies, or JSON files.
        margin: fraction by which latencies may differ and still be equivalent; of accuracies it is the suites' own.

    Raises:
        ComparisonError: where there is nothing that two of them have, or too many of them.
        StudyError: where a folder holds no study.
    """
    arms = arms_of(paths)
    if len(arms) < 2:
        raise ComparisonError("a comparison takes two studies, or one that ran on two devices or in two environments")
    candidates = _candidates(arms)
    timings, cells = _timings(arms, candidates, margin), _cells(arms, candidates)
    if not shared(timings) and not shared(cells):
        each = ", ".join(f"{plural(len(arm.timings), 'timing')} and {plural(len(arm.cells), 'trained cell')} in "
                         f"{arm.letter}" for arm in arms)  # fmt: skip
        raise ComparisonError(
            f"nothing to compare: {each}, and none is in two of them; model, dtype, batch size and mode are part of "
            "what a timing is, label and model of what a cell is, and of a benchmark its test's full name"
        )
    of_rows = [row.bases for row in timings] + [row.bases for row in cells]
    used = {pair for bases in of_rows for pair in enumerate(bases)}
    pairs = tuple(
        (number, base)
        for number, bases in enumerate(candidates)
        for base in [base for base in bases if (number, base) in used] or bases[:1]
    )
    return SideBySide(tuple(arms), tuple(conditions_of(arms)), tuple(timings), tuple(cells), pairs, margin)


def _candidates(arms: Sequence[Arm]) -> list[tuple[int, ...]]:
    """Numbers of the arms that each arm may be compared with, the most similar first.

    These are the first study's arms on the same type of device: of the same platform, then of the same machine,
    then the others. A slow device of the first study would else count as a regression, and a regression on a fast one
    as none. Where there is none, and for the first study's own other arms, it is the first arm of all.
    """
    first = [number for number, arm in enumerate(arms) if arm.study_number == 0]
    candidates: list[tuple[int, ...]] = [()]
    for arm in arms[1:]:
        same = [number for number in first if arms[number].device == arm.device] if arm.study_number else []
        apart = {number: _distance(arms[number], arm) for number in same}
        candidates.append(tuple(sorted(same, key=apart.__getitem__)) or (0,))
    return candidates


def _distance(one: Arm, other: Arm) -> tuple[bool, int]:
    """How far apart the platforms of two arms are, where both are known."""
    if one.platform is None or other.platform is None:
        return True, len(HARDWARE) + 1
    here, there = one.platform.machine, other.platform.machine
    return one.platform != other.platform, sum(here.get(name) != there.get(name) for name in here.keys() | there.keys())


def planned(row: TimingRow | CellRow) -> list[int]:
    """Numbers of the arms that plan what a row is about."""
    of_arms = row.timings if isinstance(row, TimingRow) else row.cells
    return [number for number, each in enumerate(of_arms) if each is not None]


def shared(rows: Sequence[Row]) -> list[Row]:
    """Timings or cells that two arms or more plan."""
    return [row for row in rows if len(planned(row)) > 1]


def _timings(arms: Sequence[Arm], candidates: Sequence[tuple[int, ...]], margin: float) -> list[TimingRow]:
    rows = []
    for key in dict.fromkeys(key for arm in arms for key in arm.timings):
        timings = tuple(arm.timings.get(key) for arm in arms)
        bases = _bases(timings, candidates, lambda timing: timing.values is not None)
        changes = tuple(
            None if base is None else change(timings[base], timing, margin)
            for base, timing in zip(bases, timings, strict=True)
        )
        rows.append(TimingRow(timings, bases, changes))
    return rows


def _bases(
    of_arms: Sequence[T | None], candidates: Sequence[tuple[int, ...]], ok: Callable[[T], bool]
) -> tuple[int | None, ...]:
    """With which arm each one is compared: the first candidate that has a result, else the first that plans it."""
    bases: list[int | None] = []
    for each, among in zip(of_arms, candidates, strict=True):
        planned = [number for number in among if of_arms[number] is not None] if each is not None else []
        having = [number for number in planned if (other := of_arms[number]) is not None and ok(other)]
        bases.append(next(iter([*having, *planned]), None))
    return tuple(bases)


def _cells(arms: Sequence[Arm], candidates: Sequence[tuple[int, ...]]) -> list[CellRow]:
    rows = _matched(arms)
    bases = [_bases(row, candidates, lambda cell: bool(cell.runs)) for row in rows]
    judged: list[list[Judged | None]] = [[None] * len(arms) for _ in rows]
    apart: list[list[tuple[str, ...]]] = [[()] * len(arms) for _ in rows]
    for number, base in [(number, base) for number, among in enumerate(candidates) for base in among]:
        compared = {}
        for i, row in enumerate(rows):
            if bases[i][number] == base:
                apart[i][number] = _apart(row[base], row[number])
                if (pair := _compared(row[base], row[number])) is not None:
                    compared[i] = pair
        verdicts = judge([*compared.values()], margin=common_margin((arms[base], arms[number])), noise_floor=None)
        for i, each in zip(compared, verdicts, strict=True):
            judged[i][number] = each
    return [
        CellRow(next(cell.planned.cell for cell in row if cell), row, bases[i], tuple(judged[i]), tuple(apart[i]))
        for i, row in enumerate(rows)
    ]


def _matched(arms: Sequence[Arm]) -> list[tuple[Trained | None, ...]]:
    """Cells in rows: those that are alike in all but seed and device, then those of one label and model."""
    rows: list[list[Trained | None]] = []
    for number, arm in enumerate(arms):
        left = list(arm.cells)
        for same in (attrgetter("whole"), attrgetter("model")):
            # A row has a key for each recipe that is in it, and a key has every row of that recipe.
            free: dict[str, list[list[Trained | None]]] = {}
            for row in rows:
                for key in {same(cell) for cell in row if cell} if row[number] is None else ():
                    free.setdefault(key, []).append(row)
            unplaced = []
            for cell in left:
                entry = next((row for row in free.get(same(cell), ()) if row[number] is None), None)
                if entry is None:
                    unplaced.append(cell)
                else:
                    entry[number] = cell
            left = unplaced
        rows += [[cell if n == number else None for n in range(len(arms))] for cell in left]
    return [tuple(row) for row in rows]


def common_margin(arms: Iterable[Arm]) -> float | None:
    """The margin of some arms' suites, percentage points; None where they do not name the same."""
    margins = {arm.info.suite.margin if arm.info else None for arm in arms}
    return margins.pop() if len(margins) == 1 else None


def _apart(one: Trained | None, other: Trained | None) -> tuple[str, ...]:
    if one is None or other is None or one is other:
        return ()
    recipes = one.trial.train, other.trial.train
    live = [name for name in TrainSpec.model_fields if not dead(name, recipes)]
    values = [(name, *(level(getattr(recipe, name)) for recipe in recipes)) for name in live]
    fields = [f"{name.replace('_', ' ')} {a} → {b}" for name, a, b in values if a != b]
    return (*(["data"] if not _same_images(one, other) else []), *fields)


def _same_images(one: Trained, other: Trained) -> bool:
    """Whether both saw the same images, by what was planned and by what was seen in each seed."""
    common = one.runs.keys() & other.runs.keys()
    return one.images == other.images and all(one.runs[s].data_checksum == other.runs[s].data_checksum for s in common)


def _compared(one: Trained | None, other: Trained | None) -> Comparison | None:
    """The other's accuracy less the one's in each seed that both have; None where data or seeds are not the same."""
    if one is None or other is None or not _same_images(one, other):
        return None
    seeds = tuple(sorted(one.runs.keys() & other.runs.keys()))
    if not seeds:
        return None
    variant, baseline = (tuple(c.runs[s].test_accuracy_pct for s in seeds) for c in (other, one))
    both = (one.runs.keys() | one.lost) & (other.runs.keys() | other.lost)
    return Comparison(
        label=one.planned.cell, deltas=tuple(v - b for v, b in zip(variant, baseline, strict=True)),
        planned=len(both), failed=len(both & (one.lost | other.lost)), variant=variant, baseline=baseline, seeds=seeds,
        paired=not _apart(one, other),
    )  # fmt: skip
