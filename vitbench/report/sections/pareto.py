"""Pareto fronts: test accuracy against what it costs, the cells that no other surpasses in both, and how surely."""

from __future__ import annotations

import math

import pandas as pd

from vitbench.report.cost.fronts import (
    BEST,
    HIGH,
    LOW,
    MARKED,
    POOLED,
    STANDING,
    SURVIVED,
    UNIT,
    VALUE,
    Costs,
    Weighed,
    weighed,
)
from vitbench.report.document import Block, Table, filled, table
from vitbench.report.figures.charts import SPOT, Colouring, Front, Picture
from vitbench.report.inline import Md, escape
from vitbench.report.output import Files
from vitbench.report.sections.accuracy import TEST
from vitbench.report.text import SURVIVORS, UNSTABLE, count, enumerated, significant, spread
from vitbench.report.view import MEAN, STD, View
from vitbench.wording import plural

MOST = 300
"""Cells of a front that are drawn."""
FEWEST = 3
"""Cells from which a front is drawn: two are read from a table."""
WIDE = 8.0
"""Largest over smallest cost, from which the axis is logarithmic."""
LEAST = 1e-12
"""Smallest cost on a logarithmic axis; below are only zeros, and what no device measures."""
LISTED = 24
"""Cells of a table: of more those near the front alone."""

ALIKE = (
    "{title}: no cell is shown to {need} than another {how} (medians {ends}), so {quantity} is no reason to choose a "
    "cell.{also}"
)
WEIGHED = (
    "{title}: mean accuracy over seeds ± one standard deviation; {quantity}, {statistic}. On the front (dashed in a "
    "figure): the cells that no other surpasses in both.{also}"
)
FRONT = "“On the front”: yes where every cell of no less mean accuracy {more} {how}; no where one {less}; else perhaps."
ESTIMATED = "“On the front” is by these estimates alone: how the costs would vary in another run is unknown."
ONE_ACCURACY = (
    " Equivalent implementations have one accuracy, the mean over all of them: cost alone chooses among them."
)
MARKED_CELLS = " The timings of {marked} are unstable (hollow): none of these is on the front or surpasses another."
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
    blocks = [block for each in weighed(view) for block in _front(view, files, each)]
    return blocks or [Md("Not shown: fewer than two cells of one device have both an accuracy and a cost.")]


def _front(view: View, files: Files, each: Weighed) -> list[Block]:
    """One front: a picture where costs tell cells apart, else a sentence; then the table of its cells."""
    costs, cells = each.costs, each.cells
    marked = int(cells[MARKED].sum())
    on = f" on {each.group.label}" if each.group.label else ""
    facts = {
        "title": f"Test accuracy{on} against {costs.quantity}, {costs.title}",
        "quantity": costs.quantity,
        "statistic": costs.statistic,
        "how": costs.how,
        "also": (ONE_ACCURACY if cells[POOLED].any() else "")
        + (MARKED_CELLS.format(marked=f"{marked:,} of {plural(len(cells), 'cell')}") if marked else "")
        + ("" if costs.alone else SHARED),
    }
    if each.sure and not each.apart:
        low, high = (_amount(costs, float(end)) for end in (cells[VALUE].min(), cells[VALUE].max()))
        need = f"{'need less' if costs.cheap else 'have more'} {costs.quantity}"
        return [escape(ALIKE.format(**facts, need=need, ends=f"{low} to {high} {UNIT[costs.quantity]}"))]
    more, less = ("needs more", "needs no more") if costs.cheap else ("is slower", "is no slower")
    reading = FRONT.format(more=more, less=less, how=costs.how) if each.sure else ESTIMATED
    listed = (cells if len(cells) <= LISTED else each.near)[:LISTED]
    drawn, left = len(cells) >= FEWEST, len(cells) - len(listed)
    caption = WEIGHED.format(**facts)
    first = files.picture(_picture(view, each, caption)) if drawn else escape(caption)
    rest = f" {plural(left, 'more cell')}: see the figure's CSV." if left and drawn else ""
    return [first, _table(view, each, listed), escape(f"{reading}{rest}")]


def _picture(view: View, each: Weighed, caption: str) -> Picture:
    """The picture of a front: the cells on it, and as many others as can be told apart, the most accurate first."""
    costs, cells = each.costs, each.cells
    axis = view.telling[0] if view.factorial and view.telling else ""
    ordered = cells.sort_values([BEST, VALUE], ascending=[False, costs.cheap], kind="stable")
    drawn = pd.concat([ordered[ordered[BEST]], cells[~cells[BEST]]])[: max(MOST, int(cells[BEST].sum()))]
    spots = [
        (
            str(cell), view.values_of(str(cell)).get(axis, ""), row[VALUE], row[LOW], row[HIGH], bool(row[MARKED]),
            row[MEAN], row[STD], row[BEST], "" if row[MARKED] else row[STANDING],
        )
        for cell, row in drawn.to_dict("index").items()
    ]  # fmt: skip
    frame = pd.DataFrame(spots, columns=SPOT)
    colours, values = set(frame["colour"]), view.axes.get(axis, ())
    smallest, largest = cells[VALUE].min(), cells[VALUE].max()
    chart = Front(
        costs.label, TEST, costs.cheap, frame,
        Colouring(view.axis_names.get(axis, ""), values, [v for v in values if v in colours]),
        logarithmic=bool(smallest > LEAST and largest / smallest >= WIDE),
    )  # fmt: skip
    caption += f" Of {len(cells):,} cells the {len(drawn):,} best are drawn." if len(drawn) < len(cells) else ""
    alt = f"Plot of test accuracy against {costs.quantity}, {costs.title}"
    return Picture(f"front-{costs.quantity.replace(' ', '-')}-{costs.slug}{each.group.slug}", chart, alt, caption)


def _table(view: View, each: Weighed, cells: pd.DataFrame) -> Table:
    """A row for each of some cells, in their order."""
    costs, lines = each.costs, list[dict[str, Md]]()
    ends = f"{costs.ends} ({UNIT[costs.quantity]})"
    for cell, row in cells.to_dict("index").items():
        mark, doubt = f" {SURVIVORS}" if row[SURVIVED] else "", f" {UNSTABLE}" if row[MARKED] else ""
        amounts = [_amount(costs, row[end]) for end in (LOW, HIGH) if math.isfinite(row[end])]
        lines.append({
            **view.identity([str(cell)]),
            "on the front": Md(row[STANDING]),
            TEST: Md(f"{spread(row[MEAN], row[STD], view.decimals)}{mark}"),
            costs.label: Md(f"{_amount(costs, row[VALUE])}{doubt}"),
            ends: Md(" to ".join(amounts) or "n/a"),
        })  # fmt: skip
    return table(filled(lines), right={TEST, costs.label, ends}).about([cell] for cell in cells.index)


def _amount(costs: Costs, value: float) -> Md:
    return significant(value) if costs.cheap else count(value)
