"""Plots of a comparison: ratios of timings, and differences in test accuracy."""

from collections.abc import Sequence

from vitbench.analysis.regressions import within
from vitbench.analysis.side_by_side import SideBySide, TimingRow, common_margin, verdict
from vitbench.config.trial import TimeTrial
from vitbench.report.comparisons.comparison_tables import decimals_of
from vitbench.report.document import Bar, Block, Forest, ForestRow, Scale
from vitbench.report.output import Files
from vitbench.report.sections.effects import note_of, scale_of
from vitbench.report.text import UNSTABLE, cut, distinct, fixed, interval_text, signed

MOST = 40  # Rows of a plot; what is beyond is in the tables


def ratios(comparison: SideBySide, files: Files) -> list[Block]:
    """Latency of each arm over that of its counterpart, a row for each timing that both have; nothing without any."""
    rows = [
        ForestRow(
            name, f"{comparison.arms[number].letter}/{comparison.arms[base].letter}",
            Bar(change.ratio.estimate, change.ratio.low, change.ratio.high),
            (f"×{fixed(change.ratio.estimate, 3)}{f' {UNSTABLE}' * change.doubtful}",
             interval_text(change.ratio.low, change.ratio.high, 3)),
            change.word,
        )
        for name, row in names_of(comparison.timings).items()
        for number, change in enumerate(row.changes)
        if change is not None and change.ratio is not None and (base := row.bases[number]) is not None
    ]  # fmt: skip
    scale = Scale(1.0, within(comparison.margin), logarithmic=True)
    band = f"margin: {100 * comparison.margin:g} %"
    return _plot("latency-ratios", "Latency ratio (above 1 is slower)", rows, scale, files, band=band)


def differences(comparison: SideBySide, files: Files) -> list[Block]:
    """Difference in test accuracy of each cell, a row for each arm that is compared seed by seed with another."""
    decimals = decimals_of(comparison) + 1
    rows = [
        ForestRow(
            row.label, comparison.against(number, base),
            Bar(judged.mean, judged.interval.low, judged.interval.high, judged.comparison.deltas),
            (signed(judged.mean, decimals),
             interval_text(judged.interval.low, judged.interval.high, decimals, sign=True)),
            verdict(judged),
        )
        for row in comparison.cells
        for number, (judged, base) in enumerate(zip(row.judged, row.bases, strict=True))
        if judged is not None and judged.n and base is not None
    ]  # fmt: skip
    margin = common_margin(comparison.arms)
    note = note_of(margin, [judged for row in comparison.cells for judged in row.judged if judged is not None])
    return _plot("accuracy", "Difference in test accuracy (points)", rows, scale_of(margin), files, band=note)


def _plot(name: str, title: str, rows: Sequence[ForestRow], scale: Scale, files: Files, *, band: str) -> list[Block]:
    if not rows:
        return []
    return [files.forest(name, Forest(title, tuple(rows[:MOST]), scale, band)), *cut(len(rows), MOST)]


def names_of(rows: Sequence[TimingRow]) -> dict[str, TimingRow]:
    """Timings that two arms have, by the shortest names that tell them apart."""
    compared = [row for row in rows if any(change and change.ratio for change in row.changes)]
    return dict(zip(distinct([_parts(row) for row in compared], keep=1), compared, strict=True))


def _parts(row: TimingRow) -> list[str]:
    """Parts of a timing's name: its cell, then its setting."""
    trial = row.planned.trial
    assert isinstance(trial, TimeTrial)
    part = "" if trial.level == "model" else f"{trial.level} ({trial.shape})"
    return [row.cell, trial.mode, part, f"batch {trial.batch_size}", trial.dtype]
