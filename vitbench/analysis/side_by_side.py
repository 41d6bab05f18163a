"""Side by side: the timings and trained cells of several arms in rows, each compared with that of the first arm.

Rows are matched by what a trial is, its device left out: a GPU's trial has another id than a CPU's, and is the same
work. Of timings the protocol is left out, too, but for what it changes in the work (compilation, CUDA graphs). Trained
cells of the same label and model are one row even where their data or recipe differ, and the row says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vitbench.analysis.arms import Arm, Trained, arms_of
from vitbench.analysis.comparison import Change, ComparisonError, Timing, change, counted
from vitbench.analysis.comparison import Comparison as Changes
from vitbench.analysis.conditions import Condition, conditions_of
from vitbench.analysis.frames import level
from vitbench.analysis.verdicts import Comparison, Judged, judge
from vitbench.runner.progress import describe
from vitbench.spec.recipe import TrainSpec
from vitbench.store import PlannedTrial


@dataclass(frozen=True)
class TimingRow:
    """One timing in all arms.

    Attributes:
        label: what is timed, in words.
        planned: the trial in the first arm that plans it.
        timings: of each arm; None where it is not planned.
        changes: of each arm against the first; None of the first, and where one of the two does not plan it or
            neither is ok.
    """

    label: str
    planned: PlannedTrial
    timings: tuple[Timing | None, ...]
    changes: tuple[Change | None, ...]

    @property
    def cell(self) -> str:
        """The cell, and what tells the timing from others of one description."""
        return f"{self.planned.cell}{self.label.removeprefix(describe(self.planned))}"

    @property
    def setting(self) -> str:
        """The rest of the label: which part is timed, and how."""
        return describe(self.planned).removeprefix(f"{self.planned.cell}, ")


@dataclass(frozen=True)
class CellRow:
    """One trained cell in all arms.

    Attributes:
        label: of the cell, in the first arm that plans it.
        cells: of each arm; None where it is not planned.
        judged: of each arm against the first, seed by seed; None of the first, and where that cannot be.
        apart: of each arm, in what it was trained otherwise than the first: "data", and fields of the recipe with
            both values.
    """

    label: str
    cells: tuple[Trained | None, ...]
    judged: tuple[Judged | None, ...]
    apart: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SideBySide:
    """Several arms, row by row.

    Attributes:
        arms: two or more.
        conditions: under what they came about.
        timings: in the order of the first arm that plans each.
        cells: likewise.
    """

    arms: tuple[Arm, ...]
    conditions: tuple[Condition, ...]
    timings: tuple[TimingRow, ...]
    cells: tuple[CellRow, ...]

    def exit_status(self, fail_over: float | None) -> int:
        """1 where a timing of any arm regressed against the first; see :meth:`Comparison.exit_status`.

        Raises:
            ComparisonError: where there is a limit, and an arm has no timing that could be judged by it.
        """
        return max(self.against_first(number).exit_status(fail_over) for number in range(1, len(self.arms)))

    def summaries(self, fail_over: float | None) -> list[str]:
        """What became of the timings and of the accuracies of each arm, a line each."""
        first, said = self.arms[0].letter, []
        for number, arm in enumerate(self.arms[1:], 1):
            compared = self.against_first(number)
            if compared.changes:
                said.append(f"{arm.letter} against {first}: {compared.summary(fail_over)}")
            verdicts = Counter(verdict(row.judged[number]) for row in self.cells if row.judged[number])
            if verdicts:
                counts = ", ".join(f"{n} {word}" for word, n in verdicts.most_common())
                said.append(
                    f"{arm.letter} against {first}: test accuracy of {counted(verdicts.total(), 'cell')}: {counts}"
                )
        return said

    def against_first(self, number: int) -> Changes:
        """What became of the timings that an arm shares with the first."""
        both = [(row.timings[0], row.timings[number], row.changes[number]) for row in self.timings]
        neither = sum(a is not None and b is not None and c is None for a, b, c in both)
        return Changes(tuple(c for _, _, c in both if c is not None), neither=neither)


IDENTICAL = "identical"
"""The verdict where every seed gives the same accuracy to the last digit: there is nothing to be tested."""


def verdict(judged: Judged | None) -> str:
    """The verdict on a cell in a word; of runs that agree in every digit, that they do; empty of none."""
    if judged is None:
        return ""
    return IDENTICAL if judged.n and not any(judged.comparison.deltas) else judged.verdict


def side_by_side(paths: Sequence[Path]) -> SideBySide:
    """Compare the studies in some folders with the first of them.

    Raises:
        ComparisonError: where there is nothing that two of them have, or too many of them.
        StudyError: where a folder holds no study.
    """
    arms = arms_of(paths)
    if len(arms) < 2:
        raise ComparisonError("a comparison takes two studies, or one that ran on two devices")
    timings, cells = _timings(arms), _cells(arms)
    shared = [row for row in timings if _planned(row.timings) > 1], [row for row in cells if _planned(row.cells) > 1]
    if not any(shared):
        raise ComparisonError(
            f"nothing to compare: {counted(len(timings), 'timing')} and {counted(len(cells), 'trained cell')}, and "
            "none is in two of the studies; model, dtype, batch size and mode are part of what a timing is, label and "
            "model of what a cell is"
        )
    return SideBySide(tuple(arms), tuple(conditions_of(arms)), tuple(timings), tuple(cells))


def _planned(of_arms: Sequence[object]) -> int:
    return sum(each is not None for each in of_arms)


def _timings(arms: Sequence[Arm]) -> list[TimingRow]:
    rows = []
    for key in dict.fromkeys(key for arm in arms for key in arm.timings):
        found = tuple(arm.timings.get(key) for arm in arms)
        changes = tuple(
            change(found[0], other) if number and found[0] and other else None for number, other in enumerate(found)
        )
        planned = next(arm.timed[key] for arm in arms if key in arm.timed)
        rows.append(TimingRow(next(t.label for t in found if t), planned, found, changes))
    return rows


def _cells(arms: Sequence[Arm]) -> list[CellRow]:
    rows = _matched(arms)
    apart = [tuple(_apart(row[0], cell) for cell in row) for row in rows]
    columns: list[list[Judged | None]] = [[None] * len(rows)]
    for number in range(1, len(arms)):
        pairs = {i: _compared(row[0], row[number]) for i, row in enumerate(rows)}
        compared = {i: comparison for i, comparison in pairs.items() if comparison is not None}
        judged = judge([*compared.values()], margin=_margin(arms[0], arms[number]), noise_floor=None)
        found = dict(zip(compared, judged, strict=True))
        columns.append([found.get(i) for i in range(len(rows))])
    return [
        CellRow(
            next(cell.planned.cell for cell in row if cell), row, tuple(column[i] for column in columns), apart[i]
        )
        for i, row in enumerate(rows)
    ]  # fmt: skip


def _matched(arms: Sequence[Arm]) -> list[tuple[Trained | None, ...]]:
    """Cells in rows: those that are alike in all but seed and device, then those of one label and model."""
    rows: list[list[Trained | None]] = []
    for number, arm in enumerate(arms):
        left = list(arm.cells)
        for same in (_same_whole, _same_model):
            free = {same(cell): row for row in reversed(rows) if row[number] is None for cell in row if cell}
            for cell in list(left):
                if (place := free.pop(same(cell), None)) is not None and place[number] is None:
                    place[number] = cell
                    left.remove(cell)
        rows += [[cell if n == number else None for n in range(len(arms))] for cell in left]
    return [tuple(row) for row in rows]


def _same_whole(cell: Trained) -> str:
    return cell.whole


def _same_model(cell: Trained) -> str:
    return cell.model


def _margin(one: Arm, other: Arm) -> float | None:
    """The difference that does not matter, where both suites name the same."""
    margins = {arm.study.info.suite.margin for arm in (one, other)}
    return margins.pop() if len(margins) == 1 else None


def _apart(one: Trained | None, other: Trained | None) -> tuple[str, ...]:
    if one is None or other is None or one is other:
        return ()
    recipes = one.trial.train, other.trial.train
    values = [(name, *(level(getattr(recipe, name)) for recipe in recipes)) for name in TrainSpec.model_fields]
    fields = [f"{name.replace('_', ' ')} {a} → {b}" for name, a, b in values if a != b]
    return (*(["data"] if not _same_images(one, other) else []), *fields)


def _same_images(one: Trained, other: Trained) -> bool:
    """Whether both saw the same images, by what was planned and by what was seen in each seed."""
    common = one.runs.keys() & other.runs.keys()
    return one.images == other.images and all(one.runs[s].checksum == other.runs[s].checksum for s in common)


def _compared(one: Trained | None, other: Trained | None) -> Comparison | None:
    """The other's accuracy less the one's in each seed that both have; None where data or seeds are not the same."""
    if one is None or other is None or not _same_images(one, other):
        return None
    seeds = tuple(sorted(one.runs.keys() & other.runs.keys()))
    if not seeds:
        return None
    variant, baseline = (tuple(c.runs[s].accuracy_pct for s in seeds) for c in (other, one))
    both = (one.runs.keys() | one.lost) & (other.runs.keys() | other.lost)
    return Comparison(
        label=one.planned.cell, deltas=tuple(v - b for v, b in zip(variant, baseline, strict=True)),
        planned=len(both), failed=len(both & (one.lost | other.lost)), variant=variant, baseline=baseline, seeds=seeds,
    )  # fmt: skip
