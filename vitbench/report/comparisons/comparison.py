"""Comparison: several studies side by side, as a page and as Markdown, with pictures and tables beside them.

Like a study's report it is a pure function of what the studies hold: rendered twice it is the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from vitbench.analysis.side_by_side import SideBySide
from vitbench.report.comparisons import comparison_conditions as conditions
from vitbench.report.comparisons import comparison_frames as frames
from vitbench.report.comparisons import comparison_tables as tables
from vitbench.report.comparisons import forest
from vitbench.report.comparisons.comparison_words import caveats, opening
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.files import MARK, TEMPLATES, Files
from vitbench.report.markdown import Md, escape
from vitbench.report.pages import html
from vitbench.spec.base import uncollected_so_far


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
        text = compose(found, files)
        return files.write(out, text, html.page(text, files.shown))


def compose(found: SideBySide, files: Files) -> str:
    """The page's text; its pictures and tables are added to ``files``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined,
        autoescape=False,  # what comes in is Markdown already: every name in it went through `escape`
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    names = dict.fromkeys(arm.study_name for arm in found.arms)
    page = environment.get_template("comparison.md.j2").render(
        mark=MARK,
        title=escape(f"Comparison: {', '.join(names)}"),
        opening=opening(found),
        compared=conditions.conditions(found),
        caveats=caveats(found),
        timings=_timings(found, files),
        accuracy=_accuracy(found, files),
        training=_training(found, files),
        alone=conditions.alone(found),
        alike=conditions.alike(found),
    )
    return page.rstrip() + "\n"


def _timings(found: SideBySide, files: Files) -> list[Md]:
    if not tables.shared(found.timings):
        return []
    return [
        *files.pictures(forest.ratios(found)),
        *tables.of_timings(found),
        *tables.timings(found),
        Md(f"As numbers: {files.table('timings', frames.timings(found))}."),
    ]


def _accuracy(found: SideBySide, files: Files) -> list[Md]:
    if not tables.shared_cells(found.cells):
        return []
    return [
        *files.pictures(forest.accuracies(found)),
        *tables.accuracy(found),
        *tables.paired(found),
        Md(f"As numbers: {files.table('accuracy', frames.accuracy(found))}."),
    ]


def _training(found: SideBySide, files: Files) -> list[Md]:
    if not tables.shared_cells(found.cells):
        return []
    return [*tables.training(found), Md(f"Every run: {files.table('training-runs', frames.runs(found))}.")]
