"""Pareto fronts: test accuracy against what it costs, the cells that no other surpasses in both, and how surely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from vitbench.analysis.front import PERHAPS
from vitbench.report.cost.front_costs import HIGH, LOW, MARKED, UNIT, VALUE, Costs
from vitbench.report.cost.weighing import Weighed, letters_of, weighed
from vitbench.report.document import Block, Table, table
from vitbench.report.figures.charts import Front, Picture, Spot
from vitbench.report.figures.marks import Colouring
from vitbench.report.files import Files
from vitbench.report.markdown import NOTHING, Md, escape
from vitbench.report.sections.accuracy import TEST
from vitbench.report.text import SURVIVORS, UNSTABLE, count, plural, significant, spread
from vitbench.report.view import View

MOST = 300
"""Cells of a front that are drawn."""
FEWEST = 3
"""Cells from which a front is drawn: two are read from a table."""
WIDE = 8.0
"""Largest over smallest cost, from which the axis is logarithmic."""
LEAST = 1e-12
"""Smallest cost on a logarithmic axis; below are only zeros, and what no device measures."""
POINT, STANDING = "point", "on the front"


def section(view: View, files: Files) -> list[Block]:
    """The fronts of each device, or why there is none."""
    blocks: list[Block] = []
    for each in fronts(view):
        blocks += files.pictures([each.picture]) if each.picture else [escape(each.said)]
        blocks += [each.table] if each.table else []
        blocks += [escape(each.note)] if each.note else []
    return blocks or [*without(view)]


@dataclass(frozen=True)
class Shown:
    """One front: its picture where it has one, else what is to be said; the table of its cells; a note below it."""

    picture: Picture | None
    said: str
    table: Table | None
    note: str


def fronts(view: View) -> list[Shown]:
    """Accuracy against throughput and against memory for each device that trained, as far as cells have both.

    None where an axis changes what is classified: accuracy in one task buys nothing in another.
    """
    found = [] if view.conditions else [*weighed(view)]
    letters = letters_of(view, found)
    return [_section(view, each, letters) for each in found]


def without(view: View) -> list[Md]:
    """Why no cell's accuracy stands beside its cost, where there are cells to choose from and some have a result."""
    if view.by_cell.empty or len(view.cells) < 2:
        return []
    if view.conditions:
        axes = " and ".join(map(escape, view.conditions))
        change = "changes" if len(view.conditions) == 1 else "change"
        return [Md(f"Not drawn: {axes} {change} what is classified, and accuracy in one task buys nothing in another.")]
    return [Md("Not drawn: it takes two cells of one device whose accuracy and cost are known.")]


def _section(view: View, each: Weighed, letters: Mapping[str, str]) -> Shown:
    costs, on = each.costs, each.gains.on[0]
    order = sorted(each.cells, key=lambda cell: (-each.gains.of_cell[cell][0], letters.get(cell, ""), cell))
    judged = each.apart or not each.sure
    named = [cell for cell in order if cell in letters]
    listed = named if judged or len(named) == len(order) else []
    title = f"Test accuracy{on} against {costs.quantity}: {costs.title}."
    spreads = any(math.isfinite(each.gains.of_cell[cell][1]) for cell in each.cells)
    of_mean = "the mean over seeds ± one standard deviation" if spreads else "of one run"
    plain = f"Accuracy is {of_mean}, {costs.quantity} {costs.statistic}."
    drawn = judged and len(each.cells) >= FEWEST
    shown = _table(view, each, listed, letters, judged=judged, drawn=drawn) if listed else None
    about = f"{_of_twins(view, each)}{_of_marked(each, drawn=drawn)}"
    if not judged:
        said = f"{title} {_alike(each)} {plain}{about}"
        return Shown(None, said, shown, "")
    note = _note(each, listed)
    if not each.costs.alone:
        note += " The runs did not have their machine to themselves: see Caveats."
    if not drawn:
        return Shown(None, f"{title} {plain}{about}", shown, note)
    return Shown(_picture(view, each, letters, order, (title, about)), "", shown, note)


def _alike(each: Weighed) -> str:
    """That costs do not tell the cells apart."""
    costs, values = each.costs, each.costs.cells.loc[each.cells, VALUE]
    ends = f"{_amount(costs, float(values.min()))} to {_amount(costs, float(values.max()))}"
    assert costs.shown
    return (
        f"No cell is shown {'to need less' if costs.cheap else 'to have more'} {costs.quantity} than another "
        f"{costs.shown[0]} (medians {ends} {UNIT[costs.quantity]}), so that it is no reason to choose one."
    )


