"""Marks: learning curves and trends, effects by row, cells between cost and accuracy, timings under a roofline."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from vitbench.report.document import Forest, tone
from vitbench.report.figures.charts import MEAN, Colouring, Curves, Front, Roofline, Trends
from vitbench.report.figures.colours import GREY, INK, PALETTE, PAPER, RULE, colours_of
from vitbench.report.figures.parts import NAME_POINTS, TEXT_POINTS, fit, in_two, inches, legend, numbers, tip
from vitbench.report.text import significant

WIDEST = 7.2  # Inches: 720 pixels of a page
MOST_BESIDE = 4  # Panels side by side
MOST_STEPS = 150  # Points of a curve that are drawn: a panel is some 250 pixels wide
FEW_EPOCHS = 3  # Epochs of which each has a mark: of so few a line does not show how many there are
Dash = str | tuple[float, tuple[float, ...]]
DASHES: Sequence[Dash] = ("-", *((0, pattern) for pattern in (
    (5, 2.5), (1.5, 1.5), (6, 2, 1.5, 2), (3, 4), (8, 5), (1, 3), (4, 1.5, 1, 1.5, 1, 1.5),
)))  # fmt: skip
"""Dash patterns of the lines of means, by colour: where lines coincide, each shows in the gaps of the others."""
MEAN_POINTS, RUN_POINTS = 2.0, 0.6  # Points: of the line of a mean, and of a single run among a few


def curves(chart: Curves) -> Figure:
    """Panels of a metric share their y axis, and all panels the epochs: thin lines are runs, thick ones means."""
    data, count = chart.frame, len(chart.facets)
    columns = count if count <= MOST_BESIDE else -(-count // 2)
    lines = math.ceil(count / columns)
    width = min(WIDEST, 0.8 + (4.4 if columns == 1 else 2.3 * columns))
    titles = [f"{chart.facet_axis} = {facet}" if chart.facet_axis else facet for facet in chart.facets]
    titles = fit(titles, (width - 0.7) / columns - 0.1, TEXT_POINTS, lines=2)
    taller = 0.2 + 0.15 * any("\n" in title for title in titles) if any(titles) else 0.0
    made = Figure(figsize=(width, 0.4 + (1.75 + taller) * len(chart.metrics) * lines), layout="constrained")
    grid = made.subplots(len(chart.metrics) * lines, columns, sharex=True, squeeze=False)
    shades = colours_of(chart.colouring)
    dashes = dict(zip(shades, DASHES, strict=False)) if chart.dashed else {}
    for number, metric in enumerate(chart.metrics):
        panels = grid[number * lines : (number + 1) * lines].ravel()
        of_metric = data[data["metric"] == metric]
        marked = of_metric["epoch"].nunique() <= FEW_EPOCHS
        for place, (ax, facet) in enumerate(zip(panels, chart.facets, strict=False)):
            if place:
                ax.sharey(panels[0])
            _curves(ax, of_metric[of_metric["facet"] == facet], shades, dashes, marked=marked)
            first, lowest = place % columns == 0, metric == chart.metrics[-1] and place + columns >= count
            ax.set(xlabel="epoch" if lowest else "", ylabel=metric if first else "")
            ax.tick_params(labelleft=first, labelbottom=lowest)
            ax.set_title(titles[place] if lines > 1 or not number else "")
            ax.xaxis.set_major_locator(MaxNLocator(3 if columns > 3 else 5, integer=True, min_n_ticks=1))
            # Ticks that do not depend on the height, which the layout is still to give: it sees the labels as they are.
            ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        for ax in panels[count:]:
            ax.remove()
    looks = {name: {"linewidth": MEAN_POINTS, "linestyle": dashes.get(name, "-")} for name in shades}
    legend(made, chart.colouring, looks)
    return made


def _curves(
    ax: Axes, data: pd.DataFrame, shades: Mapping[str, str], dashes: Mapping[str, Dash], *, marked: bool
) -> None:
    for (colour, mean), of_name in data.groupby(["colour", data["run"] == MEAN], sort=False, observed=True):
        name = str(colour)
        runs = [_thinned(run[["epoch", "value"]].to_numpy()) for _, run in of_name.groupby("run", sort=False)]
        shade, dash = shades.get(name, PALETTE[0]), dashes.get(name, "-")
        look: dict[str, Any] = {"color": shade, "linestyle": dash, "linewidth": MEAN_POINTS, "zorder": 3}
        if mean or (len(runs) == 1 and shade != GREY):
            epoch, value = runs[0][-1]
            end = f"{f'{name}: ' if name else ''}{significant(value)} after epoch {epoch:.0f}"
            ax.plot(*runs[0].T, gid=tip("", end), marker="o" if marked or len(runs[0]) == 1 else None,
                    markeredgecolor=PAPER, **look)  # fmt: skip
            continue
        if points := [run for run in runs if marked or len(run) == 1]:
            ax.plot(*np.concatenate(points).T, color=shade, linestyle="none", marker="o", markersize=3, zorder=2)
        width = max(0.3, min(RUN_POINTS, 8 / len(runs)))
        ax.add_collection(LineCollection(runs, colors=shade, linewidths=width, zorder=2))
    ax.autoscale_view()  # a collection does not ask for it


def _thinned(curve: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Evenly chosen points of a long curve, its ends among them."""
    places = np.linspace(0, len(curve) - 1, min(len(curve), MOST_STEPS)).round().astype(int)
    return np.asarray(curve[places])


