"""Tables of a comparison: a row for each timing or cell, columns for each arm, named by its letter."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from vitbench.analysis import timings as samples
from vitbench.analysis.arms import Run, Trained
from vitbench.analysis.comparison import Change
from vitbench.analysis.frames import PENDING
from vitbench.analysis.side_by_side import IDENTICAL, CellRow, SideBySide, TimingRow, verdict
from vitbench.analysis.sides import Timing
from vitbench.analysis.summary import words
from vitbench.report.accuracy import INTERVAL as OF_MEAN
from vitbench.report.accuracy import SURVIVORS, seeds
from vitbench.report.forest import accuracy_of
from vitbench.report.legends import legend_of
from vitbench.report.markdown import NOTHING, Md, bold, escape, listed, table
from vitbench.report.numbers import accuracy_decimals, count, fixed, plural, signed, significant
from vitbench.report.verdicts import HOLM, INTERVAL, P, probability

Row = TypeVar("Row", TimingRow, CellRow)

MOST_ROWS = 500
"""Rows of a table; what is beyond is in the CSV."""
MOST_NAMED = 12
"""Timings or cells that a row of what only some have lists before it counts the others."""
UNSTABLE = Md("~")
NOT_PLANNED = "not planned"
OF_TIMINGS = (
    "Ratios are of latencies, with their 95 % interval: above 1 is slower. slower and faster: the interval excludes 1, "
    "which by chance alone one in 20 does. ~ marks a timing that is not to be relied on; the study's own report says "
    "why."
)


def conditions(found: SideBySide) -> list[Md]:
    """What the arms are, a row for each thing that is known of them; those in which they differ are bold."""
    lines = []
    for each in found.conditions:
        name = escape(each.name)
        values = (escape(value) if value else NOTHING for value in each.values)
        line = {"condition": bold(name) if each.differs else name}
        lines.append(line | {arm.letter: value for arm, value in zip(found.arms, values, strict=True)})
    return [Md("One column for each study, device and set of conditions. Bold: what differs."), table(lines, set())]


def shared(rows: Sequence[TimingRow]) -> list[TimingRow]:
    """Timings that two arms or more plan."""
    return [row for row in rows if sum(t is not None for t in row.timings) > 1]


def shared_cells(rows: Sequence[CellRow]) -> list[CellRow]:
    """The same of trained cells."""
    return [row for row in rows if sum(c is not None for c in row.cells) > 1]


def timings(found: SideBySide) -> list[Md]:
    """Latency, throughput and peak memory of each arm and the ratio to its counterpart, a table for each setting."""

    def cells(row: TimingRow, number: int) -> dict[str, Md]:
        letter, timing = found.arms[number].letter, row.timings[number]
        line = {f"{letter} (ms)": _latency(timing), f"{letter} (images/s)": _rate(timing)}
        if number:
            line |= {found.over(number): _named(found, row, number, _ratio(row.changes[number])),
                     letter: _word(row, number)}  # fmt: skip
        return line

    def peaks(row: TimingRow) -> dict[str, Md]:
        # A largest value over processes has no interval, and gets no word.
        found_peaks = zip(found.arms, map(_peak, row.timings), strict=True)
        return {f"{arm.letter} peak (MiB)": significant(peak) for arm, peak in found_peaks}

    settings: dict[str, list[TimingRow]] = {}
    for row in shared(found.timings):
        settings.setdefault(row.setting, []).append(row)
    blocks: list[Md] = []
    for setting, rows in settings.items():
        blocks.append(Md(f"### {escape(setting[:1].upper() + setting[1:])}"))
        blocks += _table(found, rows, lambda row: row.cell, cells, peaks)
    return blocks


def accuracy(found: SideBySide) -> list[Md]:
    """Test accuracy of each arm: mean over seeds, its 95 % interval, the number of seeds."""
    decimals = _decimals(found)

    def cells(row: CellRow, number: int) -> dict[str, Md]:
        letter, cell = found.arms[number].letter, row.cells[number]
        estimate = accuracy_of(cell)
        if cell is None or estimate is None:
            return {f"{letter}: test accuracy (%)": _absence(cell), f"{letter}: {OF_MEAN}": NOTHING,
                    f"{letter}: seeds": Md("0")}  # fmt: skip
        ends = [fixed(end, decimals) for end in (estimate.low, estimate.high)]
        return {
            f"{letter}: test accuracy (%)": fixed(estimate.value, decimals),
            f"{letter}: {OF_MEAN}": Md(" to ".join(ends)) if math.isfinite(estimate.low) else NOTHING,
            f"{letter}: seeds": seeds(len(cell.runs), cell.states.total()),
        }  # fmt: skip

    return [Md("Mean over seeds, and the 95 % interval of that mean."),
            *_table(found, shared_cells(found.cells), lambda row: row.label, cells)]  # fmt: skip


def paired(found: SideBySide) -> list[Md]:
    """Each arm against its counterpart, seed by seed, where both were trained on the same images."""
    blocks: list[Md] = []
    for number, base in found.pairs:
        both = [row for row in found.cells if row.bases[number] == base]
        if not both:
            continue
        blocks.append(Md(f"### {found.against(number, base)}, seed by seed"))
        rows = [row for row in both if row.judged[number]]
        without = [row for row in both if not row.judged[number]]
        if rows:
            blocks.append(table([_judged(found, row, number) for row in rows[:MOST_ROWS]], _RIGHT))
            blocks += _beyond(rows)
            blocks += _meant({verdict(row.judged[number]) for row in rows})
        if without:
            blocks.append(Md(f"Not compared seed by seed, for want of a seed that both finished on the same images: "
                             f"{listed([row.label for row in without], MOST_NAMED)}."))  # fmt: skip
    return blocks


def _meant(verdicts: Collection[str]) -> list[Md]:
    """What the words of a table of comparisons mean."""
    same = "Identical: every seed gives the same accuracy to the last digit." if IDENTICAL in verdicts else ""
    said = " ".join(filter(None, (legend_of(verdicts), same)))
    return [Md(said)] if said else []


DIFFERENCE = "difference (points)"
_RIGHT = frozenset({"seeds", DIFFERENCE, INTERVAL, P, HOLM})


def _judged(found: SideBySide, row: CellRow, number: int) -> dict[str, Md]:
    judged, decimals = row.judged[number], _decimals(found) + 1
    assert judged is not None
    low, high = judged.interval.low, judged.interval.high
    survivors = f" of {judged.comparison.planned} {SURVIVORS}" if judged.survivors else ""
    line = {
        "cell": escape(row.label),
        "verdict": bold(escape(verdict(judged))),
        DIFFERENCE: signed(judged.mean, decimals),
        INTERVAL: Md(f"{signed(low, decimals)} to {signed(high, decimals)}") if math.isfinite(low) else NOTHING,
        HOLM: probability(judged.p_holm),
        P: probability(judged.p),
        "seeds": Md(f"{judged.n}{survivors}"),
    }
    if any(each.apart[number] for each in found.cells):
        line["trained otherwise in"] = escape("; ".join(row.apart[number]) or "nothing")
    return line


def training(found: SideBySide) -> list[Md]:
    """Throughput, memory and time of the training runs themselves: medians over seeds, of memory the largest."""

    def speed(cell: Trained | None) -> float:
        return _median(cell, lambda run: run.images_per_s)

    def cells(row: CellRow, number: int) -> dict[str, Md]:
        letter, cell, base = found.arms[number].letter, row.cells[number], row.bases[number]
        line = {f"{letter} (images/s)": count(speed(cell)) if math.isfinite(speed(cell)) else _absence(cell)}
        ratio = math.nan if base is None else _over(speed(cell), speed(row.cells[base]))
        line |= {found.over(number): _named(found, row, number, fixed(ratio, 2))} if number else {}
        peak = max((run.peak_memory_mib for run in cell.runs.values()), default=math.nan) if cell else math.nan
        line[f"{letter} (MiB)"] = significant(peak)
        line[f"{letter} (s per run)"] = significant(_median(cell, lambda run: run.seconds))
        return line

    said = (
        "Throughput of the median step, medians over seeds; peak memory is the largest. Runs are not made side by side "
        "as timings are, and their ratios have no interval: above 1 is faster, if by more than what the machine did "
        "otherwise at the time."
    )
    return [Md(said), *_table(found, shared_cells(found.cells), lambda row: row.label, cells)]


def alone(found: SideBySide) -> list[Md]:
    """What is planned in some arms and not in the others."""
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, rows in (
        ("timings", [(row.label, row.timings) for row in found.timings]),
        ("trained cells", [(row.label, row.cells) for row in found.cells]),
    ):
        for label, of_arms in rows:
            letters = [arm.letter for arm, each in zip(found.arms, of_arms, strict=True) if each is not None]
            if len(letters) < len(found.arms):
                groups.setdefault((", ".join(letters), kind), []).append(label)
    if not groups:
        return [Md("Nothing: what one plans, all plan.")]
    lines = [
        {"planned in": Md(letters), "what": Md(kind), "number": count(len(labels)), "which": listed(labels, MOST_NAMED)}
        for (letters, kind), labels in groups.items()
    ]
    return [table(lines, {"number"})]


def _table(
    found: SideBySide, rows: Sequence[Row], label: Callable[[Row], str], cells: Callable[[Row, int], Mapping[str, Md]],
    last: Callable[[Row], Mapping[str, Md]] = lambda row: {},
) -> list[Md]:  # fmt: skip
    """A row for each: its label, the cells of each arm, and those that come last."""
    lines = []
    for row in rows[:MOST_ROWS]:
        line = {"cell": escape(label(row))}
        for number in range(len(found.arms)):
            line |= cells(row, number)
        lines.append({**line, **last(row)})
    words_alone = {arm.letter for arm in found.arms}
    return [table(lines, {column for line in lines for column in line} - words_alone - {"cell"}), *_beyond(rows)]


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
    if change is None or change.ratio is None:
        return NOTHING
    ratio, decimals = change.ratio, 3 if change.ratio.estimate < 10 else 1
    if math.isnan(ratio.low):
        return fixed(ratio.estimate, decimals)
    return Md(f"{fixed(ratio.estimate, decimals)} ({fixed(ratio.low, decimals)} to {fixed(ratio.high, decimals)})")


def _named(found: SideBySide, row: TimingRow | CellRow, number: int, ratio: Md) -> Md:
    """A ratio, and of which arm it is one where the column has several."""
    base = row.bases[number]
    if base is None or ratio == NOTHING or len(found.bases(number)) == 1:
        return ratio
    return Md(f"{ratio}, over {found.arms[base].letter}")


def _word(row: TimingRow, number: int) -> Md:
    change = row.changes[number]
    if change is not None:
        return escape(change.word)
    return Md("ok in neither") if row.bases[number] is not None else NOTHING


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
