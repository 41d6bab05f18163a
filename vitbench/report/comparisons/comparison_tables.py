"""Tables of a comparison: a row for each timing or cell of each arm, and the same numbers for a spreadsheet."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd

from vitbench.analysis import timings as samples
from vitbench.analysis.arms import Run, Trained
from vitbench.analysis.frames import PENDING
from vitbench.analysis.grouped import words
from vitbench.analysis.regressions import IDENTICAL, Change, meanings
from vitbench.analysis.side_by_side import CellRow, SideBySide, TimingRow, verdict
from vitbench.analysis.timings import LEVEL
from vitbench.report.comparisons.comparison_conditions import MOST_NAMED
from vitbench.report.comparisons.forest import accuracy_of
from vitbench.report.document import Block, Heading, bullets, table
from vitbench.report.inline import NOTHING, Md, bold, escape, listed
from vitbench.report.output import Files
from vitbench.report.sections.terms import meanings as of_verdicts
from vitbench.report.text import (
    SURVIVORS,
    accuracy_decimals,
    count,
    fixed,
    plural,
    probability,
    ranging,
    seeds,
    signed,
    significant,
)

Row = TypeVar("Row", TimingRow, CellRow)
Line = dict[str, Any]

OF_MEAN, INTERVAL, P, HOLM = "95 % interval (%)", "95 % interval (points)", "p", "p (Holm)"
MOST_ROWS = 500
"""Rows of a table; what is beyond is in the CSV."""
UNSTABLE = Md("~")
NOT_PLANNED = "not planned"
CELL, PAIR = "arm: cell", "arms: cell"
VERDICT, RATIO, OF_RATIO = "verdict", "ratio", "95 % interval"
DIFFERENCE = "difference (points)"
REFERENCE = Md("reference")
"""The verdict of what the others of a cell are compared with."""


def planned(row: TimingRow | CellRow) -> list[int]:
    """Numbers of the arms that plan what a row is about."""
    of_arms = row.timings if isinstance(row, TimingRow) else row.cells
    return [number for number, each in enumerate(of_arms) if each is not None]


def shared(rows: Sequence[Row]) -> list[Row]:
    """Timings or cells that two arms or more plan."""
    return [row for row in rows if len(planned(row)) > 1]


def timings_frame(found: SideBySide) -> pd.DataFrame:
    """Every timing as numbers, a row for each arm."""
    return pd.DataFrame([_timing(found, row, n) for row in found.timings for n in range(len(found.arms))])


def _timing(found: SideBySide, row: TimingRow, number: int) -> Line:
    timing, change = row.timings[number], row.changes[number]
    values = timing.values if timing else None
    latency = samples.latency(values) if values else None
    ratio = change.ratio if change else None
    return {
        **_where(found, "timing", row, number),
        "state": timing.state if timing else NOT_PLANNED,
        "latency_ms": latency.estimate if latency else math.nan,
        "latency_ms_low": latency.low if latency else math.nan,
        "latency_ms_high": latency.high if latency else math.nan,
        "images_per_s": values.images_per_s if values else math.nan,
        "peak_memory_mib": values.peak_memory_mib if values else math.nan,
        "against": _letter(found, row, number),
        "ratio": ratio.estimate if ratio else math.nan,
        "ratio_low": ratio.low if ratio else math.nan,
        "ratio_high": ratio.high if ratio else math.nan,
        "change": change.word if change else "",
        "equivalent_within": found.margin,
        "unstable": "; ".join(timing.unstable) if timing else "",
    }


def _accuracy(found: SideBySide, row: CellRow, number: int) -> Line:
    cell, judged = row.cells[number], row.judged[number]
    estimate = accuracy_of(cell)
    return {
        **_where(found, "cell", row, number),
        "states": words(cell.states) if cell else NOT_PLANNED,
        "seeds": len(cell.runs) if cell else 0,
        "test_accuracy_pct": estimate.value if estimate else math.nan,
        "low": estimate.low if estimate else math.nan,
        "high": estimate.high if estimate else math.nan,
        "against": _letter(found, row, number),
        "paired_seeds": judged.n if judged else 0,
        "difference_points": judged.mean if judged else math.nan,
        "difference_low": judged.interval.low if judged else math.nan,
        "difference_high": judged.interval.high if judged else math.nan,
        "p": judged.p if judged else math.nan,
        "p_holm": judged.p_holm if judged else math.nan,
        "verdict": verdict(judged),
        "trained_otherwise_in": "; ".join(row.apart[number]),
    }


def _where(found: SideBySide, kind: str, row: TimingRow | CellRow, number: int) -> Line:
    return {kind: row.label, "arm": found.arms[number].letter, "study": found.arms[number].name}


def _letter(found: SideBySide, row: TimingRow | CellRow, number: int) -> str:
    base = row.bases[number]
    return "" if base is None else found.arms[base].letter


def _runs(found: SideBySide) -> pd.DataFrame:
    """Every finished training run as numbers."""
    lines = [
        {**_where(found, "cell", row, number), "seed": seed, "test_accuracy_pct": run.accuracy_pct,
         "images_per_s": run.images_per_s, "peak_memory_mib": run.peak_memory_mib, "seconds": run.seconds}
        for row in found.cells
        for number, cell in enumerate(row.cells)
        for seed, run in (sorted(cell.runs.items()) if cell else ())
    ]  # fmt: skip
    columns = ["cell", "arm", "study", "seed", "test_accuracy_pct", "images_per_s", "peak_memory_mib", "seconds"]
    return pd.DataFrame(lines, columns=columns)


def timings(found: SideBySide, files: Files) -> list[Block]:
    """Latency, throughput and peak memory of each arm and the ratio to its counterpart, a table for each setting."""
    settings: dict[str, list[TimingRow]] = {}
    for row in shared(found.timings):
        settings.setdefault(row.setting, []).append(row)
    if not settings:
        return []
    column = _ratio_column(found, found.timings)

    def cells(row: TimingRow, number: int) -> dict[str, Md]:
        line, change = _timing(found, row, number), row.changes[number]
        digits = _digits(change)
        latency = Md(f"{significant(line['latency_ms'])}{f' {UNSTABLE}' if line['unstable'] else ''}")
        return {
            "latency (ms)": latency if math.isfinite(line["latency_ms"]) else escape(line["state"]),
            column: _named(found, row, number, fixed(line["ratio"], digits), column),
            VERDICT: _word(row, number),
            OF_RATIO: ranging(line["ratio_low"], line["ratio_high"], digits),
            "images/s": count(line["images_per_s"]),
            # A largest value over processes has no interval, and no word.
            "peak (MiB)": significant(line["peak_memory_mib"]),
        }

    blocks = _of_timings(found)
    for setting, rows in settings.items():
        blocks += [Heading(f"{setting[:1].upper()}{setting[1:]}"), *_table(found, rows, lambda row: row.cell, cells)]
    return [*blocks, Md(f"As numbers: {files.table('timings', timings_frame(found))}.")]


def _of_timings(found: SideBySide) -> list[Block]:
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


def accuracy(found: SideBySide, files: Files) -> list[Block]:
    """Test accuracy of each arm: mean over seeds, its 95 % interval, the number of seeds; then seed by seed."""
    if not shared(found.cells):
        return []
    decimals = _decimals(found)

    def cells(row: CellRow, number: int) -> dict[str, Md]:
        cell, line = row.cells[number], _accuracy(found, row, number)
        return {
            "test accuracy (%)": fixed(line["test_accuracy_pct"], decimals) if line["seeds"] else _absence(cell),
            OF_MEAN: ranging(line["low"], line["high"], decimals),
            "seeds": seeds(line["seeds"], cell.states.total() if cell and line["seeds"] else 0),
        }

    lines = [_accuracy(found, row, n) for row in found.cells for n in range(len(found.arms))]
    return [
        Md("Mean over seeds, and the 95 % interval of that mean."),
        *_table(found, shared(found.cells), lambda row: row.label, cells),
        *_paired(found),
        Md(f"As numbers: {files.table('accuracy', pd.DataFrame(lines))}."),
    ]


def _paired(found: SideBySide) -> list[Block]:
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
        lines = [_judged(found, row, number) for row, number in judged[:MOST_ROWS]]
        blocks.append(table(lines, {"seeds", DIFFERENCE, INTERVAL, P, HOLM}))
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


def _judged(found: SideBySide, row: CellRow, number: int) -> dict[str, Md]:
    judged, base, decimals = row.judged[number], row.bases[number], _decimals(found) + 1
    assert judged is not None and base is not None
    survivors = f" of {judged.comparison.planned} {SURVIVORS}" if judged.survivors else ""
    line = {
        PAIR: escape(f"{found.against(number, base)}: {row.label}"),
        VERDICT: bold(escape(verdict(judged))),
        DIFFERENCE: signed(judged.mean, decimals),
        INTERVAL: ranging(judged.interval.low, judged.interval.high, decimals, sign=True),
        HOLM: probability(judged.p_holm),
        P: probability(judged.p),
        "seeds": Md(f"{judged.n}{survivors}"),
    }
    if any(apart for each in found.cells for apart in each.apart):
        line["trained otherwise in"] = escape("; ".join(row.apart[number]) or "nothing")
    return line


def training(found: SideBySide, files: Files) -> list[Block]:
    """Throughput, memory and time of the training runs themselves: medians over seeds."""
    if not shared(found.cells):
        return []

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

    explained = (
        "Throughput of the median step, as all values here the median over seeds. Runs are not made side by side "
        "as timings are, and their ratios have no interval: above 1 is faster, if by more than what the machine did "
        "otherwise at the time."
    )
    return [
        Md(explained),
        *_table(found, shared(found.cells), lambda row: row.label, cells),
        Md(f"Every run: {files.table('training-runs', _runs(found))}."),
    ]


def _table(
    found: SideBySide, rows: Sequence[Row], label: Callable[[Row], str], cells: Callable[[Row, int], Mapping[str, Md]]
) -> list[Block]:
    """Rows of each arm that plans what a row is about, one below the other, with the cells of each arm."""
    lines: list[dict[str, Md]] = []
    for row in rows:
        lines += [{CELL: escape(f"{found.arms[n].letter}: {label(row)}"), **cells(row, n)} for n in planned(row)]
    return [table(lines[:MOST_ROWS], {column for line in lines for column in line} - {CELL, VERDICT}), *_beyond(lines)]


def _beyond(rows: Sequence[object]) -> list[Md]:
    more = f"Of {plural(len(rows), 'row')} the first {MOST_ROWS} are shown; all are in the table of numbers."
    return [Md(more)] if len(rows) > MOST_ROWS else []


def _digits(change: Change | None) -> int:
    """Decimals of a ratio: as many as it takes to see that an interval excludes 1, where it does."""
    if change is None or change.ratio is None or change.ratio.estimate >= 10:
        return 1
    ends = [end for end in (change.ratio.low, change.ratio.high) if change.judged and not change.ratio.holds(1.0)]
    return next((n for n in range(3, 6) if all(round(end, n) != 1.0 for end in ends)), 6)


def _ratio_column(found: SideBySide, rows: Sequence[TimingRow] | Sequence[CellRow]) -> str:
    """The head of a column of ratios: with the arm that all are compared with, where it is one."""
    bases = {base for row in rows for base in row.bases if base is not None}
    return f"{RATIO} to {found.arms[bases.pop()].letter}" if len(bases) == 1 else RATIO


def _named(found: SideBySide, row: TimingRow | CellRow, number: int, ratio: Md, column: str) -> Md:
    """A ratio, and of which arms it is one where the column's head does not say it."""
    if row.bases[number] is None or ratio == NOTHING or column != RATIO:
        return ratio
    return Md(f"{ratio} ({found.arms[number].letter}/{_letter(found, row, number)})")


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
