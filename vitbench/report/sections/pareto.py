"""Pareto fronts: test accuracy against what it costs, the cells that no other surpasses in both, and how surely."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from vitbench.report.cost.front_costs import HIGH, LOW, MARKED, UNIT, VALUE, Costs
from vitbench.report.cost.weighing import Weighed, weighed
from vitbench.report.document import Block, Table, table
from vitbench.report.figures.charts import SPOT, Colouring, Front, Picture
from vitbench.report.inline import NOTHING, Md, escape
from vitbench.report.output import Files
from vitbench.report.sections.accuracy import TEST
from vitbench.report.text import SURVIVORS, UNSTABLE, count, enumerated, plural, significant, spread
from vitbench.report.view import View

MOST = 300
"""Cells of a front that are drawn."""
FEWEST = 3
"""Cells from which a front is drawn: two are read from a table."""
WIDE = 8.0
"""Largest over smallest cost, from which the axis is logarithmic."""
LEAST = 1e-12
"""Smallest cost on a logarithmic axis; below are only zeros, and what no device measures."""
STANDING, LISTED = "on the front", 24
"""A column; cells of a table: of more those near the front alone."""


ALIKE = (
    "{title}: no cell is shown to {need} than another {how} (medians {ends}), so {quantity} is no reason to choose a "
    "cell.{also}"
)
DRAWN = (
    "{title}. A point is a cell: mean accuracy over seeds with one standard deviation; {quantity}, {statistic}{bar}. "
    "Dashed: the cells that no other surpasses in both.{also}"
)
LISTED_ALONE = "{title}: accuracy is the mean over seeds ± one standard deviation, {quantity} {statistic}.{also}"
FRONT = (
    "“On the front”: yes where every cell of no less mean accuracy {more} {how}; no where one {less}; perhaps {unsure}."
)
ESTIMATED = "“On the front” is by these estimates alone: how the costs would vary in another run is unknown."
ONE_ACCURACY = (
    " Equivalent implementations have one accuracy, the mean over all of them: cost alone chooses among them."
)
MARKED_CELLS = " The timings of {marked} are unstable{hollow}: none of these is on the front or surpasses another."
SHARED = " The runs shared their machine, see Caveats."


def section(view: View, files: Files) -> list[Block]:
    """Accuracy against throughput and against memory for each device that trained, or why that is not shown.

    Nothing where an axis changes what is classified: accuracy in one task buys nothing in another.
    """
    if view.by_cell.empty or len(view.cells) < 2:
        return []
    if view.conditions:
        axes = enumerated([escape(view.axis_names[axis]) for axis in view.conditions])
        return [Md(f"Not shown: cells classify different images or classes ({axes}).")]
    found = [*weighed(view)]
    blocks = [block for each in found for block in _front(view, files, each)]
    return blocks or [Md("Not shown: fewer than two cells of one device have both an accuracy and a cost.")]


def _front(view: View, files: Files, each: Weighed) -> list[Block]:
    """One front: a picture where costs tell cells apart, else a sentence; then the table of its cells."""
    costs, values = each.costs, each.costs.cells.loc[each.cells, VALUE]
    order = sorted(each.cells, key=lambda cell: (-each.gains.of_cell[cell][0], cell))
    drawn = len(each.cells) >= FEWEST
    facts = {
        "title": f"Test accuracy{each.gains.on[0]} against {costs.quantity}, {costs.title}",
        "quantity": costs.quantity,
        "statistic": costs.statistic,
        "bar": f", with a bar {costs.bar}" if costs.bar else "",
        "also": _also(each, drawn=drawn),
    }
    if each.sure and not each.apart:
        assert costs.shown
        low, high = (_amount(costs, float(end)) for end in (values.min(), values.max()))
        need = f"{'need less' if costs.cheap else 'have more'} {costs.quantity}"
        ends = f"{low} to {high} {UNIT[costs.quantity]}"
        return [escape(ALIKE.format(**facts, need=need, how=costs.shown[0], ends=ends))]
    listed = [cell for cell in order if len(order) <= LISTED or each.near(cell)][:LISTED]
    picture = _picture(view, each, order, DRAWN.format(**facts)) if drawn else None
    first = files.picture(picture) if picture else escape(LISTED_ALONE.format(**facts))
    left = len(each.cells) - len(listed)
    rest = f" {plural(left, 'more cell')}: see the figure's CSV." if left and drawn else ""
    return [first, _table(view, each, listed), escape(f"{_reading(each)}{rest}")]


def _also(each: Weighed, *, drawn: bool) -> str:
    """What holds of some cells alone: equivalent implementations, unstable timings, shared machines."""
    marked = int(each.costs.cells.loc[each.cells, MARKED].sum())
    cells = f"{marked:,} of {plural(len(each.cells), 'cell')}"
    return (
        (ONE_ACCURACY if any(cell in each.gains.function_of for cell in each.cells) else "")
        + (MARKED_CELLS.format(marked=cells, hollow=" (hollow)" if drawn else "") if marked else "")
        + ("" if each.costs.alone else SHARED)
    )


def _reading(each: Weighed) -> str:
    """How the column on the front is to be read."""
    if each.costs.shown is None or not each.sure:
        return ESTIMATED
    more, less = ("needs more", "needs no more") if each.costs.cheap else ("is slower", "is no slower")
    how, unsure = each.costs.shown
    return FRONT.format(more=more, less=less, how=how, unsure=unsure)


def _picture(view: View, each: Weighed, order: list[str], caption: str) -> Picture:
    """The picture of a front."""
    costs, gains = each.costs, each.gains
    axis = view.telling[0] if view.factorial and view.telling else ""
    # Those of the front, and as many others as can be told apart, the most accurate first.
    best = set(each.best)
    drawn = [*each.best, *(cell for cell in order if cell not in best)][: max(MOST, len(each.best))]
    rows = costs.cells.to_dict("index")
    spots = [
        (
            cell, view.values_of(cell).get(axis, ""), rows[cell][VALUE], rows[cell][LOW], rows[cell][HIGH],
            bool(rows[cell][MARKED]), *gains.of_cell[cell][:2], cell in best, each.standing.get(cell, ""),
        )
        for cell in drawn
    ]  # fmt: skip
    frame = pd.DataFrame(spots, columns=SPOT)
    colours = set(frame["colour"])
    values = view.axes.get(axis, ())
    smallest, largest = costs.cells.loc[each.cells, VALUE].agg(["min", "max"])
    chart = Front(
        costs.label, TEST, costs.cheap, frame,
        Colouring(view.axis_names.get(axis, ""), values, [v for v in values if v in colours]),
        logarithmic=bool(smallest > LEAST and largest / smallest >= WIDE),
    )  # fmt: skip
    caption += f" Of {len(order):,} cells the {len(drawn):,} best are drawn." if len(drawn) < len(order) else ""
    alt = f"Plot of test accuracy{gains.on[0]} against {costs.quantity}, {costs.title}"
    return Picture(f"front-{costs.quantity.replace(' ', '-')}-{costs.slug}{gains.on[1]}", chart, alt, caption)


def _table(view: View, each: Weighed, cells: Sequence[str]) -> Table:
    """A row for each of some cells, in their order."""
    costs, decimals, lines = each.costs, view.decimals, list[dict[str, Md]]()
    rows = costs.cells.to_dict("index")
    spreads = bool(costs.cells.loc[list(cells), LOW].notna().any())
    for cell in cells:
        mean, std = each.gains.of_cell[cell]
        row = rows[cell]
        ends = Md(f"{_amount(costs, row[LOW])} to {_amount(costs, row[HIGH])}") if math.isfinite(row[LOW]) else NOTHING
        mark = f" {SURVIVORS}" if cell in each.gains.survivors else ""
        lines.append({
            **view.identity(cell),
            STANDING: Md(each.standing.get(cell, UNSTABLE)),
            TEST: Md(f"{spread(mean, std, decimals)}{mark}"),
            costs.label: Md(f"{_amount(costs, row[VALUE])} {UNSTABLE}" if row[MARKED] else _amount(costs, row[VALUE])),
            **({f"{costs.ends} ({UNIT[costs.quantity]})": ends} if spreads else {}),
        })  # fmt: skip
    made = table(lines, right={TEST, costs.label, f"{costs.ends} ({UNIT[costs.quantity]})"})
    return made.about([cell] for cell in cells)


def _amount(costs: Costs, value: float) -> Md:
    return significant(value) if costs.cheap else count(value)
