"""Learning curves: how loss and accuracy came to be, by epoch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.analysis.summary import finished, texts
from vitbench.report import accuracy
from vitbench.report.charts import Picture
from vitbench.report.marks import Colouring
from vitbench.report.numbers import plural
from vitbench.report.origins import of_origin
from vitbench.report.plane_charts import Bundle, Curves
from vitbench.report.view import View

MAX_FACETS = 5
MAX_RUNS = 1000
"""Single runs that are drawn, shared by panels and colours; the mean is of all."""
MAX_NAMED_CURVES = 8
OTHERS = "other cells"
VALIDATION, TRAINING = "validation_accuracy_pct", "train_accuracy_pct"
METRICS = {VALIDATION: "validation accuracy (%)", TRAINING: "training accuracy (%)",
           "train_loss": "training loss (nats)",
           "gradient_norm": "gradient norm"}  # fmt: skip
"""What is drawn, as far as the records have it; accuracy in training only where none was taken in validation."""


def learning_curves(view: View, device: str) -> list[Picture]:
    """One picture of every finished run on a device, for each origin; nothing where none finished."""
    planned = view.train[view.train["device"] == device]
    origins = view.origins.of(planned)
    done = finished(planned)
    curves = {o: view.epochs[view.epochs["trial_id"].isin(of_origin(done, o)["trial_id"])] for o in origins}
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
    unknown = ["gradient_norm"] if view.epochs["gradient_norm"].isna().all() else []  # of records made before it was
    return view.epochs.drop(columns=["trial_id", *unknown]).round(digits)


def _picture(view: View, device: str, epochs: pd.DataFrame, on: str, suffix: str) -> Picture:
    metrics = {name: label for name, label in METRICS.items() if epochs[name].notna().any()}
    if VALIDATION in metrics:
        metrics.pop(TRAINING, None)
    facet_axis, facets, colouring, epochs = _arrange(view, device, epochs)
    names = [*colouring.values, *([colouring.others] if colouring.others else [])]
    # Runs by number, and no column but what is drawn: the epochs of many runs are taken apart for every panel.
    epochs = epochs[["epoch", "facet", "colour", *metrics]].assign(run=pd.factorize(epochs["trial_id"])[0])
    bundles: dict[str, dict[str, pd.DataFrame]] = {facet: {} for facet in facets}
    for (facet, colour), bundle in epochs.groupby(["facet", "colour"], sort=False):
        bundles[str(facet)][str(colour)] = bundle
    sizes = [bundle["run"].nunique() for panel in bundles.values() for bundle in panel.values()]
    few = epochs["epoch"].nunique() == 1
    most = max(1, MAX_RUNS // len(facets) // len(names))
    panels = {
        (label, facet): {
            name: _bundle(bundle, metric, most, mean=name != OTHERS) for name, bundle in bundles[facet].items()
        }
        for metric, label in metrics.items()
        for facet in facets
    }
    chart = Curves(list(metrics.values()), facet_axis, facets, panels, colouring)
    said = f"Learning curves of {plural(sum(sizes), 'run')} on {device}{on}"
    said += ": thin lines are single runs, thick lines the mean of those of one colour." if max(sizes) > 1 else "."
    if max(sizes) > most:
        said += f" Of the runs of one colour in one panel the first {most} are drawn."
    if TRAINING in metrics:
        said += " Training accuracy is that of the augmented batches of an epoch, while it trains."
    if few:
        said += " One epoch was trained: each run is a point."
    elif len(names) > 1:
        said += " Of lines that coincide each is seen in the gaps of another."
    alt = f"Learning curves on {device}{on}: {' and '.join(metrics.values())} by epoch"
    return Picture(f"curves-{device}{suffix}", chart, alt, said)


def _arrange(view: View, device: str, epochs: pd.DataFrame) -> tuple[str, list[str], Colouring, pd.DataFrame]:
    """(name of the panels' axis, its values, what the colours stand for, epochs with facet and colour)."""
    if view.factorial:
        colour_axis, *rest = view.telling
        facet_axis = next((axis for axis in rest if len(view.axes[axis]) <= MAX_FACETS), "")
        names = texts(epochs[colour_axis])
        facet_of = texts(epochs[facet_axis]) if facet_axis else [""] * len(epochs)
        facets = [value for value in view.axes[facet_axis] if value in facet_of] if facet_axis else [""]
        colouring = Colouring(view.axis_names[colour_axis], view.axes[colour_axis], view.axes[colour_axis])
        return view.axis_names.get(facet_axis, ""), facets, colouring, epochs.assign(facet=facet_of, colour=names)
    present = set(epochs["cell"].unique())
    ranked = [cell for cell in accuracy.ranked_cells(view, device) if cell in present]
    named = ranked if len(ranked) <= MAX_NAMED_CURVES else ranked[: MAX_NAMED_CURVES - 1]
    colour = [cell if cell in named else OTHERS for cell in epochs["cell"].tolist()]
    named_in_legend = named if len(ranked) > 1 else []
    colouring = Colouring("", named, named_in_legend, OTHERS if len(named) < len(ranked) else "")
    return "", [""], colouring, epochs.assign(facet="", colour=colour)


def _bundle(epochs: pd.DataFrame, metric: str, most: int, *, mean: bool) -> Bundle:
    """The curves of the runs of one colour in one panel: of the first so many, and the mean of all of several."""
    known = epochs[epochs[metric].notna()]
    ids = known["run"].unique()
    runs = _apart(known if len(ids) <= most else known[known["run"].isin(ids[:most])], metric)
    if len(ids) < 2 or not mean:
        return Bundle(runs, None)
    means = known.groupby("epoch", sort=True)[metric].mean()
    return Bundle(runs, np.column_stack([means.index.to_numpy(np.float64), means.to_numpy(np.float64)]))


def _apart(epochs: pd.DataFrame, metric: str) -> list[npt.NDArray[np.float64]]:
    """Each run's points (epoch, value), the runs in the order of their first epochs."""
    ordered = epochs.sort_values("run", kind="stable")
    points = ordered[["epoch", metric]].to_numpy(np.float64)
    starts = np.flatnonzero(np.diff(ordered["run"].to_numpy())) + 1
    return np.split(points, starts) if len(points) else []
