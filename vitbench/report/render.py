"""Render: the report of one study, as a page and as Markdown, with pictures and tables beside them.

A report is a pure function of the study's plan, records and portraits: rendered twice it is the same bytes. It knows no
date of its own, no path and no machine but those in the records. The page is the Markdown, see
:mod:`vitbench.report.formats.html`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from vitbench.analysis.factorial import LESS
from vitbench.config.base import uncollected_so_far
from vitbench.report import accuracy, images
from vitbench.report.circumstances import account, reproduction
from vitbench.report.cost import costs, goals, pareto
from vitbench.report.document import Block, Document, Heading, Note, Section, bullets, mentions
from vitbench.report.exports import export_mlflow, export_tensorboard
from vitbench.report.figures import cells, curves
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.files import Files
from vitbench.report.findings import axis as of_axis
from vitbench.report.findings import headlines, legends, tuning, verdicts
from vitbench.report.findings.judgements import Place
from vitbench.report.formats import latex
from vitbench.report.markdown import Md, escape
from vitbench.report.models import explained, reconstructions
from vitbench.report.sections import caveats
from vitbench.report.view import View, beyond
from vitbench.store import Study

AXIS = "Axis: "
"""Begins the heading of an axis' section."""
AGAINST = "Cells against "
"""Begins the heading of the section of named cells."""
LONGEST = 60
"""Characters of a cell's label in a heading; a longer one is not named there."""
DAGGER = Md(f"{accuracy.SURVIVORS} mean over survivors: the cell has seeds without a result.")


def render(study: Study, out: Path) -> Path:
    """Write the report of a study: ``index.html``, ``report.md``, ``figures/*.png``, ``*.svg`` and ``*.csv``,
    ``tables/*.csv``.

    Files of the same names are replaced; pictures and tables of an earlier rendering that this one does not write are
    removed. Works from any subset of the study's records.

    Args:
        study: read with :meth:`Study.read`. Record files that turn out damaged are set aside, as always.
        out: folder of the report, e.g. ``reports/components``; made where it is missing.

    Returns:
        The path of ``index.html``.

    Raises:
        ReportError: where the folder cannot be written, or holds a page of somebody else's.
    """
    return render_view(View(study), out)


EXPORTS: Mapping[str, Callable[[View, Document], Mapping[str, str | bytes]]] = {
    "latex": lambda _, document: latex.exported(document),
    "mlflow": lambda view, _: export_mlflow.exported(view),
    "tensorboard": lambda view, _: export_tensorboard.exported(view),
}
"""Name of a further form, and of its folder → the study and its report to files in it."""


def render_view(view: View, out: Path, draw: Draw = drawn, exports: Collection[str] = ()) -> Path:
    """The same of a study that has been read. Exports to trackers hold what these add: ids and the time of writing.

    Args:
        view: the study.
        out: folder of the report.
        draw: draws its figures.
        exports: of :data:`EXPORTS`.

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
    """A study's report; its pictures and tables are added to ``files``."""
    suite = view.study.info.suite
    opening: list[Block] = [Md(f"**Question.** {escape(suite.question)}")]
    opening += [Md(f"**Expected.** {escape(suite.expected)}")] if suite.expected else []
    made = [Section(part.title, part.make(view, files)) for part in _parts(view)]
    opening += map(Note, account.notes(view))
    return Document(suite.name, opening, [section for section in made if section.blocks])


@dataclass(frozen=True)
class Part:
    """A section of the report.

    Attributes:
        title: its heading.
        make: gives its blocks; where there are none it is left out.
    """

    title: str
    make: Callable[[View, Files], list[Block]]


def _parts(view: View) -> list[Part]:
    """The sections, in their order."""
    return [
        Part("In short", _short),
        Part("What ran", _ran),
        Part("Caveats", _caveats),
        Part("Claims", _claims),
        Part("Tuning", _tuning),
        Part("Accuracy", _accuracy),
        *(
            Part(f"{AXIS}{name}", functools.partial(of_axis.section, axis=axis))
            for axis, name in view.axis_names.items()
        ),
        Part(_against(view), _variants),
        Part("Interactions", _interactions),
        Part("Test images", images.section),
        Part("Throughput, latency and memory", costs.throughput),
        Part("Time to accuracy", _goals),
        Part("Accuracy against cost", _fronts),
        Part("Learning curves", _curves),
        Part("Masked pre-training", _pretraining),
        Part("What the models look at", explained.of_study),
        Part("What did not run, and why", _missing),
        Part("Reproduction", _reproduction),
    ]


def _against(view: View) -> str:
    named = f'"{view.first_cell}"' if len(view.first_cell) <= LONGEST else "the first"
    return f"{AGAINST}{named}"


def _short(view: View, files: Files) -> list[Block]:
    blocks = headlines.headlines(view)
    judged = verdicts.frame(view)
    return [*blocks, Md(f"Every comparison as numbers: {files.table('verdicts', judged)}.")] if len(judged) else blocks


