"""Study report: the report of one study, as a page and as Markdown, with figures and tables beside them.

A report is a pure function of the study's plan, records and explanations: rendered twice it is the same bytes. It
knows no date of its own, no path and no machine but those in the records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from vitbench.config.base import uncollected_so_far
from vitbench.report.document import Block, Document, Section
from vitbench.report.exports import export_explore, export_mlflow, export_tensorboard, export_wandb
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
from vitbench.report.view import View
from vitbench.store import StudyFolder


class Part(NamedTuple):
    """A section of the report.

    Attributes:
        title: its heading.
        blocks: makes its blocks; where there are none it is left out.
        folded: whether a page shows its title alone until a reader opens it.
    """

    title: str
    blocks: Callable[[View, Files], list[Block]]
    folded: bool = False


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


def render(study: StudyFolder, out: Path) -> Path:
    """Write the report of a study: ``index.html``, ``report.md``, ``figures/*.png``, ``*.svg`` and ``*.csv``,
    ``tables/*.csv``.

    Files of the same names are replaced; figures and tables of an earlier rendering that this one does not write are
    removed. Works from any subset of the study's records.

    Args:
        study: read with :meth:`StudyFolder.read`. Record files that turn out damaged are set aside, as always.
        out: folder of the report, e.g. ``reports/components``; made where it is missing.

    Returns:
        The path of ``index.html``.

    Raises:
        ReportError: where the folder cannot be written, or holds a page of somebody else's.
    """
    return render_view(View(study), out)


def render_view(view: View, out: Path, draw: Draw = drawn, exports: Collection[str] = ()) -> Path:
    """Write the report of a study that has been read.

    Args:
        view: the study.
        out: folder of the report.
        draw: draws its figures.
        exports: of :data:`EXPORTS`. Those to trackers hold what these add: ids and the time of writing.

    Raises:
        MissingExtra: where what an export takes is not installed.
    """
    files = Files(draw)
    with uncollected_so_far():
        document = compose(view, files)
        for name in exports:
            files.export(name, EXPORTS[name](view, document))
        return files.write(out, document)


def compose(view: View, files: Files) -> Document:
    """A study's report; its figures and tables are added to ``files``."""
    sections = []
    for part in PARTS:
        sections.append(Section(part.title, part.blocks(view, files), part.folded))
        view.hand_back()
    return Document(_title(view), summary.opening(view), [section for section in sections if section.blocks])


def _title(view: View) -> str:
    """The name of the suite as a title: positions-small is "Positions small"."""
    name = view.study.info.suite.name.replace("-", " ").replace("_", " ")
    return name[:1].upper() + name[1:]