def _picture(
    view: View, each: Weighed, letters: Mapping[str, str], order: list[str], words: tuple[str, str]
) -> Picture:
    """The picture; its caption begins and ends with some words."""
    costs, gains = each.costs, each.gains
    axis = view.telling[0] if view.factorial and view.telling else ""
    # Those of the front, and as many others as can be told apart, the most accurate first.
    best = set(each.best)
    drawn = [*each.best, *(cell for cell in order if cell not in best)][: max(MOST, len(each.best))]
    rows = costs.cells.to_dict("index")
    spots = [
        Spot(
            cost=rows[cell][VALUE], low=rows[cell][LOW], high=rows[cell][HIGH], gain=gains.of_cell[cell][0],
            spread=gains.of_cell[cell][1], value=view.values_of(cell).get(axis, ""), letter=letters.get(cell, ""),
            name=cell, best=cell in best, marked=bool(rows[cell][MARKED]), standing=each.standing.get(cell, ""),
        )
        for cell in drawn
    ]  # fmt: skip
    colours = {spot.value for spot in spots}
    values = view.axes.get(axis, ())
    smallest, largest = costs.cells.loc[each.cells, VALUE].agg(["min", "max"])
    chart = Front(
        costs.label, TEST, costs.cheap, spots,
        Colouring(view.axis_names.get(axis, ""), values, [v for v in values if v in colours]),
        logarithmic=bool(smallest > LEAST and largest / smallest >= WIDE),
    )  # fmt: skip
    # A front of nothing that is told is no line.
    line = "The dashed line joins those that no other surpasses in both, by these estimates. " if each.best else ""
    spreads = any(math.isfinite(spot.spread) for spot in spots)
    spread_bar = ", with a bar of one standard deviation to each side" if spreads else ""
    bar = f", with a bar {costs.bar}" if costs.bar else ""
    said = (
        f"{words[0]} A point is a cell: upright, its mean accuracy over seeds{spread_bar}; "
        f"across, its {costs.quantity}, {costs.statistic}{bar}. {line}"
        f"Letters are those of the table, in bold where one of a label's cells is on the line.{words[1]}"
    )
    said += f" Of {len(order):,} cells the {len(drawn):,} best are drawn." if len(drawn) < len(order) else ""
    alt = f"Plot of test accuracy{gains.on[0]} against {costs.quantity}, {costs.title}"
    return Picture(f"front-{costs.quantity.replace(' ', '-')}-{costs.slug}{gains.on[1]}", chart, alt, said)


def _of_twins(view: View, each: Weighed) -> str:
    """What exact twins compete in, where there are some."""
    among = [cell for cell in each.cells if cell in each.gains.twins]
    if not among:
        return ""
    values = pd.DataFrame({cell: view.values_of(cell) for cell in among}).T
    first = [each.gains.twins[cell] for cell in among]
    axes = [str(axis) for axis in values if (values[axis].groupby(first).nunique() > 1).any()]
    which = f"Cells that differ in {' or '.join(axes)} alone are exact twins" if axes else "Some cells are exact twins"
    return (
        f" {which}: of one accuracy by construction, the mean over all of them, so that cost alone chooses among them."
    )


def _of_marked(each: Weighed, *, drawn: bool) -> str:
    """What becomes of cells whose cost is not to be relied on, where there are some."""
    marked = int(each.costs.cells.loc[each.cells, MARKED].sum())
    if not marked:
        return ""
    which = f"The timing of {marked:,} of {plural(len(each.cells), 'cell')} is marked {UNSTABLE}"
    hollow = " (hollow)" if drawn else ""
    return f" {which}{hollow}: not to be relied on, so that none of these is put on the front, or surpasses another."


def _note(each: Weighed, listed: Sequence[str]) -> str:
    """How the column on the front is to be read, and what is not listed."""
    said, costs = [], each.costs
    if each.standing and (costs.shown is None or not each.sure):
        said.append("Yes and no are by these estimates alone: nothing tells how the costs would vary in another run.")
    elif each.standing and costs.shown:
        more, less = ("needs more", "needs no more") if costs.cheap else ("is slower", "is no slower")
        shown, unsure = costs.shown
        perhaps = f', and "perhaps" {unsure}' if PERHAPS in each.standing.values() else ""
        said.append(
            f'"{STANDING.capitalize()}" is "yes" where every cell of no less mean accuracy {more} {shown}, "no" where '
            f"one of them {less}{perhaps}."
        )
    if left := len(each.cells) - len(listed):
        said.append(f"The other {plural(left, 'cell')} are in the picture's numbers." if listed else "")
    return " ".join(filter(None, said))


def _table(
    view: View, each: Weighed, cells: Sequence[str], letters: Mapping[str, str], *, judged: bool, drawn: bool
) -> Table:
    """A row for each of some cells, in their order; ``drawn``: they have letters in a picture."""
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
            **({POINT: Md(letters[cell])} if drawn else {}),
            **({STANDING: Md(each.standing.get(cell, UNSTABLE))} if judged else {}),
            TEST: Md(f"{spread(mean, std, decimals)}{mark}"),
            costs.label: Md(f"{_amount(costs, row[VALUE])} {UNSTABLE}" if row[MARKED] else _amount(costs, row[VALUE])),
            **({f"{costs.ends} ({UNIT[costs.quantity]})": ends} if spreads else {}),
        })  # fmt: skip
    return table(lines, right={TEST, costs.label, f"{costs.ends} ({UNIT[costs.quantity]})"})


def _amount(costs: Costs, value: float) -> Md:
    return significant(value) if costs.cheap else count(value)
