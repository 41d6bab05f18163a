"""Tables of a comparison: a row for each timing or cell of each arm, so that it names itself on any screen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from vitbench.analysis import timings as samples
from vitbench.analysis.arms import Run, Trained
from vitbench.analysis.frames import PENDING
from vitbench.analysis.grouped import words
from vitbench.analysis.regressions import IDENTICAL, Change, meanings
from vitbench.analysis.side_by_side import CellRow, SideBySide, TimingRow, verdict
from vitbench.analysis.sides import Timing
from vitbench.analysis.timings import LEVEL
from vitbench.report.comparisons.comparison_conditions import MOST_NAMED
from vitbench.report.comparisons.forest import accuracy_of
from vitbench.report.document import Block, Heading, bullets, table
from vitbench.report.inline import NOTHING, Md, bold, escape, listed
from vitbench.report.sections.terms import meanings as of_verdicts
from vitbench.report.text import (
    SURVIVORS,
    accuracy_decimals,
    count,
    fixed,
    plural,
    probability,
    seeds,
    signed,
    significant,
)

Row = TypeVar("Row", TimingRow, CellRow)

OF_MEAN, INTERVAL, P, HOLM = "95 % interval (%)", "95 % interval (points)", "p", "p (Holm)"
MOST_ROWS = 500
"""Rows of a table; what is beyond is in the CSV."""
UNSTABLE = Md("~")
NOT_PLANNED = "not planned"
CELL, PAIR = "arm: cell", "arms: cell"
VERDICT, RATIO, OF_RATIO = "verdict", "ratio", "95 % interval"
REFERENCE = Md("reference")
"""The verdict of what the others of a cell are compared with."""


def shared(rows: Sequence[TimingRow]) -> list[TimingRow]:
    """Timings that two arms or more plan."""
    return [row for row in rows if sum(t is not None for t in row.timings) > 1]


def shared_cells(rows: Sequence[CellRow]) -> list[CellRow]:
    """The same of trained cells."""
    return [row for row in rows if sum(c is not None for c in row.cells) > 1]


def timings(found: SideBySide) -> list[Block]:
    """Latency, throughput and peak memory of each arm and the ratio to its counterpart, a table for each setting."""
    column = _ratio_column(found, found.timings)

    def cells(row: TimingRow, number: int) -> dict[str, Md]:
        timing, change = row.timings[number], row.changes[number]
        return {
            "latency (ms)": _latency(timing),
            column: _named(found, row, number, _ratio(change), column),
            VERDICT: _word(row, number),
            OF_RATIO: _interval(change),
            "images/s": _rate(timing),
            "peak (MiB)": significant(_peak(timing)),  # a largest value over processes has no interval, and no word
        }

    settings: dict[str, list[TimingRow]] = {}
    for row in shared(found.timings):
        settings.setdefault(row.setting, []).append(row)
    blocks: list[Block] = []
    for setting, rows in settings.items():
        blocks.append(Heading(f"{setting[:1].upper()}{setting[1:]}"))
        blocks += _table(found, rows, lambda row: (row.cell, row.timings), cells)
    return blocks


def of_timings(found: SideBySide) -> list[Block]:
    """What the numbers and words of these tables mean."""
    changes = [change for row in found.timings for change in row.changes if change]
    tested = sum(change.judged and change.word != IDENTICAL for change in changes)
    said = [escape(each) for each in meanings({change.word for change in changes}, found.margin)]
    if any(timing and timing.unstable for row in shared(found.timings) for timing in row.timings):
        said.append(Md(f"{UNSTABLE}: a timing that is not to be relied on, or a verdict on one; the study's own report "
                       "says why."))  # fmt: skip
    if tested:
        said.append(Md(f"No verdict is corrected for the number of ratios: of {plural(tested, 'ratio')} between "
                       f"timings that do not differ, {(1 - LEVEL) * tested:.2g} would be called slower or faster by "
                       "chance."))  # fmt: skip
    return [Md("Ratios are of latencies: above 1 is slower than the reference."), *([bullets(said)] if said else [])]


def accuracy(found: SideBySide) -> list[Block]:
    """Test accuracy of each arm: mean over seeds, its 95 % interval, the number of seeds."""
    decimals = _decimals(found)

    def cells(row: CellRow, number: int) -> dict[str, Md]:
        cell = row.cells[number]
        estimate = accuracy_of(cell)
        if cell is None or estimate is None:
            return {"test accuracy (%)": _absence(cell), OF_MEAN: NOTHING, "seeds": Md("0")}
        ends = [fixed(end, decimals) for end in (estimate.low, estimate.high)]
        return {
            "test accuracy (%)": fixed(estimate.value, decimals),
            OF_MEAN: Md(" to ".join(ends)) if math.isfinite(estimate.low) else NOTHING,
            "seeds": seeds(len(cell.runs), cell.states.total()),
        }

    return [Md("Mean over seeds, and the 95 % interval of that mean."),
            *_table(found, shared_cells(found.cells), lambda row: (row.label, row.cells), cells)]  # fmt: skip


def paired(found: SideBySide) -> list[Block]:
    """Each arm against its counterpart, seed by seed, where both were trained on the same images."""
    judged: list[tuple[CellRow, int]] = []
    same: dict[int, list[str]] = {}
    without: dict[tuple[str, ...], list[str]] = {}
    families: set[int] = set()
    for number, base in found.pairs:
        both, pair = [row for row in found.cells if row.bases[number] == base], found.against(number, base)
        tested = [row for row in both if row.judged[number]]
        if all(verdict(row.judged[number]) == IDENTICAL for row in tested):
            same.setdefault(len(tested), []).append(pair)
        else:
            judged += [(row, number) for row in tested]
            families.add(len(tested))
        if missing := tuple(row.label for row in both if not row.judged[number]):
            without.setdefault(missing, []).append(pair)
    same.pop(0, None)
    if not (judged or same or without):
        return []
    blocks: list[Block] = [Heading("Seed by seed")]
    if judged:
        blocks.append(table([_judged(found, row, number) for row, number in judged[:MOST_ROWS]], _RIGHT))
        blocks += _beyond(judged)
        blocks += _meant({verdict(row.judged[number]) for row, number in judged})
        if max(families) > 1:
            blocks.append(Md("Holm's correction is over the cells of one pair of arms."))
    for cells, pairs in same.items():
        which = f"{plural(cells, 'cell')}{' each' if len(pairs) > 1 else ''} of {', of '.join(pairs)}"
        blocks.append(Md(f"**Identical** in every seed, to the last digit: {which}."))
    blocks += [Md(f"Not compared seed by seed, for want of a seed that both finished on the same images: "
                  f"{listed(labels, MOST_NAMED)} of {', of '.join(pairs)}.")
               for labels, pairs in without.items()]  # fmt: skip
    return blocks


def _meant(verdicts: Collection[str]) -> list[Block]:
    """What the words of a table of comparisons mean."""
    same = [Md("**identical:** every seed gives the same accuracy to the last digit.")] if IDENTICAL in verdicts else []
    found = [*of_verdicts(verdicts), *same]
    return [bullets(found)] if found else []


DIFFERENCE = "difference (points)"
_RIGHT = frozenset({"seeds", DIFFERENCE, INTERVAL, P, HOLM})


def _judged(found: SideBySide, row: CellRow, number: int) -> dict[str, Md]:
    judged, base, decimals = row.judged[number], row.bases[number], _decimals(found) + 1
    assert judged is not None and base is not None
    low, high = judged.interval.low, judged.interval.high
    survivors = f" of {judged.comparison.planned} {SURVIVORS}" if judged.survivors else ""
    line = {
        PAIR: escape(f"{found.against(number, base)}: {row.label}"),
        VERDICT: bold(escape(verdict(judged))),
        DIFFERENCE: signed(judged.mean, decimals),
        INTERVAL: Md(f"{signed(low, decimals)} to {signed(high, decimals)}") if math.isfinite(low) else NOTHING,
        HOLM: probability(judged.p_holm),
        P: probability(judged.p),
        "seeds": Md(f"{judged.n}{survivors}"),
    }
    if any(apart for each in found.cells for apart in each.apart):
        line["trained otherwise in"] = escape("; ".join(row.apart[number]) or "nothing")
    return line


def training(found: SideBySide) -> list[Block]:
    """Throughput, memory and time of the training runs themselves: medians over seeds."""

    def speed(cell: Trained | None) -> float:
        return _median(cell, lambda run: run.images_per_s)

    column = _ratio_column(found, found.cells)

    def cells(row: CellRow, number: int) -> dict[str, Md]:
        cell, base = row.cells[number], row.bases[number]
        ratio = math.nan if base is None else _over(speed(cell), speed(row.cells[base]))
        peak = _median(cell, lambda run: run.peak_memory_mib)
        return {
            "images/s": count(speed(cell)) if math.isfinite(speed(cell)) else _absence(cell),
            column: _named(found, row, number, fixed(ratio, 2), column),
            "peak (MiB)": significant(peak),
            "s per run": significant(_median(cell, lambda run: run.seconds)),
        }

    said = (
        "Throughput of the median step, as all values here the median over seeds. Runs are not made side by side "
        "as timings are, and their ratios have no interval: above 1 is faster, if by more than what the machine did "
        "otherwise at the time."
    )
    return [Md(said), *_table(found, shared_cells(found.cells), lambda row: (row.label, row.cells), cells)]


def _table(
    found: SideBySide, rows: Sequence[Row], of: Callable[[Row], tuple[str, Sequence[object]]],
    cells: Callable[[Row, int], Mapping[str, Md]],
) -> list[Block]:  # fmt: skip
    """Rows of each arm that plans what a row is about, one below the other.

    Args:
        found: the arms.
        rows: timings or cells.
        of: a row's label, and what each arm has of it; None where it plans nothing.
        cells: the cells of one arm.
    """
    lines: list[dict[str, Md]] = []
    for row in rows:
        label, of_arms = of(row)
        there = [number for number, each in enumerate(of_arms) if each is not None]
        lines += [{CELL: escape(f"{found.arms[n].letter}: {label}"), **cells(row, n)} for n in there]
    return [table(lines[:MOST_ROWS], {column for line in lines for column in line} - {CELL, VERDICT}), *_beyond(lines)]


def _beyond(rows: Sequence[object]) -> list[Md]:
    more = f"Of {plural(len(rows), 'row')} the first {MOST_ROWS} are shown; all are in the table of numbers."
    return [Md(more)] if len(rows) > MOST_ROWS else []


def _latency(timing: Timing | None) -> Md:
    if timing is None or timing.values is None:
        return _state(timing)
    mark = f" {UNSTABLE}" if timing.unstable else ""
    return Md(f"{significant(samples.latency(timing.values).estimate)}{mark}")


def _rate(timing: Timing | None) -> Md:
    return count(timing.values.images_per_s) if timing and timing.values else NOTHING


def _peak(timing: Timing | None) -> float:
    return timing.values.peak_memory_mib if timing and timing.values else math.nan


def _state(timing: Timing | None) -> Md:
    return escape(timing.state) if timing else Md(NOT_PLANNED)


def _ratio(change: Change | None) -> Md:
    return fixed(change.ratio.estimate, _digits(change)) if change and change.ratio else NOTHING


def _interval(change: Change | None) -> Md:
    if change is None or change.ratio is None or not change.judged:
        return NOTHING
    return Md(f"{fixed(change.ratio.low, _digits(change))} to {fixed(change.ratio.high, _digits(change))}")


def _digits(change: Change) -> int:
    """Decimals of a ratio: as many as it takes to see that an interval excludes 1, where it does."""
    if change.ratio is None or change.ratio.estimate >= 10:
        return 1
    ends = [end for end in (change.ratio.low, change.ratio.high) if change.judged and not change.ratio.holds(1.0)]
    return next((n for n in range(3, 6) if all(round(end, n) != 1.0 for end in ends)), 6)


def _ratio_column(found: SideBySide, rows: Sequence[TimingRow] | Sequence[CellRow]) -> str:
    """The head of a column of ratios: with the arm that all are compared with, where it is one."""
    bases = {base for row in rows for base in row.bases if base is not None}
    return f"{RATIO} to {found.arms[bases.pop()].letter}" if len(bases) == 1 else RATIO


def _named(found: SideBySide, row: TimingRow | CellRow, number: int, ratio: Md, column: str) -> Md:
    """A ratio, and of which arms it is one where the column's head does not say it."""
    base = row.bases[number]
    if base is None or ratio == NOTHING or column != RATIO:
        return ratio
    return Md(f"{ratio} ({found.arms[number].letter}/{found.arms[base].letter})")


def _word(row: TimingRow, number: int) -> Md:
    change = row.changes[number]
    if change is not None:
        word = escape(change.word)
        return Md(f"{bold(word) if change.judged else word}{f' {UNSTABLE}' if change.doubtful else ''}")
    if row.bases[number] is not None:
        return Md("ok in neither")
    return REFERENCE if number in row.bases else NOTHING


def _absence(cell: Trained | None) -> Md:
    if cell is None:
        return Md(NOT_PLANNED)
    return escape(words(cell.states)) if cell.states else Md(PENDING)


def _median(cell: Trained | None, of: Callable[[Run], float]) -> float:
    return statistics.median(map(of, cell.runs.values())) if cell and cell.runs else math.nan


def _over(one: float, other: float) -> float:
    return one / other if other else math.nan


def _decimals(found: SideBySide) -> int:
    sizes = [size for arm in found.arms if math.isfinite(size := float(arm.trials["test_images"].min()))]
    return accuracy_decimals(min(sizes, default=math.nan))
