"""Curves: loss and accuracy by epoch, and what training runs measured along an axis of numbers."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from vitbench.analysis.frames import level, where
from vitbench.analysis.grouped import ACCURACY, texts
from vitbench.config.suite import BETWEEN, in_label
from vitbench.report.document import Block
from vitbench.report.figures.charts import MEAN, MOST_DASHED, Colouring, Curves, Picture, Trends
from vitbench.report.groups import Group
from vitbench.report.output import Files
from vitbench.report.text import Md, slug
from vitbench.report.view import View
from vitbench.wording import plural

MAX_FACETS = 5
MAX_RUNS = 1000  # Single runs that are drawn, shared by panels and colours; the mean is of all
MAX_NAMED_CURVES = MOST_DASHED
OTHERS = "other cells"
VALIDATION, TRAINING, NORM = "validation_accuracy_pct", "train_accuracy_pct", "gradient_norm"
DIGITS = {"train_loss": 5, "validation_loss": 5, TRAINING: 3, VALIDATION: 3, "seconds": 3, NORM: 4}
"""Decimals of the numbers, of which no more have meaning."""
METRICS = {VALIDATION: "validation accuracy (%)", TRAINING: "training accuracy (%)",
           "train_loss": "training loss (nats)",
           NORM: "gradient norm"}  # fmt: skip
"""Columns that are drawn, where the records have them → labels; of training no accuracy where validation took one."""


def learning_curves(view: View, files: Files) -> Iterator[Block]:
    """The curves of each device and environment, and their numbers; nothing where no training run finished."""
    if blocks := [*map(files.picture, pictures(view))]:
        unknown = [NORM] if view.epochs[NORM].isna().all() else []  # of records made before it was
        numbers = view.epochs.drop(columns=["trial_id", *unknown]).round(DIGITS)
        yield from blocks
        yield Md(f"As numbers: {files.table('epochs', numbers)}.")


def pictures(view: View) -> list[Picture]:
    """One picture of every finished run of each group that has one."""
    made = []
    for group in view.groups:
        done = view.done(group, ["trial_id"])
        epochs = where(view.epochs, view.epochs["trial_id"].isin(done["trial_id"]))
        made += [_picture(view, group, epochs)] if len(epochs) else []
    return made


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
    largest = int(drawn.groupby(["facet", "colour"], sort=False, observed=True)["run"].nunique().max())
    most = max(1, MAX_RUNS // len(facets) // (len(colouring.values) + bool(colouring.others)))
    chart = Curves(list(metrics.values()), facet_axis, facets, _frame(drawn, metrics, most), colouring)
    on = group.name
    caption = f"Learning curves of {plural(runs, 'run')} on {on}"
    if largest > 1:
        over = f", whatever their {' and '.join(view.axis_names[axis] for axis in pooled)}" if pooled else ""
        caption += f": thin lines are single runs, thick lines the mean of those of one colour{over}"
    caption += f". Of the runs of one colour in one panel the first {most} are drawn." if largest > most else "."
    if TRAINING in metrics:
        augments = {view.trained[cell].train.augments for cell in cells}
        augmented = {1: " (augmented)", 2: " (augmented, of some cells)"}[len(augments)] if True in augments else ""
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
    colouring = Colouring("", view.in_colour(named), named if len(ranked) > 1 else [], others)
    colour_of = {cell: cell if cell in named else OTHERS for cell in cells}
    return "", [""], colouring, dict.fromkeys(cells, ""), colour_of, []


def _of_a_grid(view: View, cells: Sequence[str]) -> Layout:
    colours, facets = _shared_out(view)
    called = {axis: _named(view, axis, alone=axes == [axis]) for axes in (colours, facets) for axis in axes}
    colour_of, facet_of = (
        {cell: BETWEEN.join(called[axis][view.values_of[cell][axis]] for axis in axes) for cell in cells}
        for axes in (colours, facets)
    )
    labels, panels = (
        [BETWEEN.join(values) for values in itertools.product(*(called[axis].values() for axis in axes))]
        for axes in (colours, facets)
    )
    pooled = [axis for axis in view.axes if axis not in (*colours, *facets, *view.equivalent_axes)]
    colouring = Colouring(", ".join(view.axis_names[axis] for axis in colours), labels, labels)
    present = [panel for panel in panels if panel in set(facet_of.values())]
    return view.axis_names[facets[0]] if len(facets) == 1 else "", present, colouring, facet_of, colour_of, pooled


def _shared_out(view: View) -> tuple[list[str], list[str]]:
    """The axes of the colours, and those of the panels: all that matter, as far as there are colours and panels.

    Axes that change what is classified have panels, and so have those that no hypothesis is about; the others share
    the colours, so that what a hypothesis compares stands in one panel. Equivalent implementations share their lines.
    """
    tested = {hypothesis.axis for hypothesis in view.study.info.facts}
    equivalent = [axis for axis in view.telling if axis in view.equivalent_axes]
    telling = [axis for axis in view.telling if axis not in equivalent] or equivalent[:1]
    telling.sort(key=lambda axis: axis in view.task_axes)
    first, *others = telling
    compared = [axis for axis in others if axis in tested and axis not in view.task_axes]
    if len(compared) == len(others):
        compared = compared[:-1]  # one is the panels'
    rest = [axis for axis in reversed(others) if axis in view.task_axes]
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
    values = {level(value): in_label(axis, value, view.axes) for value in view.study.info.axes[axis]}
    return {text: text if alone else values[text] for text in view.axes[axis]}


def _frame(epochs: pd.DataFrame, metrics: Mapping[str, str], most: int) -> pd.DataFrame:
    """The curves of the first so many runs of one colour in one panel, and the mean of all where there are several."""
    panel = ["facet", "colour", "metric"]
    renamed = epochs.rename(columns=metrics)
    tidy = renamed.melt(["facet", "colour", "run", "epoch"], [*metrics.values()], "metric").dropna(subset=["value"])
    runs_of = tidy.groupby(panel, sort=False, observed=True)["run"]
    several = tidy[(runs_of.transform("nunique") > 1) & (tidy["colour"] != OTHERS)]
    tidy["run"] = runs_of.rank("dense").astype(int)
    means = several.groupby([*panel, "epoch"], sort=False, observed=True)["value"].mean().reset_index().assign(run=MEAN)
    runs = tidy[tidy["run"] <= most].astype({"run": str})
    return pd.concat([runs, means.sort_values("epoch", kind="stable")])[[*panel, "run", "epoch", "value"]]


FEWEST = 3  # Numbers of an axis along which there is a trend

MOST_LINES = 8
WIDE = 8.0  # Largest over smallest number, from which the axis is logarithmic


class Quantity(NamedTuple):
    """A column of the training runs that is plotted along an axis: its name and unit."""

    column: str
    name: str
    unit: str
    from_zero: bool


TEST_ACCURACY = Quantity(ACCURACY, "test accuracy", "%", from_zero=False)
THROUGHPUT = Quantity("train_images_per_s", "training throughput", "images/s", from_zero=True)


def trends(view: View, quantity: Quantity) -> list[Picture]:
    """A picture of each axis of numbers for each group, a line for each combination of the others, if they are few.

    There is none of the throughput of runs that shared their machine, which says nothing.
    """
    return [
        picture
        for group in view.groups
        if quantity is TEST_ACCURACY or view.contention[group.device].alone
        for axis in (view.axes if view.factorial else ())
        if (picture := _along(view, group, axis, quantity)) is not None
    ]


def _along(view: View, group: Group, axis: str, quantity: Quantity) -> Picture | None:
    others, numbers = [name for name in view.axes if name != axis], _numbers(view.axes[axis])
    judged = quantity is TEST_ACCURACY
    named = list(dict.fromkeys(_combined(view.runs(group.device, judged=judged), others)))
    runs = view.done(group, judged=judged)
    runs = runs[runs[quantity.column].notna()]
    if numbers is None or len(numbers) < FEWEST or len(named) > MOST_LINES or runs.empty:
        return None
    at, of = np.array(texts(runs[axis]), dtype=np.float64), _combined(runs, others)
    points = pd.DataFrame({"colour": of, "at": at, "value": runs[quantity.column].to_numpy()})
    points = points.iloc[np.lexsort((at, np.array([named.index(name) for name in of])))]
    called, each = view.axis_names[axis], [view.axis_names[name] for name in others]
    legend = tuple(named if others else ())
    chart = Trends(
        called, f"{quantity.name} ({quantity.unit})", numbers, points, Colouring(", ".join(each), legend, legend),
        logarithmic=min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE, from_zero=quantity.from_zero,
    )  # fmt: skip
    by = f", a line for each {' and '.join(each)}" if others else ""
    alt = f"{quantity.name.capitalize()} along {called} on {group.name}{by}"
    name = f"{quantity.name.split()[-1]}-along-{slug(axis, 'axis')}-{group.device}{group.slug}"
    return Picture(name, chart, alt, f"{alt}: points are single runs, lines join their means.")


def _combined(rows: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    columns = [texts(rows[axis]) for axis in axes]
    return [", ".join(values) for values in zip(*columns, strict=True)] if columns else [""] * len(rows)


def _numbers(values: Sequence[str]) -> list[float] | None:
    """The values of an axis in ascending order, where all are numbers."""
    try:
        numbers = sorted(map(float, values))
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None
