"""Comparison: several studies side by side, as a page and as Markdown, with pictures and tables beside them.

Like a study's report it is a pure function of what the studies hold: rendered twice it is the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from vitbench.analysis.side_by_side import SideBySide
from vitbench.config.base import uncollected_so_far
from vitbench.report.comparisons import comparison_conditions as conditions
from vitbench.report.comparisons import comparison_tables as tables
from vitbench.report.comparisons import forest, limits, verdict_counts
from vitbench.report.document import Document, Section, bullets
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.output import Files


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
    """The comparison; its figures and tables are added to ``files``."""
    names = dict.fromkeys(arm.study_name for arm in found.arms)
    plots = [*forest.ratios(found, files), *forest.accuracies(found, files)]
    sections = [
        Section("Summary", [*verdict_counts.verdicts(found), *plots]),
        Section("What is compared", conditions.conditions(found)),
        Section("Timings", tables.timings(found, files), folded=True),
        Section("Accuracy", tables.accuracy(found, files), folded=True),
        Section("Training runs", tables.training(found, files), folded=True),
        Section("Caveats", [bullets([sentence for _, sentence in limits.stated(found)])]),
        Section("What only some have", conditions.alone(found), folded=True),
        Section("What is the same", conditions.alike(found), folded=True),
    ]
    opening = [verdict_counts.differences(found)]
    return Document(f"Comparison: {', '.join(names)}", opening, [each for each in sections if each.blocks])
