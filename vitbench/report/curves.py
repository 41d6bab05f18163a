"""Learning curves: how loss and accuracy came to be, by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitbench.analysis.summary import finished, texts
from vitbench.report import accuracy, canvas
from vitbench.report.canvas import GREY, Colour
from vitbench.report.figures import Picture, place
from vitbench.report.view import View, of_origin, plural

MAX_FACETS = 5
MAX_RUNS = 1000
"""Single runs that are drawn, shared by panels and colours; the mean is of all."""
MAX_MARKED = 20
"""Single runs of one colour in one panel that have marks at their epochs; of more the marks would hide the lines."""
MAX_NAMED_CURVES = 8
OTHERS = "other cells"
METRICS = {"validation_accuracy_pct": "validation accuracy (%)", "train_loss": "train loss (nats)"}


def learning_curves(view: View, device: str) -> list[Picture]:
    """One picture of every finished run on a device, for each origin; nothing where none finished."""
    planned = view.train[view.train["device"] == device]
    origins = view.origins(planned)
    done = finished(planned)
    curves = {o: view.epochs[view.epochs["trial_id"].isin(of_origin(done, o)["trial_id"])] for o in origins}
    return [_picture(view, device, epochs, *place(view, origins, o)) for o, epochs in curves.items() if len(epochs)]


def epochs_table(view: View) -> pd.DataFrame:
    """The curves as numbers, with no more digits than they have meaning."""
    digits = {
        "train_loss": 5,
        "validation_loss": 5,
        "train_accuracy_pct": 3,
        "validation_accuracy_pct": 3,
        "seconds": 3,
    }
    return view.epochs.drop(columns="trial_id").round(digits)


def _picture(view: View, device: str, epochs: pd.DataFrame, on: str, suffix: str) -> Picture:
    metrics = {name: label for name, label in METRICS.items() if epochs[name].notna().any()}
    facet_axis, facets, colour_axis, shades, epochs = _arrange(view, device, epochs)
    # Runs by number, and no column but what is drawn: the epochs of many runs are taken apart for every panel.
    epochs = epochs[["epoch", "facet", "colour", *metrics]].assign(run=pd.factorize(epochs["trial_id"])[0])
    bundles: dict[str, dict[str, pd.DataFrame]] = {facet: {} for facet in facets}
    for (facet, colour), bundle in epochs.groupby(["facet", "colour"], sort=False):
        bundles[str(facet)][str(colour)] = bundle
    sizes = [bundle["run"].nunique() for panel in bundles.values() for bundle in panel.values()]
    few = epochs["epoch"].nunique() == 1

    def build() -> Figure:
        width = 1.1 + (5.2 if len(facets) == 1 else 2.4 * len(facets))
        figure = Figure(figsize=(width, 0.9 + 2.2 * len(metrics)), layout="constrained")
        grid = figure.subplots(len(metrics), len(facets), sharex=True, sharey="row", squeeze=False)
        for row, (metric, label) in enumerate(metrics.items()):
            for column, facet in enumerate(facets):
                ax = grid[row, column]
                _curves(ax, bundles[facet], metric, shades, panels=len(facets))
                if column == 0:
                    ax.set_ylabel(label)
                if row == 0 and facet:
                    ax.set_title(f"{canvas.shorten(facet_axis, 20)} = {canvas.shorten(facet, 20)}", fontsize=8.5)
        for ax in grid[-1]:
            ax.set_xlabel("epoch")
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        if len(shades) > 1 or colour_axis:
            canvas.legend(figure, colour_axis, shades)
        return figure

    said = f"Learning curves of {plural(sum(sizes), 'run')} on {device}{on}"
    said += ": thin lines are single runs, thick lines the mean of those of one colour." if max(sizes) > 1 else "."
    if max(sizes) > MAX_RUNS // len(facets) // len(shades):
        said += f" Of the runs of one colour in one panel the first {MAX_RUNS // len(facets) // len(shades)} are drawn."
    said += " One epoch was trained: each run is a point." if few else ""
    alt = f"Learning curves on {device}{on}: {' and '.join(metrics.values())} by epoch"
    return Picture(f"curves-{device}{suffix}", build, alt, said)


def _arrange(
    view: View, device: str, epochs: pd.DataFrame
) -> tuple[str, list[str], str, dict[str, Colour], pd.DataFrame]:
    """(axis of the panels, its values, axis of the colours, their values' colours, epochs with facet and colour)."""
    if view.factorial:
        colour_axis, *rest = view.telling
        facet_axis = next((axis for axis in rest if len(view.axes[axis]) <= MAX_FACETS), "")
        names = texts(epochs[colour_axis])
        facet_of = texts(epochs[facet_axis]) if facet_axis else [""] * len(epochs)
        facets = [value for value in view.axes[facet_axis] if value in facet_of] if facet_axis else [""]
        shades = canvas.colours(view.axes[colour_axis])
        return facet_axis, facets, colour_axis, shades, epochs.assign(facet=facet_of, colour=names)
    present = set(epochs["cell"].unique())
    ranked = [cell for cell in accuracy.ranked_cells(view, device) if cell in present]
    named = ranked if len(ranked) <= MAX_NAMED_CURVES else ranked[: MAX_NAMED_CURVES - 1]
    shades = canvas.colours(named)
    if len(named) < len(ranked):
        shades[OTHERS] = GREY
    colour = [cell if cell in named else OTHERS for cell in epochs["cell"].tolist()]
    return "", [""], "", shades, epochs.assign(facet="", colour=colour)


def _curves(
    ax: Axes, bundles: Mapping[str, pd.DataFrame], metric: str, shades: dict[str, Colour], *, panels: int
) -> None:  # fmt: skip
    """Single runs, the first of many, and the mean of all; a bundle holds the epochs of the runs of one colour."""
    ax.grid(color="0.93", linewidth=0.8)
    ax.set_axisbelow(True)
    shown = MAX_RUNS // panels // len(shades)
    for name, shade in reversed(shades.items()):
        if name not in bundles:
            continue
        mine = bundles[name][bundles[name][metric].notna()]
        ids = mine["run"].unique()
        some = mine if len(ids) <= shown else mine[mine["run"].isin(ids[:shown])]
        runs = _apart(some, metric)
        marker = "o" if mine["epoch"].nunique() <= 3 else ""
        faint = max(0.12, min(0.4, 10 / max(len(runs), 1)))  # so that a bundle of lines keeps its structure
        thin = len(runs) > 1 or name == OTHERS
        if len(runs) > MAX_MARKED:
            _bundle(ax, runs, shade, faint)
        else:
            for run in runs:
                ax.plot(*run.T, color=shade, lw=0.7 if thin else 1.8, alpha=faint if thin else 1.0, marker=marker,
                        markersize=3)  # fmt: skip
        if len(runs) > 1 and name != OTHERS:
            mean = mine.groupby("epoch", sort=True)[metric].mean()
            ax.plot(mean.index, mean.to_numpy(), color=shade, linewidth=2, marker=marker, markersize=5)
    ax.autoscale_view()  # a collection does not ask for it


def _apart(epochs: pd.DataFrame, metric: str) -> list[npt.NDArray[np.float64]]:
    """Each run's points (epoch, value), the runs in the order of their first epochs."""
    ordered = epochs.sort_values("run", kind="stable")
    points = ordered[["epoch", metric]].to_numpy(np.float64)
    starts = np.flatnonzero(np.diff(ordered["run"].to_numpy())) + 1
    return np.split(points, starts) if len(points) else []


def _bundle(ax: Axes, runs: Sequence[npt.NDArray[np.float64]], shade: Colour, alpha: float) -> None:
    """Thin lines without marks, points where there is one epoch; all at once, since a thousand calls take seconds."""
    if all(len(run) == 1 for run in runs):
        ax.plot(*np.concatenate(runs).T, color=shade, alpha=alpha, linestyle="none", marker="o", markersize=3)
        return
    ax.add_collection(LineCollection(runs, colors=shade, linewidths=0.7, alpha=alpha, capstyle="projecting",
                                     joinstyle="round", zorder=2))  # fmt: skip
