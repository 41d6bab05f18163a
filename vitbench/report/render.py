"""Render: the report of one study, as a page and as Markdown, with pictures and tables beside them.

A report is a pure function of the study's plan, records and portraits: rendered twice it is the same bytes. It knows no
date of its own, no path and no machine but those in the records. The page is the Markdown, see
:mod:`vitbench.report.html`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import jinja2

from vitbench.report import (
    account,
    accuracy,
    curves,
    effects,
    explained,
    export_mlflow,
    export_tensorboard,
    figures,
    goals,
    headlines,
    html,
    latex,
    pareto,
    reconstructions,
    roofline,
    speed,
    trends,
    tuning,
    verdicts,
)
from vitbench.report.caveats import caveats
from vitbench.report.charts import Picture
from vitbench.report.files import MARK, Files
from vitbench.report.markdown import Md, escape
from vitbench.report.studio import Draw, at_once
from vitbench.report.view import TimeGroup, View, beyond
from vitbench.spec.base import uncollected_so_far
from vitbench.store import Study

TEMPLATES = Path(__file__).parent / "templates"
MAX_SPEED_PICTURES = 24
"""Pictures of timings in one report; what is beyond is in the tables."""
MAX_COMPARED = 60
"""Rows of a table of comparisons; what is beyond is in the CSV."""
DAGGER = Md(f"{accuracy.SURVIVORS} mean over survivors: the cell has seeds without a result.")


def render(study: Study, out: Path) -> Path:
    """Write the report of a study: ``index.html``, ``report.md``, ``figures/*.png`` and ``*.csv``, ``tables/*.csv``.

    Files of the same names are replaced; pictures and tables of an earlier rendering that this one does not write are
    removed. Works from any subset of the study's records.

    Args:
        study: read with :meth:`Study.read`. Record files that turn out damaged are set aside, as always.
        out: folder of the report, e.g. ``reports/components``; made where it is missing.

    Returns:
        The path of ``index.html``.

    Raises:
        OSError: where the folder cannot be written.
    """
    return render_view(View(study), out)


EXPORTS: Mapping[str, Callable[[View, str], Mapping[str, str | bytes]]] = {
    "latex": lambda _, text: latex.exported(text),
    "mlflow": lambda view, _: export_mlflow.exported(view),
    "tensorboard": lambda view, _: export_tensorboard.exported(view),
}
"""Name of a further form, and of its folder → the study and the report's text to files in it."""


def render_view(view: View, out: Path, draw: Draw = at_once, exports: Collection[str] = ()) -> Path:
    """The same of a study that has been read.

    Args:
        view: the study.
        out: folder of the report.
        draw: draws its pictures, see :class:`vitbench.report.studio.Studio`. Default: here, one after another.
        exports: of :data:`EXPORTS`.

    Raises:
        MissingExtra: where what an export takes is not installed.
    """
    files = Files(draw)
    with uncollected_so_far():
        text = compose(view, files)
        for name in exports:
            files.export(name, EXPORTS[name](view, text))
        return files.write(out, text, html.page(text, files.shown))


def compose(view: View, files: Files) -> str:
    """The page's text; its pictures and tables are added to ``files``."""
    info = view.study.info
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # what comes in is Markdown already: every name in it went through `escape`
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Sections with pictures first: they may be drawn by another process, while this one goes on.
    with_pictures = {
        "curves": _curves(view, files),
        "accuracy": _accuracy(view, files),
        "axes": _axes(view, files),
        "speed": _speed(view, files),
        "fronts": _fronts(view, files),
        "portraits": explained.of_study(view, files),
    }
    page = environment.get_template("report.md.j2").render(
        mark=MARK,
        title=escape(info.suite.name),
        question=escape(info.suite.question),
        expected=escape(info.suite.expected),
        notes=account.notes(view),
        short=headlines.headlines(view),
        ran=[account.counts(view), account.settings(view), *account.origins(view), _all_trials(view, files)],
        caveats=caveats(view),
        verdicts=_verdicts(view, files),
        goals=_goals(view, files),
        tuning=_tuning(view, files),
        pretraining=_pretraining(view, files),
        missing=_missing(view, files),
        reproduction=account.reproduction(view),
        **with_pictures,
    )
    return page.rstrip() + "\n"


def _verdicts(view: View, files: Files) -> list[Md]:
    """Families of comparisons, each with its table: claims, effects of axes, interactions, named cells."""
    blocks: list[Md] = []
    for place in view.places:
        on = f" ({escape(view.place_name(place))})" if len(view.places) > 1 else ""
        if place.claims:
            blocks += _heading(f"Claims{on}")
            blocks += [verdicts.claims(view, place.claims), *verdicts.notes(view, [t.judged for t in place.claims])]
        if place.effects:
            judged = [e.judged for e in place.effects]
            blocks += _heading(f"Effects of axes{on}")
            blocks.append(Md("Main effects, over every matched pair of the grid, averaged within each seed."))
            blocks += [verdicts.effects(view, place.effects), *verdicts.notes(view, judged)]
        for title, name, found in (
            ("Interactions", "interaction", place.interactions),
            ("Cells against the first", "cell", place.variants),
        ):
            if found:
                blocks += _heading(f"{title}{on}")
                blocks += [verdicts.compared(view, found[:MAX_COMPARED], name), *verdicts.notes(view, found)]
                if len(found) > MAX_COMPARED:
                    blocks.append(Md(f"Of {len(found):,} rows the first {MAX_COMPARED} are shown."))
    if blocks:
        blocks += [Md(verdicts.LEGEND), Md(f"As numbers: {files.table('verdicts', verdicts.frame(view))}.")]
    return blocks


def _goals(view: View, files: Files) -> list[Md]:
    blocks = goals.by_cell(view)
    return [*blocks, Md(f"As numbers: {files.table('goals', goals.frame(view))}.")] if blocks else []


def _tuning(view: View, files: Files) -> list[Md]:
    blocks = tuning.by_cell(view)
    return [*blocks, Md(f"As numbers: {files.table('tuning', tuning.frame(view))}.")] if blocks else []


def _accuracy(view: View, files: Files) -> list[Md]:
    if not view.train_devices:
        return [Md("No training is planned.")]
    blocks = []
    link = files.table("accuracy", accuracy.by_cell_frame(view))
    for device in view.train_devices:
        blocks += _heading(f"On {device}") if len(view.train_devices) > 1 else []
        if (beside := accuracy.published(view, device)) is not None:
            blocks += [Md("Published and measured test accuracy:"), beside]
        blocks += _pictures(figures.accuracy_by_cell(view, device), files)
        found = accuracy.by_cell(view, device)
        order = "the highest mean first, in bold" if len(view.by_cell) else "none has a result"
        blocks += [Md(f"Test accuracy by cell on {escape(device)}, {order}."), found]
        blocks += beyond(view.train[view.train["device"] == device])
        blocks += [DAGGER] if accuracy.SURVIVORS in found else []
    return [*blocks, Md(f"As numbers: {link}.")]


def _axes(view: View, files: Files) -> list[Md]:
    if not view.axes or not view.train_devices:
        return []
    link = files.table("accuracy-by-axis", accuracy.axes_frame(view))
    blocks = [Md("The effect of an axis is taken over matched blocks: runs that are alike in every other axis and in "
                 "the seed, where every value of the axis that has any result has one. The first such value is the "
                 "reference. ± is the standard deviation of the differences over blocks.")]  # fmt: skip
    for device in view.train_devices:
        several = len(view.train_devices) > 1
        blocks += _heading(f"On {device}") if several else []
        blocks += _pictures(effects.accuracy_by_axis(view, device), files)
        blocks += _pictures(trends.accuracy_along(view, device), files)
        for axis in view.axes:
            found = accuracy.over_axis(view, device, axis)
            blocks += _heading(axis, level=4 if several else 3)
            blocks += found or [Md("No run of it finished.")]
    return [*blocks, Md(f"As numbers: {link}.")]


def _speed(view: View, files: Files) -> list[Md]:
    blocks = _timings(view, files) if view.time_groups else []
    for device in view.train_devices:
        blocks.append(Md(f"### {escape(device)}, training runs"))
        timed = view.time[(view.time["device"] == device) & (view.time["state"] == "ok")]
        if "train" not in set(timed["mode"]):
            blocks += _pictures(figures.training_speed(view, device), files)
        about = (
            "Throughput and memory of the training runs themselves: images/s of the median step, of the epochs with "
        )
        about += "their data, and of the whole trial, its evaluation and all else (of all "
        about += "seeds of a program, where several are trained as one); "
        blocks += [Md(f"{about}medians over seeds, of memory the largest."), speed.training(view, device)]
        blocks += beyond(view.train[view.train["device"] == device])
    return blocks or [Md("Nothing is planned.")]


def _fronts(view: View, files: Files) -> list[Md]:
    blocks: list[Md] = []
    for each in pareto.fronts(view):
        blocks += [*_pictures([each.picture], files), each.table]
    return [*blocks, DAGGER] if any(accuracy.SURVIVORS in block for block in blocks) else blocks


def _timings(view: View, files: Files) -> list[Md]:
    settings: dict[str, list[TimeGroup]] = {}
    for group in view.time_groups:
        settings.setdefault(group.setting, []).append(group)
    blocks, wanted = _pictures(roofline.rooflines(view), files), 0
    for setting, groups in settings.items():
        blocks.append(Md(f"### {escape(setting if not groups[0].what else setting[:1].upper() + setting[1:])}"))
        pictures = effects.speed_by_axis(view, groups)
        blocks += _pictures(pictures[: max(0, MAX_SPEED_PICTURES - wanted)], files)
        wanted += len(pictures)
        for group in groups:
            pictures = figures.timings(view, group)
            blocks += _heading(group.mode_name.capitalize(), level=4)
            blocks += _pictures(pictures[: max(0, MAX_SPEED_PICTURES - wanted)], files)
            wanted += len(pictures)
            blocks += _timed(view, group)
    if wanted > MAX_SPEED_PICTURES:
        blocks.append(Md(f"Of {wanted} pictures of timings the first {MAX_SPEED_PICTURES} are drawn."))
    links = [files.table("timing", speed.timing_frame(view))]
    links += [files.table("timing-by-axis", speed.axes_frame(view))] if view.axes else []
    return [*blocks, Md(f"As numbers: {', '.join(links)}.")]


def _timed(view: View, group: TimeGroup) -> list[Md]:
    blocks = []
    if by_axis := speed.over_axes(view, group):
        blocks += [Md("By axis: geometric means over matched blocks (all other axes equal)."), *by_axis]
    found, said = speed.by_cell(view, group)
    order = ["By cell, the fastest first; the best of a column is bold."] if said else []
    return [
        *blocks,
        Md(" ".join([*order, *said]) or "By cell; none has a result."),
        found,
        *beyond(view.timings(group)),
        *speed.unstable(view, group),
    ]


def _curves(view: View, files: Files) -> list[Md]:
    if not view.train_devices:
        return [Md("No training is planned.")]
    blocks = [b for device in view.train_devices for b in _pictures(curves.learning_curves(view, device), files)]
    if not blocks:
        return [Md("No training run finished.")]
    return [*blocks, Md(f"As numbers: {files.table('epochs', curves.epochs_table(view))}.")]


def _pretraining(view: View, files: Files) -> list[Md]:
    blocks = []
    for sheet in reconstructions.sheets(view):
        blocks.append(files.image(sheet.name, functools.partial(bytes, sheet.png), sheet.alt))
        blocks.append(Md(f"*{escape(sheet.caption)}*"))
    return blocks


def _missing(view: View, files: Files) -> list[Md]:
    blocks = account.not_run(view)
    if (view.trials["state"] != "ok").any():
        blocks.append(Md(f"Each of them: {files.table('not-run', account.not_run_frame(view))}."))
    return [*blocks, *account.retries(view), *account.left_out(view)]


def _all_trials(view: View, files: Files) -> Md:
    link = files.table("trials", view.trials)
    return Md(f"Every planned trial with its state, settings, values and machine: {link}.")


def _pictures(wanted: Sequence[Picture], files: Files) -> list[Md]:
    return [block for picture in wanted for block in (files.picture(picture), Md(f"*{escape(picture.caption)}*"))]


def _heading(text: str, level: int = 3) -> list[Md]:
    return [Md(f"{'#' * level} {escape(text)}")]
