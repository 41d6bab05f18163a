"""Pareto fronts: test accuracy against what it costs, the cells that no other surpasses in both, and how surely."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from vitbench.analysis.front import NO, PERHAPS, YES, CostSamples, distinguishable, known, standings, unsurpassed
from vitbench.analysis.grouped import ACCURACY
from vitbench.report.document import Block, Table, filled, table
from vitbench.report.figures.charts import SPOT, Colouring, Front, Picture
from vitbench.report.groups import Group, TimeGroup
from vitbench.report.output import Files
from vitbench.report.sections.accuracy import TEST
from vitbench.report.text import SURVIVORS, UNSTABLE, Md, count, enumerated, escape, significant, spread
from vitbench.report.view import MEAN, STD, View
from vitbench.wording import plural

THROUGHPUT, MEMORY = "throughput", "peak memory"
UNIT = {THROUGHPUT: "images/s", MEMORY: "MiB"}
RANGE, INTERVAL = "smallest to largest", "95 % interval"
VALUE, LOW, HIGH, MARKED, POOLED, SURVIVED = "cost", "cost_low", "cost_high", "marked", "pooled", "survived"
STANDING, BEST = "on_the_front", "on_the_line"
DIGITS = 9  # Decimals of accuracies that are compared: what is equal but for the rounding of floats is equal


@dataclass(frozen=True)
class Costs:
    """Costs of the cells of one device and environment in one quantity, measured in one way, and their accuracies."""

    group: Group  # whose accuracies
    title: str  # what was measured, for captions
    slug: str  # as part of a file's name
    quantity: str  # :data:`THROUGHPUT`, of which more is better, or :data:`MEMORY`, of which less is
    # cell → value, low, high (the ends of its bar), marked (whether it is not to be relied on). Once weighed, the most
    # accurate cell first, also its accuracy; whether it is on the front by the estimates, and as far as that is known
    cells: pd.DataFrame
    statistic: str  # what the value is, in words
    ends: str  # what the ends of a bar are, as a column's name
    how: str = ""  # by what one is shown to cost less than another, in words; empty where nothing shows it
    seeds: pd.DataFrame | None = None  # cell → the value with each seed; None for timings
    apart: bool = False  # whether any two of the costs are shown to differ
    sure: bool = False  # whether the uncertainty of the costs is known

    @property
    def cheap(self) -> bool:
        """Whether less of the quantity is better."""
        return self.quantity == MEMORY

    @property
    def label(self) -> str:
        """The quantity with its unit."""
        return f"{self.quantity} ({UNIT[self.quantity]})"

    def measured(self, cells: list[str]) -> CostSamples:
        """Costs of some cells, with a sign such that less is better."""
        sign = 1.0 if self.cheap else -1.0
        if not self.how:
            return CostSamples(*np.full((2, len(cells)), np.nan))
        ends = sign * self.cells.loc[cells, [LOW, HIGH]].to_numpy(np.float64)
        repeated = None if self.seeds is None else sign * self.seeds.loc[cells].to_numpy(np.float64)
        return CostSamples(ends.min(axis=1), ends.max(axis=1), repeated)


def weighed(view: View) -> Iterator[Costs]:
    """Accuracy against each cost of each device that trained, as far as two cells or more have both."""
    for group in view.groups:
        gains = _gains(view, group)
        for costs in _costs(view, group):
            cells = gains.join(costs.cells.dropna(subset=[VALUE]), how="inner")
            if len(cells) > 1:
                yield _judged(costs, cells.loc[[cell for cell in view.cells if cell in cells.index]])


def _gains(view: View, group: Group) -> pd.DataFrame:
    """Cell → its accuracy. Equivalent implementations are one experiment, done several times: averaged seed by seed."""
    rows = view.by_cell[(view.by_cell["device"] == group.device) & (view.by_cell["environment"] == group.environment)]
    gains = rows.set_index("cell")[[MEAN, STD, "n", "planned"]].assign(**{POOLED: False})
    gains[SURVIVED] = gains["n"] < gains["planned"]
    runs = view.done(group, [ACCURACY])
    runs = runs[runs[ACCURACY].notna()]
    # Most cells of most studies have no equivalent.
    runs = runs[runs.groupby("function")["cell"].transform("nunique") > 1]
    for _, alike in runs.groupby("function", sort=False):
        of_seed = alike.groupby("seed")[ACCURACY].mean()
        gains.loc[alike["cell"].unique(), [MEAN, STD, POOLED]] = of_seed.mean(), of_seed.std(ddof=1), True
    return gains[[MEAN, STD, POOLED, SURVIVED]]


def _judged(costs: Costs, cells: pd.DataFrame) -> Costs:
    """The front of some cells. One whose cost is marked is not judged, and surpasses none."""
    counted = cells[~cells[MARKED].astype(bool)]
    names, gain = [str(cell) for cell in counted.index], counted[MEAN].round(DIGITS).to_numpy(np.float64)
    measured = costs.measured(names)
    costs_of = dict(zip(names, counted[VALUE].tolist(), strict=True))
    best = unsurpassed(costs_of, dict(zip(names, gain.tolist(), strict=True)), cheap=costs.cheap)
    sure = known(measured)
    judged = standings(measured, gain) if sure else [YES if cell in best else NO for cell in names]
    standing = dict(zip(names, judged, strict=True))
    cells[BEST], cells[STANDING] = cells.index.isin(best), [standing.get(str(cell), UNSTABLE) for cell in cells.index]
    cells = cells.sort_index(kind="stable").sort_values(MEAN, ascending=False, kind="stable")
    return replace(costs, cells=cells, apart=distinguishable(measured), sure=sure)


def _costs(view: View, group: Group) -> Iterator[Costs]:
    """The costs in timings of inference, at the largest batch size of each dtype; without any, in training runs."""
    timed = [g for g in view.time_groups if (g.device, g.mode, g.level) == (group.device, "inference", "model")]
    largest = {g.dtype: g.batch_size for g in sorted(timed, key=lambda g: g.batch_size)}
    settings = [g for g in timed if g.batch_size == largest[g.dtype] and len(view.timed(g))]
    for setting in settings:
        yield from _of_timings(view, group, setting)
    if not settings:
        yield from _of_training(view, group)


def _of_timings(view: View, group: Group, setting: TimeGroup) -> Iterator[Costs]:
    """Throughput with the interval of its latency, memory over the processes."""
    rows = view.timed(setting).drop_duplicates("cell").set_index("cell")
    an_ms = rows["images_per_s"] * rows["latency_ms_p50"]
    cells = pd.DataFrame({
        VALUE: rows["images_per_s"], LOW: an_ms / rows["latency_ms_high"], HIGH: an_ms / rows["latency_ms_low"],
        MARKED: rows["unstable"] != "",
    })  # fmt: skip
    yield Costs(group, setting.title, setting.slug, THROUGHPUT, cells, "that of the median latency", INTERVAL,
                "by intervals that do not overlap")  # fmt: skip
    of_trial = view.processes.groupby("trial_id")["peak_memory_mib"].agg(["median", "min", "max"])
    memory = of_trial.reindex(rows["trial_id"]).set_axis(rows.index)
    # Of processes that variants share no memory is known: there is the one that each had to itself. Of several, memory
    # varies less than between cells of the same size, which shows nothing: they do again what the first has done.
    alone = memory["median"].isna()
    cells = pd.DataFrame({
        VALUE: memory["median"].where(~alone, rows["peak_memory_mib"]), LOW: memory["min"], HIGH: memory["max"],
        MARKED: False,
    })  # fmt: skip
    statistic = "of a process that each had to itself" if alone.all() else "the median over processes"
    yield Costs(group, setting.title, setting.slug, MEMORY, cells, statistic, RANGE)


def _of_training(view: View, group: Group) -> Iterator[Costs]:
    """Memory of the runs, and their throughput where they had the machine to themselves."""
    columns = {THROUGHPUT: "train_images_per_s", MEMORY: "peak_memory_mib"}
    runs = view.done(group, [*columns.values()])
    runs = runs[runs["train_images_per_s"].notna()]
    for quantity, column in columns.items():
        if quantity == THROUGHPUT and not view.contention[group.device].alone:
            continue
        values = runs.groupby(["cell", "seed"], sort=False)[column].first().unstack("seed").astype("float64")
        values = values.dropna(how="all")
        spread = {VALUE: values.median(axis=1), LOW: values.min(axis=1), HIGH: values.max(axis=1)}
        alone = values.notna().sum(axis=1) < 2  # of one run there is no spread
        cells = pd.DataFrame(spread).assign(**{MARKED: False})
        cells.loc[alone, [LOW, HIGH]] = np.nan
        several = not alone.all()
        yield Costs(
            group, f"training on {group.device}", f"training-{group.device}", quantity, cells,
            "the median over seeds" if several else "of one run", RANGE,
            f"with each of the {plural(values.shape[1], 'seed')} that both have" if several else "", values,
        )  # fmt: skip


MOST_NAMED = 8  # Cells of a front that have a colour each, where no axis has
MOST = 300  # Cells of a front that are drawn
FEWEST = 3  # Cells from which a front is drawn: two are read from a table
WIDE = 8.0  # Largest over smallest cost, from which the axis is logarithmic
LEAST = 1e-12  # Smallest cost on a logarithmic axis; below are only zeros, and what no device measures
LISTED = 24  # Cells of a table: of more those near the front alone

ALIKE = (
    "{title}: no cell is shown to {need} than another {how} (medians {ends}), so {quantity} is no reason to choose a "
    "cell.{also}"
)
WEIGHED = (
    "{title}: mean accuracy over seeds ± one standard deviation; {quantity}, {statistic}. On the front{dashed}: "
    "the cells that no other surpasses in both.{also}"
)
FRONT = "“On the front”: yes where every cell of no less mean accuracy {more} {how}; no where one {less}; else perhaps."
ESTIMATED = "“On the front” is by these estimates alone: how the costs would vary in another run is unknown."
ONE_ACCURACY = (
    " Equivalent implementations have one accuracy, the mean over all of them: cost alone chooses among them."
)
UNSTABLE_CELLS = " The timings of {marked} are unstable{hollow} and take no part."


def section(view: View, files: Files) -> list[Block]:
    """Accuracy against throughput and against memory for each device that trained, or why that is not shown."""
    if view.by_cell.empty or len(view.cells) < 2:
        return []
    if view.task_axes:  # accuracy in one task buys nothing in another
        axes = enumerated([escape(view.axis_names[axis]) for axis in view.task_axes])
        return [Md(f"Not shown: cells classify different images or classes ({axes}).")]
    blocks = [block for costs in weighed(view) for block in _front(view, files, costs)]
    return blocks or [Md("Not shown: fewer than two cells of one device have both an accuracy and a cost.")]


def _front(view: View, files: Files, costs: Costs) -> list[Block]:
    """One front: a picture where costs tell cells apart, else a sentence; then the table of its cells."""
    cells = costs.cells
    marked, drawn = int(cells[MARKED].sum()), len(cells) >= FEWEST and (costs.apart or not costs.sure)
    unstable = f"{marked:,} of {plural(len(cells), 'cell')}"
    facts = {
        "title": f"Test accuracy{costs.group.on} against {costs.quantity}, {costs.title}",
        "quantity": costs.quantity,
        "statistic": costs.statistic,
        "how": costs.how,
        "also": (ONE_ACCURACY if cells[POOLED].any() else "")
        + (UNSTABLE_CELLS.format(marked=unstable, hollow=" (hollow)" if drawn else "") if marked else ""),
    }
    if costs.sure and not costs.apart:
        low, high = (_amount(costs, float(end)) for end in (cells[VALUE].min(), cells[VALUE].max()))
        need = f"{'need less' if costs.cheap else 'have more'} {costs.quantity}"
        return [escape(ALIKE.format(**facts, need=need, ends=f"{low} to {high} {UNIT[costs.quantity]}"))]
    more, less = ("needs more", "needs no more") if costs.cheap else ("is slower", "is no slower")
    reading = FRONT.format(more=more, less=less, how=costs.how) if costs.sure else ESTIMATED
    listed = (cells if len(cells) <= LISTED else cells[cells[BEST] | (cells[STANDING] == PERHAPS)])[:LISTED]
    left = len(cells) - len(listed)
    caption = WEIGHED.format(**facts, dashed=" (dashed)" if drawn and cells[BEST].sum() > 1 else "")
    first = files.picture(_picture(view, costs, caption)) if drawn else escape(caption)
    rest = f" {plural(left, 'more cell')}: see the figure's CSV." if left and drawn else ""
    return [first, _table(view, costs, listed), escape(f"{reading}{rest}")]


def _picture(view: View, costs: Costs, caption: str) -> Picture:
    """The picture of a front: the cells on it, and as many others as can be told apart, the most accurate first."""
    cells = costs.cells
    axis = view.telling[0] if view.factorial and view.telling else ""
    ordered = cells.sort_values([BEST, VALUE], ascending=[False, costs.cheap], kind="stable")
    drawn = pd.concat([ordered[ordered[BEST]], cells[~cells[BEST]]])[: max(MOST, int(cells[BEST].sum()))]
    by_name = not axis and len(drawn) <= MOST_NAMED
    colour_of = {cell: cell if by_name else view.values_of[cell].get(axis, "") for cell in map(str, drawn.index)}
    frame = drawn.rename(columns={MEAN: "gain", STD: "spread"}).assign(
        cell=drawn.index, colour=list(colour_of.values()),
        **{MARKED: drawn[MARKED].astype(bool), STANDING: drawn[STANDING].where(~drawn[MARKED].astype(bool), "")},
    )[[*SPOT]]  # fmt: skip
    colours, values = set(colour_of.values()), view.in_colour([*colour_of]) if by_name else view.axes.get(axis, ())
    smallest, largest = cells[VALUE].min(), cells[VALUE].max()
    chart = Front(
        costs.label, TEST, costs.cheap, frame,
        Colouring("cell" if by_name else view.axis_names.get(axis, ""), values, [v for v in values if v in colours]),
        logarithmic=bool(smallest > LEAST and largest / smallest >= WIDE),
    )  # fmt: skip
    caption += f" Of {len(cells):,} cells the {len(drawn):,} best are drawn." if len(drawn) < len(cells) else ""
    alt = f"Plot of test accuracy against {costs.quantity}, {costs.title}"
    return Picture(f"front-{costs.quantity.replace(' ', '-')}-{costs.slug}{costs.group.slug}", chart, alt, caption)


def _table(view: View, costs: Costs, cells: pd.DataFrame) -> Table:
    lines, ends = list[dict[str, Md]](), f"{costs.ends} ({UNIT[costs.quantity]})"
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
    return table(filled(lines), right={TEST, costs.label, ends}, cells=[[cell] for cell in cells.index])


def _amount(costs: Costs, value: float) -> Md:
    return significant(value) if costs.cheap else count(value)