def trends(chart: Trends) -> Figure:
    """Points are single runs, lines join their means."""
    made = Figure(figsize=(5.6, 3.0), layout="constrained")
    ax, points = made.subplots(), chart.points
    for name, of_name in points.groupby("colour", sort=False):
        shade, means = colours_of(chart.colouring).get(str(name), PALETTE[0]), of_name.groupby("at")["value"].mean()
        ax.plot(means.index, means, color=shade, linewidth=MEAN_POINTS)
        ax.scatter(of_name["at"], of_name["value"], s=14, facecolors=PAPER, edgecolors=shade, linewidths=0.9, zorder=3)
        for at, mean in zip(means.index.tolist(), means.tolist(), strict=True):
            label = f"{name} {chart.axis} {_label(at)}: {significant(mean)}".strip()
            ax.plot(at, mean, color=shade, marker="o", markersize=6, markeredgecolor=PAPER, markeredgewidth=0.75,
                    gid=tip("", label))  # fmt: skip
    for _, value in chart.levels:
        ax.axhline(value, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    ax.set_title("\n".join(f"dashed: {name}" for name, _ in chart.levels), fontsize=NAME_POINTS, color=GREY)
    if chart.from_zero:
        largest = max([0.0, *points["value"].tolist(), *(value for _, value in chart.levels)])
        ax.set_ylim(0.0, 1.06 * largest or 1.0)
    if chart.logarithmic:
        ax.set_xscale("log")
    ticks = _apart(chart)
    numbers(ax.yaxis)
    ax.set_xticks(ticks, [_label(number) for number in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel=fit([chart.axis], 4.6, TEXT_POINTS)[0], ylabel=in_two(chart.label, 2.2))
    legend(made, chart.colouring)
    return made


def _apart(chart: Trends) -> list[float]:
    """Numbers of the axis whose labels do not touch that of the one before."""
    places = [math.log(number) if chart.logarithmic else number for number in chart.numbers]
    an_inch = (places[-1] - places[0]) / 4.2
    chosen, free = list[float](), -math.inf
    for number, place in zip(chart.numbers, places, strict=True):
        half = (inches(_label(number), NAME_POINTS) / 2 + 0.06) * an_inch
        if place - half >= free:
            chosen.append(number)
            free = place + half
    return chosen


def _label(number: float) -> str:
    return f"{number:,g}" if number < 1e6 else f"{number:g}"


NAMED, BESIDE, ROW, NUMBERS = 2.9, 2.7, 0.3, 1.6
"""Inches of a forest plot: of the names at the most, of the panel, of a row, and of the numbers at the right."""
TONES = {"good": ("^", PALETTE[2]), "bad": ("v", PALETTE[1]), "same": ("s", PALETTE[0]), "open": ("o", GREY)}
"""Tone of a verdict → its mark and its colour."""
WIDTH = 6.6  # Inches of a front, and of a roofline
MARKS = ("o", "s", "D", "^", "v", "<", ">", "*", "P", "h")
"""Marks of settings, in order, each with an inside that can be left open; after the last they begin again."""
AIR = 1.8  # How many times as far as data and ridge the axis of intensity reaches


def forest(chart: Forest) -> Figure:
    """A row for each effect: its seeds, its interval, its value and its verdict. A page lays out its own."""
    rows, scale = chart.rows, chart.scale
    names = fit([f"{row.name} ({row.context})" for row in rows], NAMED, NAME_POINTS, lines=2)
    named = max((inches(name, NAME_POINTS) for name in names), default=0.5)
    made = Figure(figsize=(named + BESIDE + NUMBERS, ROW * max(len(rows), 2) + 0.7), layout="constrained")
    ax = made.subplots()
    if scale.margin is not None:
        ax.axvspan(*scale.margin, color=RULE, linewidth=0, zorder=0)
    if scale.neutral is not None:
        ax.axvline(scale.neutral, color=GREY, linewidth=1.0, zorder=1)
    if scale.logarithmic:
        ax.set_xscale("log")
    for at, row in enumerate(rows):
        mark, shade = TONES[tone(row.verdict)]
        ax.hlines(at, row.bar.low, row.bar.high, colors=[shade], linewidth=2.5, alpha=0.5, zorder=3)
        ax.plot(row.bar.value, at, mark, color=shade, markersize=6, zorder=5)
        ax.text(1.02, at, f"{row.number[0]}  {row.verdict}", transform=ax.get_yaxis_transform(), va="center",
                fontsize=NAME_POINTS)  # fmt: skip
    points = [(point, at + 0.25) for at, row in enumerate(rows) for point in row.bar.points if math.isfinite(point)]
    if points:
        values, places = np.transpose(points)
        ax.scatter(values, places, s=9, color=GREY, linewidth=0, zorder=4)
    ax.set(ylabel="", ylim=(len(rows) - 0.4, -0.6), xlabel=in_two(chart.title, BESIDE))
    ax.set_yticks(range(len(rows)), names)
    ax.yaxis.grid(visible=False)
    numbers(ax.xaxis)
    return made


def front(chart: Front) -> Figure:
    """Every cell a point between cost and gain, and the line of those that none surpasses in both."""
    made = Figure(figsize=(WIDTH, 3.5), layout="constrained")
    ax, shades = made.subplots(), colours_of(chart.colouring)
    data = chart.frame.assign(shade=[shades.get(value, PALETTE[0]) for value in chart.frame["colour"]])
    if chart.logarithmic:
        ax.set_xscale("log")
    wide, tall = data.dropna(subset=["cost_low", "cost_high"]), data.dropna(subset=["spread"])
    ax.hlines(wide["gain"], wide["cost_low"], wide["cost_high"], colors=[*wide["shade"]], linewidth=0.8)
    ax.vlines(tall["cost"], tall["gain"] - tall["spread"], tall["gain"] + tall["spread"], colors=[*tall["shade"]],
              linewidth=0.8)  # fmt: skip
    for spot in data.to_dict("records"):
        inside, edge = (PAPER, spot["shade"]) if spot["marked"] else (spot["shade"], PAPER)
        ax.scatter(spot["cost"], spot["gain"], s=30, facecolors=inside, edgecolors=edge,
                   linewidths=1.1 if spot["marked"] else 0.4, zorder=3,
                   gid=tip(spot["cell"], f"{spot['gain']:.1f} %, {significant(spot['cost'])}"))  # fmt: skip
    best = data[data["on_the_line"].astype(bool)].sort_values("cost", kind="stable")
    # Between two cells nothing was measured: for a cost there is what the last cell gives that it pays for.
    ax.plot(best["cost"], best["gain"], color=GREY, linewidth=1.2, linestyle=(0, (4, 2)), zorder=2,
            drawstyle="steps-post" if chart.cheap else "steps-pre")  # fmt: skip
    ax.margins(0.08)
    ax.autoscale_view()
    numbers(ax.xaxis)
    numbers(ax.yaxis)
    ax.set(xlabel=chart.cost + (", less is better" if chart.cheap else ""), ylabel=chart.gain)
    legend(made, chart.colouring)
    return made


def roofline(chart: Roofline) -> Figure:
    """Log-log axes: operations per byte, and GFLOP/s; ceilings as bands from the smallest to the largest."""
    made = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    ax, points = made.subplots(), chart.points
    ridges = [flops / of_bytes for flops in chart.flops_per_s for of_bytes in chart.bytes_per_s]
    low, high = (end(*points["flops_per_byte"], *ridges) for end in (min, max))
    low, high = low / AIR, high * AIR
    at = np.array(sorted({low, *ridges, high}))
    least, most = (np.minimum(flops, at * of_bytes) / 1e9
                   for flops, of_bytes in zip(chart.flops_per_s, chart.bytes_per_s, strict=True))  # fmt: skip
    ax.fill_between(at, least, most, color=RULE, alpha=0.5, linewidth=0, zorder=1)
    for roof in (least, most):
        ax.plot(at, roof, color=INK, linewidth=1.2, zorder=2)
    settings = [*points["setting"].unique()]
    marks, shades = {s: MARKS[i % len(MARKS)] for i, s in enumerate(settings)}, colours_of(chart.colouring)
    for setting, value, intensity, flops in points.itertuples(index=False, name=None):
        name = f"{value}, {setting}" if setting else value
        ax.scatter(intensity, flops / 1e9, s=24, marker=marks[setting], facecolors="none", linewidths=1.1, zorder=3,
                   edgecolors=shades.get(value, PALETTE[0]),  # open, so that those at one place are seen as several
                   gid=tip(name, f"{significant(flops / 1e9)} GFLOP/s"))  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylabel="achieved (GFLOP/s)",
           xlabel="operations per byte that must be moved (FLOP/B)")  # fmt: skip
    numbers(ax.xaxis)
    numbers(ax.yaxis)
    # Each beside its line and not on it: the level one has air above it, the slope beneath its middle.
    ridge, level = min(ridges), chart.flops_per_s[0]
    foot, head = (min(level, x * chart.bytes_per_s[0]) / 1e9 for x in (low, ridge))
    slope = math.sqrt(low * ridge), math.sqrt(foot * head)
    for text, place, offset, side, edge in (
        ("copy", slope, (7, -5), "left", "top"), ("matrix product", (high, most[-1]), (-6, 4), "right", "bottom"),
    ):  # fmt: skip
        ax.annotate(text, place, xytext=offset, textcoords="offset points", ha=side, va=edge, fontsize=NAME_POINTS,
                    color=GREY)  # fmt: skip
    if any(settings):
        look = {"color": GREY, "linestyle": "none", "markersize": 5, "markerfacecolor": "none"}
        looks = {setting: {**look, "marker": mark} for setting, mark in marks.items()}
        legend(made, Colouring("", settings, settings), looks, below=True)
    legend(made, chart.colouring)
    return made
