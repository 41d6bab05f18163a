"""Tables of a comparison: a row for each timing or cell of each arm, and as numbers."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pandas as pd

from vitbench.analysis import timings as samples
from vitbench.analysis.arms import Trained
from vitbench.analysis.grouped import words
from vitbench.analysis.paired import Interval, interval
from vitbench.analysis.regressions import IDENTICAL, meanings
from vitbench.analysis.side_by_side import CellRow, SideBySide, TimingRow, planned, shared, verdict
from vitbench.analysis.timings import LEVEL
from vitbench.report.document import Block, Bullets, Heading, filled, table
from vitbench.report.output import Files
from vitbench.report.sections.terms import meanings as of_verdicts
from vitbench.report.text import (
    NOTHING,
    SURVIVORS,
    UNSTABLE,
    Md,
    accuracy_decimals,
    bold,
    count,
    cut,
    escape,
    fixed,
    probability,
    ranging,
    ratio_ends,
    seeds,
    signed,
    significant,
)
from vitbench.wording import plural

Line = dict[str, Any]

MOST_ROWS = 500  # Rows of a table; what is beyond is in the CSV
NOT_PLANNED = "not planned"
TESTED = ("paired_seeds", "difference_points", "difference_low", "difference_high", "p", "p_holm")
CELL, VERDICT, AGAINST = "arm: cell", "verdict", "against"
WORDS = frozenset({CELL, VERDICT, AGAINST, "trained otherwise in"})  # Columns of text; all others are numbers
OPTIONAL = frozenset({"p", "images/s", "peak (MiB)", "s per run"})


def decimals_of(comparison: SideBySide) -> int:
    """Decimals of accuracies that the test images of all arms resolve."""
    sizes = [size for arm in comparison.arms if math.isfinite(size := float(arm.trials["test_images"].min()))]
    return accuracy_decimals(min(sizes, default=math.nan))


def timings(comparison: SideBySide, files: Files) -> list[Block]:
    """Latency, throughput and peak memory of each arm and the ratio to its counterpart, a table for each setting."""
    settings: dict[str, list[TimingRow]] = {}
    for row in shared(comparison.timings):
        settings.setdefault(row.setting, []).append(row)
    blocks = _terms(comparison) if settings else []
    for setting, rows in settings.items():
        lines = [_timing_shown(comparison, row, number) for row in rows for number in planned(row)]
        blocks += [Heading(f"{setting[:1].upper()}{setting[1:]}"), *_table(lines)]
    return [*blocks, Md(f"As numbers: {files.table('timings', timings_frame(comparison))}.")] if blocks else []


def _terms(comparison: SideBySide) -> list[Block]:
    """Explanations of the numbers and words in tables of timings."""
    changes = [change for row in comparison.timings for change in row.changes if change]
    tested = sum(change.judged and change.word != IDENTICAL for change in changes)
    terms = [escape(each) for each in meanings({change.word for change in changes}, comparison.margin)]
    if any(timing and timing.unstable for row in shared(comparison.timings) for timing in row.timings):
        terms.append(Md(f"{UNSTABLE}: unstable, or a verdict on an unstable timing; the study's own report says why."))
    if tested:
        terms.append(Md(f"No verdict is corrected for the number of ratios: of {plural(tested, 'ratio')} between "
                        f"timings that do not differ, {(1 - LEVEL) * tested:.2g} would be called slower or faster by "
                        "chance."))  # fmt: skip
    return [Md("Ratios are of latencies: above 1 is slower than the reference."), Bullets(terms)]


def _timing_shown(comparison: SideBySide, row: TimingRow, number: int) -> dict[str, Md]:
    line, change = _timing(comparison, row, number), row.changes[number]
    latency = Md(f"{significant(line['latency_ms'])}{f' {UNSTABLE}' if line['unstable'] else ''}")
    ends = ratio_ends(line["ratio_low"], line["ratio_high"], fewest=1 if line["ratio"] >= 10 else 3)
    word = bold(escape(change.word)) if change and change.judged else escape(change.word if change else "")
    word = Md(f"{word} {UNSTABLE}") if change and change.doubtful else word
    return {
        CELL: escape(f"{comparison.arms[number].letter}: {row.cell}"),
        "latency (ms)": latency if math.isfinite(line["latency_ms"]) else escape(line["state"]),
        "ratio": fixed(line["ratio"], 1 if line["ratio"] >= 10 else 3),
        AGAINST: Md(line["against"] or NOTHING),
        VERDICT: word or (Md("ok in neither") if line["against"] else _reference(row, number)),
        "95 % interval": ends,
        "images/s": count(line["images_per_s"]),
        "peak (MiB)": significant(line["peak_memory_mib"]),
    }


def _reference(row: TimingRow | CellRow, number: int) -> Md:
    """The verdict of what the others of a row are compared with; nothing of what is compared with nothing."""
    return Md("reference") if number in row.bases else NOTHING


def accuracy(comparison: SideBySide, files: Files) -> list[Block]:
    """Test accuracy, its difference seed by seed, and the cost of training of each arm."""
    rows = shared(comparison.cells)
    if not rows:
        return []
    words = {verdict(judged) for row in rows for judged in row.judged if judged}
    terms = of_verdicts(words)
    if IDENTICAL in words:
        terms.append(Md("**identical:** every seed gives the same accuracy to the last digit."))
    frame = pd.DataFrame([_accuracy(comparison, row, n) for row in comparison.cells for n in range(len(row.cells))])
    return [
        Md("Accuracy is the mean over seeds, differences are seed by seed against the arm named, p (Holm) is corrected "
           "over the cells of one pair of arms. Training speed, memory and time are medians over seeds; runs of "
           "different studies are not interleaved, so that their ratios say little."),
        *_table([_accuracy_shown(comparison, row, number) for row in rows for number in planned(row)]),
        *([Bullets(terms)] if terms else []),
        Md(f"As numbers: {files.table('accuracy', frame)}; "
           f"every run: {files.table('training-runs', _runs(comparison))}."),
    ]  # fmt: skip


def _accuracy_shown(comparison: SideBySide, row: CellRow, number: int) -> dict[str, Md]:
    line, decimals = _accuracy(comparison, row, number), decimals_of(comparison)
    cell, judged = row.cells[number], row.judged[number]
    assert cell is not None
    without = Md("no common seed on the same images") if line["against"] else _reference(row, number)
    survivors = f" of {judged.comparison.planned} {SURVIVORS}" if judged and judged.survivors else ""
    return {
        CELL: escape(f"{comparison.arms[number].letter}: {row.label}"),
        VERDICT: bold(escape(line["verdict"])) if judged else without,
        AGAINST: Md(line["against"] or NOTHING),
        "difference (points)": signed(line["difference_points"], decimals + 1),
        "95 % interval (points)": ranging(line["difference_low"], line["difference_high"], decimals + 1, sign=True),
        "p (Holm)": probability(line["p_holm"]),
        "p": probability(line["p"]),
        "paired seeds": Md(f"{judged.n}{survivors}") if judged else NOTHING,
        "test accuracy (%)": fixed(line["test_accuracy_pct"], decimals) if line["seeds"] else escape(line["states"]),
        "95 % interval (%)": ranging(line["low"], line["high"], decimals),
        "seeds": seeds(line["seeds"], cell.states.total() if line["seeds"] else 0),
        "trained otherwise in": escape(line["trained_otherwise_in"]) or NOTHING,
        "images/s": count(_median(cell, "images_per_s")),
        "peak (MiB)": significant(_median(cell, "peak_memory_mib")),
        "s per run": significant(_median(cell, "seconds")),
    }


def _median(cell: Trained, column: str) -> float:
    return float(statistics.median([getattr(run, column) for run in cell.runs.values()] or [math.nan]))


def _table(lines: Sequence[dict[str, Md]]) -> list[Block]:
    right = {column for line in lines for column in line} - WORDS
    return [table(filled(lines[:MOST_ROWS]), right, optional=OPTIONAL), *cut(len(lines), MOST_ROWS)]


def timings_frame(comparison: SideBySide) -> pd.DataFrame:
    """Every timing as numbers, a row for each arm."""
    return pd.DataFrame([_timing(comparison, row, n) for row in comparison.timings for n in range(len(row.timings))])


def _timing(comparison: SideBySide, row: TimingRow, number: int) -> Line:
    timing, change = row.timings[number], row.changes[number]
    values = timing.values if timing else None
    return {
        **_where(comparison, "timing", row, number),
        "state": timing.state if timing else NOT_PLANNED,
        **_ends("latency_ms", samples.latency(values) if values else None),
        "images_per_s": values.images_per_s if values else math.nan,
        "peak_memory_mib": values.peak_memory_mib if values else math.nan,
        "against": _letter(comparison, row, number),
        **_ends("ratio", change.ratio if change else None),
        "change": change.word if change else "",
        "equivalent_within": comparison.margin,
        "unstable": "; ".join(timing.unstable) if timing else "",
    }


def _ends(name: str, measured: samples.Measurement | None) -> Line:
    ends = (measured.estimate, measured.low, measured.high) if measured else (math.nan,) * 3
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def _accuracy(comparison: SideBySide, row: CellRow, number: int) -> Line:
    cell, judged = row.cells[number], row.judged[number]
    values = [run.test_accuracy_pct for _, run in sorted(cell.runs.items())] if cell else []
    ends = interval(values) if values else Interval(math.nan, math.nan)
    tested = judged and (judged.n, judged.mean, judged.interval.low, judged.interval.high, judged.p, judged.p_holm)
    return {
        **_where(comparison, "cell", row, number),
        "states": words(cell.states) if cell else NOT_PLANNED,
        "seeds": len(values),
        "test_accuracy_pct": math.fsum(values) / len(values) if values else math.nan,
        "low": ends.low,
        "high": ends.high,
        "against": _letter(comparison, row, number),
        **dict(zip(TESTED, tested or (0, *[math.nan] * 5), strict=True)),
        "verdict": verdict(judged),
        "trained_otherwise_in": "; ".join(row.apart[number]),
    }


def _where(comparison: SideBySide, kind: str, row: TimingRow | CellRow, number: int) -> Line:
    return {kind: row.label, "arm": comparison.arms[number].letter, "study": comparison.arms[number].name}


def _letter(comparison: SideBySide, row: TimingRow | CellRow, number: int) -> str:
    base = row.bases[number]
    return "" if base is None else comparison.arms[base].letter


def _runs(comparison: SideBySide) -> pd.DataFrame:
    columns = ["test_accuracy_pct", "images_per_s", "peak_memory_mib", "seconds"]
    lines = [
        {**_where(comparison, "cell", row, number), "seed": seed, **{name: getattr(run, name) for name in columns}}
        for row in comparison.cells
        for number, cell in enumerate(row.cells)
        for seed, run in (sorted(cell.runs.items()) if cell else ())
    ]
    return pd.DataFrame(lines, columns=["cell", "arm", "study", "seed", *columns])
