"""Pareto fronts: test accuracy against what it costs, and the cells that no other surpasses in both."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from vitbench.analysis.summary import finished
from vitbench.report.accuracy import MEAN, STD, SURVIVORS, TEST, decimals_of
from vitbench.report.charts import Picture
from vitbench.report.markdown import Md, escape, table
from vitbench.report.marks import Colouring
from vitbench.report.numbers import count, significant, spread
from vitbench.report.origins import of_origin
from vitbench.report.plane_charts import Front, Spot
from vitbench.report.view import View

MOST = 300
"""Cells of a front that are drawn."""
WIDE = 8.0
"""Largest over smallest cost, from which the axis is logarithmic."""
LEAST = 1e-12
"""Smallest cost on a logarithmic axis; below are only zeros, and what no device measures."""
THROUGHPUT, MEMORY = "images_per_s", "peak_memory_mib"
QUANTITIES: Mapping[str, tuple[str, str]] = {THROUGHPUT: ("throughput", "images/s"), MEMORY: ("peak memory", "MiB")}
"""What cells cost → its name and unit."""


@dataclass(frozen=True)
class Costs:
    """What the cells cost in one way of measuring it.

    Attributes:
        device: where.
        title: what was measured, for captions.
        slug: as part of a file's name.
        of_cell: cell → what it costs: images per second, and MiB.
    """

    device: str
    title: str
    slug: str
    of_cell: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Gains:
    """What the cells give: results of one origin.

    Attributes:
        on: the origin in words, and as the ending of a file's name; both empty where there is but one.
        of_cell: cell → mean test accuracy and its standard deviation over seeds, percent.
        survivors: cells of which not every planned seed has a result.
    """

    on: tuple[str, str]
    of_cell: Mapping[str, Mapping[str, float]]
    survivors: Collection[str] = ()

    def of(self, cells: Collection[str]) -> Gains:
        """Those of some cells."""
        kept = {cell: values for cell, values in self.of_cell.items() if cell in cells}
        return replace(self, of_cell=kept)


@dataclass(frozen=True)
class Section:
    """One front: its picture, and the table of the cells on it."""

    picture: Picture
    table: Md


def fronts(view: View) -> list[Section]:
    """Accuracy against throughput and against memory for each device that trained, as far as cells have both.

    None where an axis changes what is classified: accuracy in one task buys nothing in another.
    """
    found: list[Section] = []
    if view.conditions:
        return found
    for device in view.train_devices:
        trained = view.by_cell[view.by_cell["device"] == device]
        origins = view.origins.of(view.train[view.train["device"] == device])
        for origin in origins:
            rows = trained[trained["origin"] == origin]
            values = zip(rows["cell"].tolist(), rows[MEAN].tolist(), rows[STD].tolist(), strict=True)
            every = Gains(
                view.origins.on(origin, origins),
                {str(cell): {MEAN: mean, STD: std} for cell, mean, std in values},
                set(rows.loc[rows["n"] < rows["planned"], "cell"]),
            )
            for costs in _costs(view, device, origin):
                for quantity in QUANTITIES:
                    known = {cell for cell, cost in costs.of_cell.items() if math.isfinite(cost[quantity])}
                    gains = every.of(known)
                    if len(gains.of_cell) > 1:
                        found.append(_front(view, costs, quantity, gains))
    return found


def without(view: View) -> list[Md]:
    """Why no cell's accuracy stands beside its cost, where there are cells to choose from and some have a result."""
    if view.by_cell.empty or len(view.cells) < 2:
        return []
    if view.conditions:
        axes = " and ".join(map(escape, view.conditions))
        change = "changes" if len(view.conditions) == 1 else "change"
        return [Md(f"Not drawn: {axes} {change} what is classified, and accuracy in one task buys nothing in another.")]
    return [Md("Not drawn: it takes two cells of one device whose accuracy and cost are known.")]


def _costs(view: View, device: str, origin: str) -> Iterator[Costs]:
    """Of timings of inference, the largest batch of each dtype; where there are none, of the training runs."""
    groups = [g for g in view.time_groups if (g.device, g.mode, g.level) == (device, "inference", "model")]
    largest = {g.dtype: g for g in sorted(groups, key=lambda g: g.batch_size)}
    timed = False
    for group in largest.values():
        rows = finished(view.timings(group))
        origins = view.origins.of(rows)
        for mine in origins:
            on, suffix = view.origins.on(mine, origins)
            of_cell = _values(of_origin(rows, mine), THROUGHPUT)
            if of_cell:
                timed = True
                yield Costs(device, f"{group.title}{on}", f"{group.slug}{suffix}", of_cell)
    if not timed:
        runs = finished(of_origin(view.train[view.train["device"] == device], origin))
        yield Costs(device, f"training on {device}", f"training-{device}", _values(runs, "train_images_per_s"))


