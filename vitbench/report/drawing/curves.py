"""Drawing of learning curves: thin lines are single runs, thick lines their means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from vitbench.report.drawing import ticks
from vitbench.report.drawing.names import inches, labels_of, lines_of
from vitbench.report.drawing.parts import NARROW, WIDEST, Colour, Dash, colours_of, guide, legend, legend_inches
from vitbench.report.pictures.plane_charts import Bundle, Curves

MAX_MARKED = 20
"""Single runs of one colour in one panel that have marks at their epochs; of more the marks would hide the lines."""
MAX_EPOCHS_MARKED = 3
"""Epochs of a row of panels whose curves have marks at them: of so few a line does not show how many there are."""
MOST_STEPS = 150
"""Points of a curve that are drawn: a panel is some 250 pixels wide."""
DASHES: Sequence[Dash] = ("solid", (0, (5, 2.5)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 4)), (0, (8, 5)),
                          (0, (1, 3)), (0, (4, 1.5, 1, 1.5, 1, 1.5)))  # fmt: skip
"""Of the lines of means, in the order of their colours, the first drawn first: so that of lines which coincide each is
seen in the gaps of those over it, and by who does not see colours."""
TITLE_POINTS, TITLE_INCHES = 8.5, 0.14
"""Of a panel's title, and of each of its lines beside the first."""
TITLE_LINES = 3
MEAN_POINTS, RIM_POINTS, RUN_POINTS = 2.0, 0.9, 0.6
"""Of the line of a mean, of both sides of its rim together, and of a single run among a few."""


def figure(chart: Curves, *, narrow: bool = False) -> Figure:
    """The figure: rows share their y axis, all panels the epochs. A narrow one has at most two panels side by side."""
    facets, metrics, shades = chart.facets, chart.metrics, colours_of(chart.colouring)
    columns = min(2, len(facets)) if narrow else len(facets)
    lines = math.ceil(len(facets) / columns)  # of panels, for each metric
    width = NARROW if narrow else min(WIDEST, 1.1 + (5.2 if columns == 1 else 2.4 * columns))
    high = (1.9 if any(facets) else 1.75) if narrow else 2.2
    room = (width - 0.7) / columns - 0.1
    # Panels of one column are of one value where each metric has one line of panels: the first names it for all.
    titles = [_titles(chart, room, number) if not number or lines > 1 else [""] * len(facets)
              for number in range(len(metrics))]  # fmt: skip
    taller = TITLE_INCHES * lines * sum(max(title.count("\n") for title in of_metric) for of_metric in titles)
    dashes = DASHES if chart.dashed else ()
    height = 0.45 + legend_inches(chart.colouring, width, lines=bool(dashes)) + high * len(metrics) * lines + taller
    made = Figure(figsize=(width, height), layout="constrained")
    grid = made.subplots(len(metrics) * lines, columns, sharex=True, sharey=False, squeeze=False)
    for number, metric in enumerate(metrics):
        of_row = [chart.panels[metric, facet] for facet in facets]
        marked = len(chart.epochs(metric)) <= MAX_EPOCHS_MARKED
        panels = grid[number * lines : (number + 1) * lines].ravel()
        for place, (bundles, ax) in enumerate(zip(of_row, panels, strict=False)):
            if place:
                ax.sharey(panels[0])
            _panel(ax, bundles, shades, dashes, grey=chart.colouring.others, marked=marked)
            if place % columns == 0:
                ax.set_ylabel(metric)
            else:
                ax.tick_params(axis="y", labelleft=False)
            ax.set_title(titles[number][place], fontsize=TITLE_POINTS)
        for ax in panels[len(facets) :]:
            ax.remove()
    _epoch_axes(made, int(max(chart.epochs(), default=1)), narrow=narrow)
    legend(made, chart.colouring, dashes)
    return made


def _epoch_axes(made: Figure, last: int, *, narrow: bool) -> None:
    """Epochs beneath the lowest panel of each column."""
    lowest: dict[int, Axes] = {}
    for ax in made.axes:
        spec = ax.get_subplotspec()
        assert spec is not None
        ax.xaxis.set_major_locator(FixedLocator(ticks.epochs(last, 3 if narrow else 4)))
        ax.tick_params(axis="x", labelbottom=False)
        lowest[spec.colspan.start] = ax  # they come row by row
    for ax in lowest.values():
        ax.tick_params(axis="x", labelbottom=True)
        ax.set_xlabel("epoch")