def _ran(view: View, files: Files) -> list[Block]:
    link = files.table("trials", view.trials)
    every = Md(f"Every planned trial with its state, settings, values and machine: {link}.")
    return [account.counts(view), account.settings(view), *account.origins(view), every]


def _caveats(view: View, _: Files) -> list[Block]:
    stated = [sentence for _, sentence in caveats.stated(view)]
    return [bullets(stated)] if stated else []


def _claims(view: View, _: Files) -> list[Block]:
    blocks: list[Block] = []
    for place in view.places:
        if place.claims:
            blocks += _at(view, place)
            blocks += [verdicts.claims(view, place.claims), *verdicts.notes(view, [t.judged for t in place.claims])]
            blocks += verdicts.grounds(view, place.claims)
    return [*legends.columns_explained(view, "claims"), *legends.legend_of_outcomes(view), *blocks] if blocks else []


def _variants(view: View, files: Files) -> list[Block]:
    blocks: list[Block] = []
    for place in view.places:
        if place.variants:
            blocks += [*_at(view, place), *files.pictures(of_axis.against_first(view, place))]
            blocks += [*verdicts.compared(view, place.variants, "cell")]
            blocks += [Md(floor)] if (floor := of_axis.noise(view, brief=bool(view.axes))) else []
    return [*legends.columns_explained(view, "variants"), *blocks] if blocks else []


def _interactions(view: View, _: Files) -> list[Block]:
    blocks: list[Block] = []
    for place in view.places:
        if place.interactions:
            blocks += [*_at(view, place), *verdicts.compared(view, place.interactions, "interaction")]
    if blocks:
        row = f"*A: a {LESS} b by C: c {LESS} d*"
        said = (
            "By how much the effect of one axis changes with the value of another, averaged within each seed: better "
        )
        said += (
            f"where it is more in favour of the value, worse where it is less. A row that is called {row} is what a "
        )
        said += "does against b with c, less what it does with d."
        return [Md(said), *legends.columns_explained(view, "interactions"), *blocks]
    return [*verdicts.without_interactions(view)]


def _at(view: View, place: Place) -> list[Block]:
    """The heading of one device and origin, where there are several."""
    return [Heading(f"On {view.place_name(place)}")] if len(view.places) > 1 else []


def _reproduction(view: View, _: Files) -> list[Block]:
    return reproduction.blocks(view)


def _goals(view: View, files: Files) -> list[Block]:
    blocks = goals.by_cell(view)
    return [*blocks, Md(f"As numbers: {files.table('goals', goals.frame(view))}.")] if blocks else []


def _tuning(view: View, files: Files) -> list[Block]:
    blocks = tuning.by_cell(view)
    return [*blocks, Md(f"As numbers: {files.table('tuning', tuning.frame(view))}.")] if blocks else []


def _accuracy(view: View, files: Files) -> list[Block]:
    if not view.train_devices:
        return []
    blocks = list[Block]()
    links = [files.table("accuracy", accuracy.by_cell_frame(view))]
    links += [Md(f"by axis {files.table('accuracy-by-axis', accuracy.axes_frame(view))}")] if view.axes else []
    for device in view.train_devices:
        blocks += [Heading(f"On {device}")] if len(view.train_devices) > 1 else []
        if (beside := accuracy.published(view, device)) is not None:
            blocks += [Md("Published and measured test accuracy:"), beside]
        blocks += files.pictures(cells.accuracy_by_cell(view, device))
        found = accuracy.by_cell(view, device)
        blocks += found
        blocks += beyond(view.runs(device))
        blocks += [DAGGER] if mentions(found, accuracy.SURVIVORS) else []
    return [*blocks, Md(f"As numbers: {', '.join(links)}.")]


def _fronts(view: View, files: Files) -> list[Block]:
    blocks: list[Block] = []
    for each in pareto.fronts(view):
        blocks += files.pictures([each.picture]) if each.picture else [escape(each.said)]
        blocks += [each.table] if each.table else []
        blocks += [escape(each.note)] if each.note else []
    if not blocks:
        return [*pareto.without(view)]
    return [*blocks, DAGGER] if mentions(blocks, accuracy.SURVIVORS) else blocks


def _curves(view: View, files: Files) -> list[Block]:
    if not view.train_devices:
        return []
    blocks = [b for device in view.train_devices for b in files.pictures(curves.learning_curves(view, device))]
    if not blocks:
        return [Md("No training run finished.")]
    return [*blocks, Md(f"As numbers: {files.table('epochs', curves.epochs_table(view))}.")]


def _pretraining(view: View, files: Files) -> list[Block]:
    blocks: list[Block] = []
    for sheet in reconstructions.sheets(view):
        blocks.append(files.image(sheet.name, functools.partial(bytes, sheet.png), sheet.alt, sheet.caption))
    return [*blocks, *reconstructions.beyond(view)] if blocks else []


def _missing(view: View, files: Files) -> list[Block]:
    blocks = account.not_run(view)
    if (view.trials["state"] != "ok").any():
        blocks.append(Md(f"Each of them: {files.table('not-run', account.not_run_frame(view))}."))
    return [*blocks, *account.retries(view), *account.left_out(view)]
