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
from vitbench.report.output import Files
from vitbench.report.text import accuracy_decimals, cut, distinct, fixed, interval_text

MOST = 40
"""Rows of a plot; what is beyond is in the tables."""


def ratios(found: SideBySide, files: Files) -> list[Block]:
    """Latency of each arm over that of its counterpart, a row for each timing that both have; nothing without any."""
    timings = [row for row in found.timings if any(change and change.ratio for change in row.changes)]
    rows = [
        ForestRow(
            name, f"{found.arms[number].letter}/{found.arms[base].letter}",
            Bar(change.ratio.estimate, change.ratio.low, change.ratio.high),
            (f"×{fixed(change.ratio.estimate, 3)}", interval_text(change.ratio.low, change.ratio.high, 3)), change.word,
        )
        for row, name in zip(timings, distinct([_parts(row) for row in timings], keep=1), strict=True)
        for number, change in enumerate(row.changes)
        if change is not None and change.ratio is not None and (base := row.bases[number]) is not None
    ]  # fmt: skip
    scale = Scale(1.0, within(found.margin), logarithmic=True)
    band = f"margin: {100 * found.margin:g} %"
    return _plot("latency-ratios", "Latency ratio (above 1 is slower)", rows, scale, files, band=band)


def accuracies(found: SideBySide, files: Files) -> list[Block]:
    """Test accuracy by cell, a row for each arm; nothing where fewer than two arms have any."""
    bars = [(row, n, bar) for row in found.cells for n, cell in enumerate(row.cells) if (bar := accuracy_of(cell))]
    decimals = decimals_of(found)
    rows = [
        ForestRow(row.label, found.arms[n].letter, bar,
                  (fixed(bar.value, decimals), interval_text(bar.low, bar.high, decimals)), "")
        for row, n, bar in bars
    ]  # fmt: skip
    return _plot("accuracy", "Test accuracy (%)", rows if len({n for _, n, _ in bars}) > 1 else [], Scale(), files)


def _plot(
    name: str, title: str, rows: Sequence[ForestRow], scale: Scale, files: Files, *, band: str = ""
) -> list[Block]:  # fmt: skip
    if not rows:
        return []
    return [files.forest(name, Forest(title, tuple(rows[:MOST]), scale, band)), *cut(len(rows), MOST)]


def decimals_of(found: SideBySide) -> int:
    """Decimals of accuracies that the test images of all arms resolve."""
    sizes = [size for arm in found.arms if math.isfinite(size := float(arm.trials["test_images"].min()))]
    return accuracy_decimals(min(sizes, default=math.nan))


def accuracy_of(cell: Trained | None) -> Bar | None:
    """Mean test accuracy over seeds, percent, with its 95 % interval; None where there is no result."""
    if cell is None or not cell.runs:
        return None
    values = tuple(run.test_accuracy_pct for _, run in sorted(cell.runs.items()))
    width = interval(values)
    return Bar(math.fsum(values) / len(values), width.low, width.high, values if len(values) > 1 else ())


def _parts(row: TimingRow) -> list[str]:
    """What tells a timing from others, as far as it goes: the cell first, then its setting."""
    trial = row.planned.trial
    assert isinstance(trial, TimeTrial)
    part = "" if trial.level == "model" else f"{trial.level} ({trial.shape})"
    return [row.cell, trial.mode, part, f"batch {trial.batch_size}", trial.dtype]
