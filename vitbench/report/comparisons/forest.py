"""Forest plots of a comparison: ratios of timings to their counterparts', and test accuracy by cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vitbench.analysis.arms import Trained
from vitbench.analysis.paired import interval
from vitbench.analysis.regressions import within
from vitbench.analysis.side_by_side import SideBySide, TimingRow
from vitbench.config.trial import TimeTrial
from vitbench.report.document import Bar, Block, Forest, ForestRow, Scale
from vitbench.report.inline import NOTHING, Md
from vitbench.report.output import Files
from vitbench.report.text import accuracy_decimals, fixed, plural, ranging

MOST = 40
"""Rows of a plot; what is beyond is in the tables."""


def ratios(found: SideBySide, files: Files) -> list[Block]:
    """Latency of each arm over that of its counterpart, a row for each timing that both have; nothing without any."""
    timings = [row for row in found.timings if any(change and change.ratio for change in row.changes)]
    names = _short([_parts(row) for row in timings])
    rows = [
        ForestRow(
            name, f"{found.arms[number].letter}/{found.arms[base].letter}",
            Bar(change.ratio.estimate, change.ratio.low, change.ratio.high),
            (f"×{fixed(change.ratio.estimate, 3)}", _ends(change.ratio.low, change.ratio.high, 3)), change.word,
        )
        for row, name in zip(timings, names, strict=True)
        for number, change in enumerate(row.changes)
        if change is not None and change.ratio is not None and (base := row.bases[number]) is not None
    ]  # fmt: skip
    scale = Scale(1.0, within(found.margin), logarithmic=True)
    band = f"margin: {100 * found.margin:g} %"
    return _plot("latency-ratios", "Latency ratio (above 1 is slower)", rows, scale, files, band=band)


def accuracies(found: SideBySide, files: Files) -> list[Block]:
    """Test accuracy by cell, a row for each arm; nothing where fewer than two arms have any."""
    having = {n for n in range(len(found.arms)) if any(accuracy_of(row.cells[n]) for row in found.cells)}
    if len(having) < 2:
        return []
    sizes = [size for arm in found.arms if math.isfinite(size := float(arm.trials["test_images"].min()))]
    decimals = accuracy_decimals(min(sizes, default=math.nan))
    rows = [
        ForestRow(
            row.label, found.arms[n].letter, bar,
            (fixed(bar.value, decimals), _ends(bar.low, bar.high, decimals)), "",
        )
        for row in found.cells
        for n in sorted(having)
        if (bar := accuracy_of(row.cells[n])) is not None
    ]  # fmt: skip
    return _plot("accuracy", "Test accuracy (%)", rows, Scale(), files)


def _plot(
    name: str, title: str, rows: Sequence[ForestRow], scale: Scale, files: Files, *, band: str = ""
) -> list[Block]:  # fmt: skip
    if not rows:
        return []
    more = [Md(f"Of {plural(len(rows), 'row')} the first {MOST} are shown.")] if len(rows) > MOST else []
    return [files.forest(name, Forest(title, tuple(rows[:MOST]), scale, band)), *more]


def _ends(low: float, high: float, decimals: int) -> str:
    ends = ranging(low, high, decimals)
    return "" if ends == NOTHING else ends


def accuracy_of(cell: Trained | None) -> Bar | None:
    """Mean test accuracy over seeds, percent, with its 95 % interval; None where there is no result."""
    if cell is None or not cell.runs:
        return None
    values = tuple(run.accuracy_pct for _, run in sorted(cell.runs.items()))
    width = interval(values)
    return Bar(math.fsum(values) / len(values), width.low, width.high, values if len(values) > 1 else ())


def _parts(row: TimingRow) -> list[str]:
    """What tells a timing from others, as far as it goes: the cell first, then its setting."""
    trial = row.planned.trial
    assert isinstance(trial, TimeTrial)
    part = "" if trial.level == "model" else f"{trial.level} ({trial.shape})"
    return [row.cell, trial.mode, part, f"batch {trial.batch_size}", trial.dtype]


def _short(timings: Sequence[list[str]]) -> list[str]:
    """Names of timings without what it does not take to tell them apart."""
    kept = list(range(len(timings[0]))) if timings else []
    for place in reversed(kept[1:]):
        fewer = [each for each in kept if each != place]
        if len({tuple(parts[n] for n in fewer) for parts in timings}) == len(timings):
            kept = fewer
    return [", ".join(parts[n] for n in kept if parts[n]) for parts in timings]