def _values(rows: pd.DataFrame, throughput: str) -> dict[str, dict[str, float]]:
    known = rows[rows[throughput].notna()]
    return {
        str(cell): {THROUGHPUT: float(of_cell[throughput].median()), MEMORY: float(of_cell[MEMORY].max())}
        for cell, of_cell in known.groupby("cell", sort=False)
    }


def _front(view: View, costs: Costs, quantity: str, gains: Gains) -> Section:
    name, unit = QUANTITIES[quantity]
    cheap, label, (on, suffix) = quantity == MEMORY, f"{name} ({unit})", gains.on
    cost = {cell: costs.of_cell[cell][quantity] for cell in gains.of_cell}
    gain = {cell: values[MEAN] for cell, values in gains.of_cell.items()}
    best = unsurpassed(cost, gain, cheap=cheap)
    letters = dict(zip(best, _letters(len(best)), strict=True))
    axis = view.telling[0] if view.factorial and view.telling else ""
    # Those of the front, and as many others as can be told apart, the most accurate first.
    drawn = [*best, *sorted(gain.keys() - letters.keys(), key=lambda cell: (-gain[cell], cell))][: max(MOST, len(best))]
    spots = [
        Spot(
            cost[cell],
            gain[cell],
            gains.of_cell[cell][STD],
            view.values_of(cell).get(axis, ""),
            letters.get(cell, ""),
            cell,
        )
        for cell in drawn
    ]
    shown = {spot.value for spot in spots}
    values_of_axis = view.axes.get(axis, ())
    wide = min(cost.values()) > LEAST and max(cost.values()) / min(cost.values()) >= WIDE
    chart = Front(
        label, TEST, cheap, spots,
        Colouring(view.axis_names.get(axis, ""), values_of_axis, [v for v in values_of_axis if v in shown]),
        logarithmic=wide,
    )  # fmt: skip
    said = (
        f"Test accuracy{on} against {name}: {costs.title}. A point is a cell at its mean over seeds, the bar through "
        "it one standard deviation to each side. No cell surpasses one with a letter in both."
        + (f" Of {len(gain):,} cells the {len(drawn):,} best are drawn." if len(drawn) < len(gain) else "")
    )
    alt = f"Plot of test accuracy{on} against {name}, {costs.title}"
    picture = Picture(f"front-{name.replace(' ', '-')}-{costs.slug}{suffix}", chart, alt, said)
    decimals = decimals_of(view)
    lines = [
        {
            "point": Md(letters[cell]),
            **view.identity(cell),
            TEST: Md(f"{spread(gain[cell], gains.of_cell[cell][STD], decimals)}{_mark(cell, gains)}"),
            label: significant(cost[cell]) if cheap else count(cost[cell]),
        }
        for cell in best
    ]
    return Section(picture, table(lines, right={TEST, label}))


def _mark(cell: str, gains: Gains) -> str:
    return f" {SURVIVORS}" if cell in gains.survivors else ""


def unsurpassed(cost: Mapping[str, float], gain: Mapping[str, float], *, cheap: bool) -> list[str]:
    """Cells than which none gives more for no greater cost, or as much for less; the cheapest first.

    Args:
        cost: cell → its cost, or its rate.
        gain: cell → what it gives; more is better.
        cheap: whether less of ``cost`` is better, or more.
    """
    sign = 1.0 if cheap else -1.0
    order = sorted(cost, key=lambda cell: (sign * cost[cell], -gain[cell]))
    best, reached = [], -math.inf
    for cell in order:
        if gain[cell] > reached:
            best.append(cell)
            reached = gain[cell]
    return best


def _letters(number: int) -> list[str]:
    """A to Z, then AA, AB, …"""
    every = (
        "".join(letters)
        for length in itertools.count(1)
        for letters in itertools.product(string.ascii_uppercase, repeat=length)
    )
    return list(itertools.islice(every, number))
