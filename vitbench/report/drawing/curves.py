"""Drawing of learning curves: thin lines are single runs, thick lines their means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitbench.report.charts import Bundle, Curves
from vitbench.report.drawing.parts import Colour, colours_of, legend, shorten

MAX_MARKED = 20
"""Single runs of one colour in one panel that have marks at their epochs; of more the marks would hide the lines."""
MAX_EPOCHS_MARKED = 3
"""Epochs of a row of panels whose curves have marks at them: of so few a line does not show how many there are."""


MOST_STEPS = 150
"""Points of a curve that are drawn: a panel is some 250 pixels wide."""


def figure(chart: Curves) -> Figure:
    """The figure: rows share their y axis, all panels the epochs."""
    facets, metrics, shades = chart.facets, chart.metrics, colours_of(chart.colouring)
    width = 1.1 + (5.2 if len(facets) == 1 else 2.4 * len(facets))
    made = Figure(figsize=(width, 0.9 + 2.2 * len(metrics)), layout="constrained")
    grid = made.subplots(len(metrics), len(facets), sharex=True, sharey="row", squeeze=False)
    for row, metric in enumerate(metrics):
        of_row = [chart.panels[metric, facet] for facet in facets]
        marked = len({epoch for panel in of_row for epoch in _epochs(panel.values())}) <= MAX_EPOCHS_MARKED
        for column, (facet, bundles) in enumerate(zip(facets, of_row, strict=True)):
            ax = grid[row, column]
            _panel(ax, bundles, shades, grey=chart.colouring.others, marked=marked)
            if column == 0:
                ax.set_ylabel(metric)
            if row == 0 and facet:
                ax.set_title(f"{shorten(chart.facet_axis, 20)} = {shorten(facet, 20)}", fontsize=8.5)
    for ax in grid[-1]:
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    legend(made, chart.colouring)
    return made


def _panel(ax: Axes, bundles: Mapping[str, Bundle], shades: dict[str, Colour], *, grey: str, marked: bool) -> None:
    ax.grid(color="0.93", linewidth=0.8)
    ax.set_axisbelow(True)
    for name, shade in reversed(shades.items()):
        if name not in bundles:
            continue
        runs, mean = [_thinned(run) for run in bundles[name].runs], bundles[name].mean
        faint = max(0.12, min(0.4, 10 / max(len(runs), 1)))  # so that a bundle of lines keeps its structure
        thin = len(runs) > 1 or name == grey
        if len(runs) > MAX_MARKED:
            _bundle(ax, runs, shade, faint)
        else:
            for run in runs:
                ax.plot(*run.T, color=shade, lw=0.7 if thin else 1.8, alpha=faint if thin else 1.0,
                        marker=_mark(run, marked=marked), markersize=3)  # fmt: skip
        if mean is not None:
            ax.plot(*mean.T, color=shade, linewidth=2, marker=_mark(mean, marked=marked), markersize=5)
    ax.autoscale_view()  # a collection does not ask for it


def _thinned(curve: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Evenly chosen points of a long curve, its ends among them."""
    if len(curve) <= MOST_STEPS:
        return curve
    chosen: npt.NDArray[np.float64] = curve[np.linspace(0, len(curve) - 1, MOST_STEPS).round().astype(int)]
    return chosen


def _mark(curve: npt.NDArray[np.float64], *, marked: bool) -> str:
    return "o" if marked or len(curve) == 1 else ""  # a line of one point would not be seen


def _bundle(ax: Axes, runs: Sequence[npt.NDArray[np.float64]], shade: Colour, alpha: float) -> None:
    """Thin lines without marks, points where there is one epoch; all at once, since a thousand calls take seconds."""
    if all(len(run) == 1 for run in runs):
        ax.plot(*np.concatenate(runs).T, color=shade, alpha=alpha, linestyle="none", marker="o", markersize=3)
        return
    ax.add_collection(LineCollection(runs, colors=shade, linewidths=0.7, alpha=alpha, capstyle="projecting",
                                     joinstyle="round", zorder=2))  # fmt: skip


def _epochs(bundles: Iterable[Bundle]) -> set[float]:
    """The epochs of some curves; a mean has those of all its runs."""
    curves = [curve for b in bundles for curve in ([b.mean] if b.mean is not None else b.runs)]
    return {float(epoch) for curve in curves for epoch in curve[:, 0]}
