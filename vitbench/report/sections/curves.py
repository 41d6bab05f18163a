"""Learning curves: how loss and accuracy came to be, by epoch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from vitbench.analysis.frames import level, where
from vitbench.analysis.grouped import ACCURACY, finished, texts
from vitbench.config.suite import BETWEEN, in_label
from vitbench.config.trial import TrainTrial
from vitbench.report.document import Block
from vitbench.report.figures.charts import MEAN, MOST_DASHED, Colouring, Curves, Picture
from vitbench.report.inline import Md
from vitbench.report.origins import of_origin
from vitbench.report.output import Files
from vitbench.report.text import plural
from vitbench.report.view import View

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
    blocks = [each for device in view.train_devices for each in files.pictures(_of_device(view, device))]
    return [*blocks, Md(f"As numbers: {files.table('epochs', epochs_table(view))}.")] if blocks else []


def _of_device(view: View, device: str) -> list[Picture]:
    """One picture of every finished run on a device, for each origin; nothing where none finished."""
    runs = view.runs(device, ["trial_id", ACCURACY, "latency_ms_p50"])
    origins, done = view.origins.of(runs), finished(runs)
    curves = {o: where(view.epochs, view.epochs["trial_id"].isin(of_origin(done, o)["trial_id"])) for o in origins}
    return [_picture(view, device, epochs, *view.origins.on(o, origins)) for o, epochs in curves.items() if len(epochs)]


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


def _picture(view: View, device: str, epochs: pd.DataFrame, on: str, suffix: str) -> Picture:
    metrics = {name: label for name, label in METRICS.items() if epochs[name].notna().any()}
    if VALIDATION in metrics:
        metrics.pop(TRAINING, None)
    arranged = _arrange(view, device, epochs)
    facets, colouring, epochs = arranged.facets, arranged.colouring, arranged.epochs
    names = [*colouring.values, *([colouring.others] if colouring.others else [])]
    # Runs by number, and no column but what is drawn: the epochs of many runs are taken apart for every panel.
    cells, ids = set(epochs["cell"].tolist()), epochs["trial_id"]
    recorded = ids[epochs[NORM].notna()].nunique()
    epochs = epochs[["epoch", "facet", "colour", *metrics]].assign(run=pd.factorize(ids)[0])
    sizes = epochs.groupby(["facet", "colour"], sort=False)["run"].nunique()
    most = max(1, MAX_RUNS // len(facets) // len(names))
    chart = Curves(list(metrics.values()), arranged.facet_axis, facets, _frame(epochs, metrics, most), colouring)
    runs = int(sizes.sum())
    said = f"Learning curves of {plural(runs, 'run')} on {device}{on}"
    if sizes.max() > 1:
        pooled = " and ".join(view.axis_names[axis] for axis in arranged.pooled)
        over = f", whatever their {pooled}" if pooled else ""
        said += f": thin lines are single runs, thick lines the mean of those of one colour{over}"
    said += "."
    if sizes.max() > most:
        said += f" Of the runs of one colour in one panel the first {most} are drawn."
    if TRAINING in metrics:
        said += f" Training accuracy is that of {_batches(view, cells)} of an epoch, while it trains."
    if chart.epochs == 1:
        said += " One epoch was trained: each run is a point."
    elif chart.dashed:
        said += " Dashes let lines beneath show through."
    said += _norms(recorded, runs)
    alt = f"Learning curves on {device}{on}: {' and '.join(metrics.values())} by epoch"
    return Picture(f"curves-{device}{suffix}", chart, alt, said)


def _batches(view: View, cells: Collection[str]) -> str:
    """The batches of some cells, by whether their recipes change the images of a batch."""
    changed = {p.trial.train.augments for p in view.planned if isinstance(p.trial, TrainTrial) and p.cell in cells}
    if len(changed) > 1:
        return "the batches, of some cells augmented,"
    return "the augmented batches" if changed == {True} else "the batches"


def _norms(recorded: int, runs: int) -> str:
    """A sentence on gradient norms, where some runs have none."""
    if recorded == runs:
        return ""
    return f" Gradient norm: {f'in the records of {recorded} of' if recorded else 'not in the records of'} these runs."


@dataclass(frozen=True)
class _Arranged:
    """How runs are laid out.

    Attributes:
        facet_axis: axis of the panels; empty where there is none, or their names tell the axes.
        facets: names of the panels.
        colouring: what the colours stand for.
        epochs: the epochs, with columns facet and colour.
        pooled: axes in which runs of one panel and colour may differ, other than those of equivalent implementations.
    """

    facet_axis: str
    facets: Sequence[str]
    colouring: Colouring
    epochs: pd.DataFrame
    pooled: Sequence[str] = ()


def _arrange(view: View, device: str, epochs: pd.DataFrame) -> _Arranged:
    if view.factorial:
        return _of_a_grid(view, epochs)
    present = set(epochs["cell"].unique())
    ranked = [cell for cell in view.ranked(device) if cell in present]
    named = ranked if len(ranked) <= MAX_NAMED_CURVES else ranked[: MAX_NAMED_CURVES - 1]
    colour = [cell if cell in named else OTHERS for cell in epochs["cell"].tolist()]
    named_in_legend = named if len(ranked) > 1 else []
    colouring = Colouring("", named, named_in_legend, OTHERS if len(named) < len(ranked) else "")
    return _Arranged("", [""], colouring, epochs.assign(facet="", colour=colour))


def _of_a_grid(view: View, epochs: pd.DataFrame) -> _Arranged:
    colours, facets = _shared_out(view)
    shown = {axis: _named(view, axis, alone=axes == [axis]) for axes in (colours, facets) for axis in axes}
    cells = epochs.drop_duplicates("cell")  # by cell: a million runs have three million epochs
    of_cell = [
        [BETWEEN.join(values) for values in zip(*([shown[a][v] for v in texts(cells[a])] for a in axes), strict=True)]
        for axes in (colours, facets)
    ]
    every = [
        [BETWEEN.join(values) for values in itertools.product(*(shown[a].values() for a in axes))]
        for axes in (colours, facets)
    ]
    names = of_cell[0], of_cell[1] or [""] * len(cells)
    colour, facet = (epochs["cell"].map(dict(zip(cells["cell"], each, strict=True))).astype(object) for each in names)
    panels = [value for value in every[1] if value in names[1]]
    pooled = [axis for axis in view.axes if axis not in (*colours, *facets, *view.equivalent_axes)]
    colouring = Colouring(", ".join(view.axis_names[axis] for axis in colours), every[0], every[0])
    return _Arranged(view.axis_names[facets[0]] if len(facets) == 1 else "", panels, colouring,
                     epochs.assign(facet=facet, colour=colour), pooled)  # fmt: skip


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
    for axis in compared:
        _added(view, axis, (colours, MAX_NAMED_CURVES), (facets, MAX_FACETS))
    for axis in rest:
        _added(view, axis, (facets, MAX_FACETS), (colours, MAX_NAMED_CURVES))
    return colours, facets


def _added(view: View, axis: str, *places: tuple[list[str], int]) -> None:
    """Add an axis to the first of some lists whose combinations of values are then no more than it holds, if any."""
    for axes, most in places:
        if math.prod(len(view.axes[each]) for each in (*axes, axis)) <= most:
            axes.append(axis)
            return


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
