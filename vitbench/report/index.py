"""Index: all studies of a folder on one page, each with its question, its answer, and a link to its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from vitbench.report.document import Document, Section, table
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.inline import NOTHING, Md, escape
from vitbench.report.output import Files
from vitbench.report.sections import summary
from vitbench.report.study_report import render_view
from vitbench.report.view import View
from vitbench.store import StudyFolder

Row = dict[str, Md]
Made = tuple[Path, list[str]]
"""Path of a page, and the damaged files of its study that were set aside."""


def studies_in(folder: Path) -> list[Path]:
    """The folders of studies in a folder, by name."""
    return sorted(path.parent for path in folder.glob("*/study.json"))


def render_all(folders: Sequence[Path], out: Path, exports: Sequence[str] = (), draw: Draw = drawn) -> Iterable[Made]:
    """Write the report of each study, and at last ``index.html`` over all of them; their paths, and what was set aside.

    Args:
        folders: of the studies, each with another name.
        out: gets a folder for each study.
        exports: of :data:`vitbench.report.study_report.EXPORTS`.
        draw: draws the figures.

    Raises:
        ReportError: where a folder cannot be written, or holds a page of somebody else's.
    """
    rows = list[Row]()
    for folder in folders:
        study = StudyFolder.read(folder)
        view = View(study)
        yield render_view(view, out / folder.name, draw, exports), study.damaged
        rows.append(_row(view, folder.name))
    files = Files(draw)
    document = Document("Studies", [], [Section("All studies", [table(rows, right=set())])])
    yield files.write(out, document), []


def _row(view: View, name: str) -> Row:
    """A study by one row."""
    facts, page = summary.facts(view), PurePosixPath(f"/{name}/index.html").as_uri().removeprefix("file:///")
    return {
        "study": Md(f"[{escape(name)}]({page})"),
        "question": escape(view.study.info.suite.question),
        "answer": summary.answer(view),
        **{key: escape(facts.get(key, NOTHING)) for key in ("data", "device", "date")},
    }