def _titles(chart: Curves, room: float, number: int) -> list[str]:
    """What each panel of a metric shows: its value, and of the first metric the axis, too."""
    if not chart.facet_axis or number:
        return lines_of(chart.facets, room, TITLE_POINTS, TITLE_LINES)
    whole = [f"{chart.facet_axis} = {facet}" for facet in chart.facets]
    if all(inches(title, TITLE_POINTS) <= room for title in whole):
        return whole
    (axis,) = labels_of([f"{chart.facet_axis} ="], room, TITLE_POINTS)
    return [f"{axis}\n{value}" for value in lines_of(chart.facets, room, TITLE_POINTS, TITLE_LINES - 1)]


def _panel(
    ax: Axes, bundles: Mapping[str, Bundle], shades: dict[str, Colour], dashes: Sequence[Dash], *, grey: str,
    marked: bool,
) -> None:  # fmt: skip
    guide(ax)
    dash_of = dict(zip(shades, dashes, strict=False))
    for name, shade in shades.items():  # all runs, and then all means: a mean is not hidden by a run
        if name not in bundles:
            continue
        runs, alone = [_thinned(run) for run in bundles[name].runs], len(bundles[name].runs) == 1 and name != grey
        thin = max(0.3, min(RUN_POINTS, 8 / max(len(runs), 1)))  # so that a bundle of lines keeps its structure
        if len(runs) > MAX_MARKED:
            _bundle(ax, runs, shade, thin)
            continue
        for run in runs:
            ax.plot(*run.T, color=shade, lw=1.8 if alone else thin, linestyle=dash_of.get(name, "-") if alone else "-",
                    marker=_mark(run, marked=marked), markersize=3, zorder=2.5 if alone else 2)  # fmt: skip
    for name, shade in shades.items():
        mean = bundles[name].mean if name in bundles else None
        if mean is not None:
            # A rim in the paper's colour sets it off from its runs. It is narrow and has the line's gaps: it would hide
            # the runs that lie near their mean, which are most of them.
            dash = dash_of.get(name, "solid")
            ax.plot(*mean.T, color="white", linewidth=MEAN_POINTS + RIM_POINTS, linestyle=_scaled(dash), zorder=2.2)
            ax.plot(*mean.T, color=shade, linewidth=MEAN_POINTS, linestyle=dash, zorder=3,
                    marker=_mark(mean, marked=marked), markersize=5)  # fmt: skip
    ax.autoscale_view()  # a collection does not ask for it


def _scaled(dash: Dash) -> Dash:
    """The dashes of a mean for its rim: matplotlib's are as long as their line is wide."""
    if isinstance(dash, str):
        return dash
    return dash[0], tuple(part * MEAN_POINTS / (MEAN_POINTS + RIM_POINTS) for part in dash[1])


def _thinned(curve: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Evenly chosen points of a long curve, its ends among them."""
    if len(curve) <= MOST_STEPS:
        return curve
    chosen: npt.NDArray[np.float64] = curve[np.linspace(0, len(curve) - 1, MOST_STEPS).round().astype(int)]
    return chosen


def _mark(curve: npt.NDArray[np.float64], *, marked: bool) -> str:
    return "o" if marked or len(curve) == 1 else ""  # a line of one point would not be seen


def _bundle(ax: Axes, runs: Sequence[npt.NDArray[np.float64]], shade: Colour, thin: float) -> None:
    """Thin lines without marks, points where there is one epoch; all at once, since a thousand calls take seconds."""
    if all(len(run) == 1 for run in runs):
        ax.plot(*np.concatenate(runs).T, color=shade, linestyle="none", marker="o", markersize=2)
        return
    ax.add_collection(LineCollection(runs, colors=shade, linewidths=thin, capstyle="projecting", joinstyle="round",
                                     zorder=2))  # fmt: skip
