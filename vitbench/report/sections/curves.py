"""Learning curves: how loss and accuracy came to be, by epoch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from vitbench.analysis.frames import level, where
from vitbench.analysis.grouped import finished
from vitbench.config.suite import BETWEEN, in_label
from vitbench.config.trial import TrainTrial
from vitbench.report.document import Block
from vitbench.report.figures.charts import MEAN, MOST_DASHED, Colouring, Curves, Picture
from vitbench.report.inline import Md
from vitbench.report.origins import of_origin
from vitbench.report.output import Files
from vitbench.report.view import Group, View
from vitbench.wording import plural

MAX_FACETS = 5
MAX_RUNS = 1000
"""Single runs that are drawn, shared by panels and colours; the mean is of all."""
MAX_NAMED_CURVES = MOST_DASHED
OTHERS = "other cells"
VALIDATION, TRAINING, NORM = "validation_accuracy_pct", "train_accuracy_pct", "gradient_norm"
METRICS = {VALIDATION: "validation accuracy (%)", TRAINING: "training accuracy (%)",
           "train_loss": "training loss (nats)",
           NORM: "gradient norm"}  # fmt: skip
"""What is drawn, as far as the records have it; accuracy in training only where none was taken in validation."""


def learning_curves(view: View, files: Files) -> list[Block]:
    """The curves of each device and origin, and their numbers; nothing where no training run finished."""
    blocks = files.pictures(pictures(view))
    return [*blocks, Md(f"As numbers: {files.table('epochs', epochs_table(view))}.")] if blocks else []


def pictures(view: View) -> list[Picture]:
    """One picture of every finished run of each group that has one."""
    made = []
    for group in view.groups:
        done = of_origin(finished(view.runs(group.device, ["trial_id"])), group.origin)
        epochs = where(view.epochs, view.epochs["trial_id"].isin(done["trial_id"]))
        made += [_picture(view, group, epochs)] if len(epochs) else []
    return made


def epochs_table(view: View) -> pd.DataFrame:
    """The curves as numbers, with no more digits than they have meaning."""
    digits = {
        "train_loss": 5,
        "validation_loss": 5,
        "train_accuracy_pct": 3,
        "validation_accuracy_pct": 3,
        "seconds": 3,
        "gradient_norm": 4,
    }
    unknown = [NORM] if view.epochs[NORM].isna().all() else []  # of records made before it was
    return view.epochs.drop(columns=["trial_id", *unknown]).round(digits)


def _picture(view: View, group: Group, epochs: pd.DataFrame) -> Picture:
    metrics = {name: label for name, label in METRICS.items() if epochs[name].notna().any()}
    if VALIDATION in metrics:
        metrics.pop(TRAINING, None)
    cells = list(epochs["cell"].unique())  # by cell: a million runs have three million epochs
    facet_axis, facets, colouring, facet_of, colour_of, pooled = (
        _of_a_grid(view, cells) if view.factorial else _of_names(view, group, cells)
    )
    ids = epochs["trial_id"]
    recorded, runs = ids[epochs[NORM].notna()].nunique(), ids.nunique()
    # Runs by number, and no column but what is drawn: the epochs of many runs are taken apart for every panel.
    drawn = epochs[["epoch", *metrics]].assign(
        run=pd.factorize(ids)[0], facet=epochs["cell"].map(facet_of), colour=epochs["cell"].map(colour_of)
    )
    largest = int(drawn.groupby(["facet", "colour"], sort=False)["run"].nunique().max())
    most = max(1, MAX_RUNS // len(facets) // (len(colouring.values) + bool(colouring.others)))
    chart = Curves(list(metrics.values()), facet_axis, facets, _frame(drawn, metrics, most), colouring)
    on = group.label or group.device
    caption = f"Learning curves of {plural(runs, 'run')} on {on}"
    if largest > 1:
        over = f", whatever their {' and '.join(view.axis_names[axis] for axis in pooled)}" if pooled else ""
        caption += f": thin lines are single runs, thick lines the mean of those of one colour{over}"
    caption += f". Of the runs of one colour in one panel the first {most} are drawn." if largest > most else "."
    if TRAINING in metrics:
        recipes = {p.cell: p.trial.train for p in view.planned if isinstance(p.trial, TrainTrial)}
        augmented = " (augmented, of some cells)" if any(recipes[cell].augments for cell in cells) else ""
        caption += f" Training accuracy is that of the batches of an epoch{augmented}, while it trains."
    caption += f" Gradient norm: in the records of {recorded} of these runs." if recorded < runs else ""
    alt = f"Learning curves on {on}: {' and '.join(metrics.values())} by epoch"
    return Picture(f"curves-{group.device}{group.slug}", chart, alt, caption)


Layout = tuple[str, list[str], Colouring, Mapping[str, str], Mapping[str, str], list[str]]
"""Axis of the panels (empty where there is none, or where their names tell the axes), names of the panels, what the
colours stand for, cell → panel, cell → colour, and the axes in which runs of one panel and colour may differ."""


def _of_names(view: View, group: Group, cells: Sequence[str]) -> Layout:
    """One panel, a colour for each of the best cells."""
    ranked = [cell for cell in view.ranked(group.device) if cell in set(cells)]
    named = ranked if len(ranked) <= MAX_NAMED_CURVES else ranked[: MAX_NAMED_CURVES - 1]
    others = OTHERS if len(named) < len(ranked) else ""
    colouring = Colouring("", named, named if len(ranked) > 1 else [], others)
    colour_of = {cell: cell if cell in named else OTHERS for cell in cells}
    return "", [""], colouring, dict.fromkeys(cells, ""), colour_of, []


def _of_a_grid(view: View, cells: Sequence[str]) -> Layout:
    """Panels and colours by the values of some axes."""
    colours, facets = _shared_out(view)
    called = {axis: _named(view, axis, alone=axes == [axis]) for axes in (colours, facets) for axis in axes}
    colour_of, facet_of = (
        {cell: BETWEEN.join(called[axis][view.values_of(cell)[axis]] for axis in axes) for cell in cells}
        for axes in (colours, facets)
    )
    every, panels = (
        [BETWEEN.join(values) for values in itertools.product(*(called[axis].values() for axis in axes))]
        for axes in (colours, facets)
    )
    pooled = [axis for axis in view.axes if axis not in (*colours, *facets, *view.equivalent_axes)]
    colouring = Colouring(", ".join(view.axis_names[axis] for axis in colours), every, every)
    present = [panel for panel in panels if panel in set(facet_of.values())]
    return view.axis_names[facets[0]] if len(facets) == 1 else "", present, colouring, facet_of, colour_of, pooled


def _shared_out(view: View) -> tuple[list[str], list[str]]:
    """The axes of the colours, and those of the panels: all that matter, as far as there are colours and panels.

    Axes that change what is classified have panels, and so have those that no claim is about; axes of claims share the
    colours, so that what a claim compares stands in one panel. Equivalent implementations share their lines.
    """
    claimed = {fact.axis for fact in view.study.info.facts}
    equivalent = [axis for axis in view.telling if axis in view.equivalent_axes]
    telling = [axis for axis in view.telling if axis not in equivalent] or equivalent[:1]
    telling.sort(key=lambda axis: axis in view.conditions)
    first, *others = telling
    compared = [axis for axis in others if axis in claimed and axis not in view.conditions]
    if len(compared) == len(others):
        compared = compared[:-1]  # one is the panels'
    rest = [axis for axis in reversed(others) if axis in view.conditions]
    rest += [axis for axis in others if axis not in compared and axis not in rest]
    colours, facets = [first], list[str]()
    for axis in [*compared, *rest]:
        places = ((colours, MAX_NAMED_CURVES), (facets, MAX_FACETS))
        for axes, most in places if axis in compared else reversed(places):
            if math.prod(len(view.axes[each]) for each in (*axes, axis)) <= most:
                axes.append(axis)
                break
    return colours, facets


def _named(view: View, axis: str, *, alone: bool) -> dict[str, str]:
    """Value of an axis → as panels and colours are called: beside values of other axes as in the label of a cell."""
    values = {level(value): in_label(axis, value) for value in view.study.info.axes[axis]}
    return {text: text if alone else values[text] for text in view.axes[axis]}


def _frame(epochs: pd.DataFrame, metrics: Mapping[str, str], most: int) -> pd.DataFrame:
    """The curves of the first so many runs of one colour in one panel, and the mean of all where there are several."""
    panel = ["facet", "colour", "metric"]
    renamed = epochs.rename(columns=metrics)
    tidy = renamed.melt(["facet", "colour", "run", "epoch"], [*metrics.values()], "metric").dropna(subset=["value"])
    tidy["run"] = tidy.groupby(panel, sort=False)["run"].rank("dense").astype(int)
    several = tidy[(tidy.groupby(panel, sort=False)["run"].transform("max") > 1) & (tidy["colour"] != OTHERS)]
    means = several.groupby([*panel, "epoch"], sort=False)["value"].mean().reset_index().sort_values("epoch")
    runs = tidy[tidy["run"] <= most]
    whole = pd.concat([runs.astype({"run": str}), means.assign(run=MEAN)])
    return whole[[*panel, "run", "epoch", "value"]]
