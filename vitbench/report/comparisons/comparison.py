"""Comparison: several studies side by side, as a page and as Markdown, with pictures and tables beside them.

Like a study's report it is a pure function of what the studies hold: rendered twice it is the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from vitbench.analysis.side_by_side import SideBySide
from vitbench.config.base import uncollected_so_far
from vitbench.report.comparisons import comparison_conditions as conditions
from vitbench.report.comparisons import comparison_frames as frames
from vitbench.report.comparisons import comparison_tables as tables
from vitbench.report.comparisons import forest
from vitbench.report.comparisons.comparison_words import caveats, opening
from vitbench.report.document import Block, Document, Section
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.files import Files
from vitbench.report.markdown import Md


def render_comparison(found: SideBySide, out: Path, draw: Draw = drawn) -> Path:
    """Write a comparison: ``index.html``, ``report.md``, ``figures/*.png`` and ``*.csv``, ``tables/*.csv``.

    Args:
        found: the studies, side by side.
        out: folder of the page; made where it is missing. What an earlier rendering left there is replaced.
        draw: draws its figures.

    Returns:
        The path of ``index.html``.

    Raises:
        ReportError: where the folder cannot be written, or holds a page of somebody else's.
    """
    files = Files(draw)
    with uncollected_so_far():
        return files.write(out, compose(found, files))


def compose(found: SideBySide, files: Files) -> Document:
    """The comparison; its pictures and tables are added to ``files``."""
    names = dict.fromkeys(arm.study_name for arm in found.arms)
    sections = [
        Section("What is compared", conditions.conditions(found)),
        Section("Caveats", [caveats(found)]),
        Section("Timings", _timings(found, files)),
        Section("Accuracy", _accuracy(found, files)),
        Section("Training runs", _training(found, files)),
        Section("What only some have", conditions.alone(found)),
        Section("What is the same", conditions.alike(found)),
    ]
    title = f"Comparison: {', '.join(names)}"
    return Document(title, opening(found), [section for section in sections if section.blocks])


def _timings(found: SideBySide, files: Files) -> list[Block]:
    if not tables.shared(found.timings):
        return []
    return [
        *forest.ratios(found, files),
        *tables.of_timings(found),
        *tables.timings(found),
        Md(f"As numbers: {files.table('timings', frames.timings(found))}."),
    ]


def _accuracy(found: SideBySide, files: Files) -> list[Block]:
    if not tables.shared_cells(found.cells):
        return []
    return [
        *forest.accuracies(found, files),
        *tables.accuracy(found),
        *tables.paired(found),
        Md(f"As numbers: {files.table('accuracy', frames.accuracy(found))}."),
    ]


def _training(found: SideBySide, files: Files) -> list[Block]:
    if not tables.shared_cells(found.cells):
        return []
    return [*tables.training(found), Md(f"Every run: {files.table('training-runs', frames.runs(found))}.")]
