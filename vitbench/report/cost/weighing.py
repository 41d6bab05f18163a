"""Weighing: the cells of each device and origin between what they cost and what they give, and which are on a front."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vitbench.analysis.front import NO, PERHAPS, YES, distinguishable, known, standings, unsurpassed
from vitbench.analysis.grouped import ACCURACY, finished
from vitbench.report.cost import front_costs
from vitbench.report.cost.front_costs import MARKED, VALUE, Costs
from vitbench.report.origins import of_origin
from vitbench.report.view import MEAN, STD, View

DIGITS = 9
"""Decimals of accuracies that are compared: what is equal but for the rounding of floats is equal."""


@dataclass(frozen=True)
class Gains:
    """What the cells give: results of one device and origin.

    Attributes:
        on: the origin in words, and as the ending of a file's name; both empty where there is but one.
        of_cell: cell → mean test accuracy and its standard deviation over seeds, percent; of equivalent
            implementations those of all.
        survivors: cells of which not every planned seed has a result.
        function_of: cell → the first of its equivalent implementations, of cells that have some.
    """

    on: tuple[str, str]
    of_cell: Mapping[str, tuple[float, float]]
    survivors: Collection[str]
    function_of: Mapping[str, str]


@dataclass(frozen=True)
class Weighed:
    """Cells between one cost and what they give.

    Attributes:
        costs: of them and perhaps others.
        gains: of them and perhaps others.
        cells: those that have both, in the plan's order.
        best: those of the front by the estimates, the cheapest first.
        standing: cell → whether it is on the front, as far as that is told; none of those whose cost is marked.
        apart: whether any two of the costs are told apart.
        sure: whether anything tells how far the costs can be relied on.
    """

    costs: Costs
    gains: Gains
    cells: list[str]
    best: list[str]
    standing: Mapping[str, str]
    apart: bool
    sure: bool

    def near(self, cell: str) -> bool:
        """Whether a cell is on the front, by its estimate or perhaps."""
        return cell in self.best or self.standing.get(cell) == PERHAPS


def weighed(view: View) -> Iterator[Weighed]:
    """Accuracy against each cost of each device that trained, as far as two cells or more have both."""
    for device in view.train_devices:
        origins = view.origins.of(view.runs(device))
        for origin in origins:
            gains = _gains(view, device, origin, view.origins.on(origin, origins))
            for costs in front_costs.costs(view, device, origin):
                values = costs.cells[VALUE].dropna()
                cells = [cell for cell in view.cells if cell in gains.of_cell and cell in values.index]
                if len(cells) > 1:
                    yield _judged(costs, gains, cells)


def _gains(view: View, device: str, origin: str, on: tuple[str, str]) -> Gains:
    """Equivalent implementations are one experiment, done several times: averaged first, seed by seed."""
    results = view.by_cell[(view.by_cell["device"] == device) & (view.by_cell["origin"] == origin)]
    values = zip(results["cell"].tolist(), results[MEAN].tolist(), results[STD].tolist(), strict=True)
    of_cell = {str(cell): (float(mean), float(std)) for cell, mean, std in values}
    runs = finished(of_origin(view.runs(device, [ACCURACY]), origin))
    runs = runs[runs[ACCURACY].notna()]
    # Most cells of most studies have no equivalent.
    runs = runs[runs.groupby("function")["cell"].transform("nunique") > 1]
    function_of: dict[str, str] = {}
    for first, alike in runs.groupby("function", sort=False):
        of_seed = alike.groupby("seed")[ACCURACY].mean()
        function_of |= dict.fromkeys(alike["cell"].tolist(), str(first))
        of_cell |= dict.fromkeys(alike["cell"].tolist(), (float(of_seed.mean()), float(of_seed.std(ddof=1))))
    survivors = set(results.loc[results["n"] < results["planned"], "cell"])
    return Gains(on, of_cell, survivors, function_of)


def _judged(costs: Costs, gains: Gains, cells: list[str]) -> Weighed:
    """A cell whose cost is marked is not judged, and surpasses none: nothing is said by it."""
    marked = costs.cells[MARKED]
    told = [cell for cell in cells if not marked[cell]]
    values = costs.cells[VALUE].to_dict()
    cost = {cell: float(values[cell]) for cell in told}
    gain = {cell: round(gains.of_cell[cell][0], DIGITS) for cell in told}
    best = unsurpassed(cost, gain, cheap=costs.cheap)
    measured = costs.measured(told)
    sure = known(measured)
    judged = standings(measured, np.array([gain[cell] for cell in told], dtype=np.float64))
    by_estimate = [YES if cell in best else NO for cell in told]
    standing = dict(zip(told, judged if sure else by_estimate, strict=True))
    return Weighed(costs, gains, cells, best, standing, distinguishable(measured), sure)
