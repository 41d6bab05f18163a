"""Study report: the report of one study, as a page and as Markdown, with figures and tables beside them.

A report is a pure function of the study's plan, records and explanations: rendered twice it is the same bytes.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vitbench.config.base import uncollected_so_far
from vitbench.report.document import Block, Document, Section, table
from vitbench.report.exports import export_explore, export_mlflow, export_tensorboard, export_wandb
from vitbench.report.exports.export_runs import require
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.formats import latex
from vitbench.report.models import explained_page
from vitbench.report.output import Files
from vitbench.report.sections import (
    accuracy,
    caveats,
    effects,
    failures,
    other_sizes,
    pareto,
    reconstructions,
    reproduce,
    setup,
    summary,
    terms,
    test_images,
    time_to_accuracy,
    timing,
    tuned_settings,
)
from vitbench.report.sections.curves import learning_curves
from vitbench.report.text import NOTHING, Md, escape
from vitbench.report.view import View
from vitbench.store import StudyFolder


class Part(NamedTuple):
    """A section of the report."""

    title: str  # its heading
    blocks: Callable[[View, Files], Iterable[Block]]  # makes its blocks; where there are none it is left out
    folded: bool = False  # whether a page shows its title alone until a reader opens it


PARTS = (
    Part("Summary", summary.section),
    Part("Effects", effects.section),
    Part("Accuracy", accuracy.section),
    Part("Other image sizes", other_sizes.section),
    Part("Speed and memory", timing.section),
    Part("Time to accuracy", time_to_accuracy.section),
    Part("Claims, interactions and margins", effects.details, folded=True),
    Part("Accuracy against cost", pareto.section, folded=True),
    Part("Learning curves", learning_curves, folded=True),
    Part("Masked pre-training", reconstructions.section, folded=True),
    Part("What the models look at", explained_page.of_study, folded=True),
    Part("Test images", test_images.section, folded=True),
    Part("Speed in detail", timing.details, folded=True),
    Part("Caveats", caveats.section, folded=True),
    Part("Failed and skipped trials", failures.section, folded=True),
    Part("Tuning", tuned_settings.section, folded=True),
    Part("Setup", setup.section, folded=True),
    Part("Reproduction", reproduce.section, folded=True),
    Part("How to read this", terms.section, folded=True),
)
"""The sections of a report, in their order: results first."""

EXPORTS: Mapping[str, Callable[[View, Document], Mapping[str, str | bytes]]] = {
    "latex": lambda _, document: latex.exported(document),
    "mlflow": lambda view, _: export_mlflow.exported(view),
    "tensorboard": lambda view, _: export_tensorboard.exported(view),
    "wandb": lambda view, _: export_wandb.exported(view),
    "explore": lambda view, _: export_explore.exported(view),
}
"""Name of a further form, and of its folder → the study and its report to files in it."""

Made = tuple[Path, list[str]]  # Path of a page, and the damaged files of its study that were set aside


def render(view: View, out: Path, draw: Draw = drawn, exports: Collection[str] = ()) -> Path:
    """Write the report of a study: ``index.html``, ``report.md``, ``figures/*.png``, ``*.svg`` and ``*.csv``,
    ``tables/*.csv``; returns the path of the first.

    Files of the same names are replaced; figures and tables of an earlier rendering that this one does not write are
    removed. Works from any subset of the study's records.

    Args:
        view: the study.
        out: folder of the report, made where it is missing.
        draw: draws its figures.
        exports: of :data:`EXPORTS`. Those to trackers hold what these add: ids and the time of writing.

    Raises:
        MissingExtra: where what an export takes is not installed.
        ReportError: where the folder cannot be written, or holds a page of somebody else's.
    """
    files = Files(draw)
    with uncollected_so_far():
        document = compose(view, files)
        for name in exports:
            require(name)
            files.export(name, EXPORTS[name](view, document))
        return files.write(out, document)


def compose(view: View, files: Files, titles: Collection[str] | None = None) -> Document:
    """A study's report, or its sections of some titles; its figures and tables are added to ``files``.

    Suite positions-small is "Positions small".
    """
    sections, name = [], view.study.info.suite.name.replace("-", " ").replace("_", " ")
    for part in PARTS if titles is None else [part for part in PARTS if part.title in titles]:
        sections.append(Section(part.title, [*part.blocks(view, files)], part.folded))
        view.hand_back()
    return Document(name[:1].upper() + name[1:], [*summary.opening(view)], [each for each in sections if each.blocks])


def studies_in(folder: Path) -> list[Path]:
    """The folders of studies in a folder, by name."""
    return sorted(path.parent for path in folder.glob("*/study.json"))


def render_all(folders: Sequence[Path], out: Path, exports: Sequence[str] = (), draw: Draw = drawn) -> Iterable[Made]:
    """Write the report of each study into a folder of its name, and at last ``index.html`` over all of them; see
    :func:`render`.
    """
    rows = list[dict[str, Md]]()
    for folder in folders:
        study = StudyFolder.read(folder)
        view = View(study)
        yield render(view, out / folder.name, draw, exports), study.damaged
        rows.append(_row(view, folder.name))
    files = Files(draw)
    document = Document("Studies", [], [Section("All studies", [table(rows, right=set())])])
    yield files.write(out, document), []


def _row(view: View, name: str) -> dict[str, Md]:
    facts, page = summary.facts(view), PurePosixPath(f"/{name}/index.html").as_uri().removeprefix("file:///")
    return {
        "study": Md(f"**[{escape(name)}]({page})** {escape(view.study.info.suite.question)}"),
        "answer": summary.answer(view),
        **{key: escape(facts.get(key, NOTHING)) for key in ("data", "device", "date")},
    }
