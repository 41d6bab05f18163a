"""Fronts: the cells of each device and environment between what they cost and their accuracy.

A cost is throughput or peak memory, of timings or training runs: a median with its spread. Between cells it is told
apart by :mod:`vitbench.analysis.front`: of training runs seed by seed, of timings by their intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from vitbench.analysis.front import NO, PERHAPS, YES, CostSamples, distinguishable, known, standings, unsurpassed
from vitbench.analysis.grouped import ACCURACY, finished
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.origins import of_origin
from vitbench.report.text import UNSTABLE
from vitbench.report.view import MEAN, STD, Group, View
from vitbench.wording import plural

THROUGHPUT, MEMORY = "throughput", "peak memory"
UNIT = {THROUGHPUT: "images/s", MEMORY: "MiB"}
RANGE, INTERVAL = "smallest to largest", "95 % interval"
VALUE, LOW, HIGH, MARKED, POOLED, SURVIVED = "value", "low", "high", "marked", "pooled", "survived"
STANDING, BEST = "standing", "best"
DIGITS = 9
"""Decimals of accuracies that are compared: what is equal but for the rounding of floats is equal."""


@dataclass(frozen=True)
class Costs:
    """Costs of cells in one quantity, measured in one way.

    Attributes:
        title: what was measured, for captions.
        slug: as part of a file's name.
        quantity: :data:`THROUGHPUT`, of which more is better, or :data:`MEMORY`, of which less is.
        cells: cell → value, low, high (the ends of its bar), marked (whether it is not to be relied on).
        statistic: what the value is, in words.
        ends: what the ends of a bar are, as a column's name.
        how: by what one is shown to cost less than another, in words; empty where nothing shows it.
        seeds: cell → the value with each seed; None for timings.
        alone: whether it had the machine to itself, as far as it depends on that.
    """

    title: str
    slug: str
    quantity: str
    cells: pd.DataFrame
    statistic: str
    ends: str
    how: str = ""
    seeds: pd.DataFrame | None = None
    alone: bool = True

    @property
    def cheap(self) -> bool:
        """Whether less of the quantity is better."""
        return self.quantity == MEMORY

    @property
    def label(self) -> str:
        """The quantity with its unit."""
        return f"{self.quantity} ({UNIT[self.quantity]})"

    def measured(self, cells: list[str]) -> CostSamples:
        """Those of some cells such that less is better."""
        sign = 1.0 if self.cheap else -1.0
        if not self.how:
            return CostSamples(*np.full((2, len(cells)), np.nan))
        ends = sign * self.cells.loc[cells, [LOW, HIGH]].to_numpy(np.float64)
        repeated = None if self.seeds is None else sign * self.seeds.loc[cells].to_numpy(np.float64)
        return CostSamples(ends.min(axis=1), ends.max(axis=1), repeated)


@dataclass(frozen=True)
class Weighed:
    """Cells between one cost and what they give, of one device and environment.

    Attributes:
        group: whose accuracies.
        costs: of these and perhaps other cells.
        cells: cell → columns of its cost and its accuracy; ``best``, whether it is on the front by the estimates;
            ``standing``, whether it is as far as that is known. The most accurate first.
        apart: whether any two of the costs are shown to differ.
        sure: whether the uncertainty of the costs is known.
    """

    group: Group
    costs: Costs
    cells: pd.DataFrame
    apart: bool
    sure: bool

    @property
    def near(self) -> pd.DataFrame:
        """The cells that are on the front, by their estimates or perhaps."""
        return self.cells[self.cells[BEST] | (self.cells[STANDING] == PERHAPS)]


def weighed(view: View) -> Iterator[Weighed]:
    """Accuracy against each cost of each device that trained, as far as two cells or more have both."""
    for group in view.groups:
        gains = _gains(view, group)
        for costs in _costs(view, group):
            cells = gains.join(costs.cells.dropna(subset=[VALUE]), how="inner")
            if len(cells) > 1:
                yield _judged(group, costs, cells.loc[[cell for cell in view.cells if cell in cells.index]])


def _gains(view: View, group: Group) -> pd.DataFrame:
    """Cell → its accuracy. Equivalent implementations are one experiment, done several times: averaged seed by seed."""
    rows = view.by_cell[(view.by_cell["device"] == group.device) & (view.by_cell["origin"] == group.origin)]
    gains = rows.set_index("cell")[[MEAN, STD, "n", "planned"]].assign(**{POOLED: False})
    gains[SURVIVED] = gains["n"] < gains["planned"]
    runs = finished(of_origin(view.runs(group.device, [ACCURACY]), group.origin))
    runs = runs[runs[ACCURACY].notna()]
    # Most cells of most studies have no equivalent.
    runs = runs[runs.groupby("function")["cell"].transform("nunique") > 1]
    for _, alike in runs.groupby("function", sort=False):
        of_seed = alike.groupby("seed")[ACCURACY].mean()
        gains.loc[alike["cell"].unique(), [MEAN, STD, POOLED]] = of_seed.mean(), of_seed.std(ddof=1), True
    return gains[[MEAN, STD, POOLED, SURVIVED]]


def _judged(group: Group, costs: Costs, cells: pd.DataFrame) -> Weighed:
    """A cell whose cost is marked is not judged, and surpasses none."""
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
    return Weighed(group, costs, cells, distinguishable(measured), sure)


def _costs(view: View, group: Group) -> Iterator[Costs]:
    """Of timings of inference, the largest batch of each dtype; where there are none, of the training runs."""
    timed = [g for g in view.time_groups if (g.device, g.mode, g.level) == (group.device, "inference", "model")]
    largest = {g.dtype: g.batch_size for g in sorted(timed, key=lambda g: g.batch_size)}
    found = [g for g in timed if g.batch_size == largest[g.dtype] and len(view.timed(g))]
    for each in found:
        yield from _of_timings(view, each)
    if not found:
        yield from _of_training(view, group)


def _of_timings(view: View, group: TimeGroup) -> Iterator[Costs]:
    """Throughput with the interval of its latency, memory over the processes."""
    rows = view.timed(group).drop_duplicates("cell").set_index("cell")
    an_ms = rows["images_per_s"] * rows["latency_ms_p50"]
    cells = pd.DataFrame({
        VALUE: rows["images_per_s"], LOW: an_ms / rows["latency_ms_high"], HIGH: an_ms / rows["latency_ms_low"],
        MARKED: rows["unstable"].fillna("").astype(str) != "",
    })  # fmt: skip
    yield Costs(group.title, group.slug, THROUGHPUT, cells, "that of the median latency", INTERVAL,
                "by intervals that do not overlap")  # fmt: skip
    of_trial = view.processes.groupby("trial_id")["peak_memory_mib"].agg(["median", "min", "max"])
    found = of_trial.reindex(rows["trial_id"]).set_axis(rows.index)
    # Of processes that variants share no memory is known: there is the one that each had to itself. Of several, memory
    # varies less than between cells of the same size, which shows nothing: they do again what the first has done.
    alone = found["median"].isna()
    cells = pd.DataFrame({
        VALUE: found["median"].where(~alone, rows["peak_memory_mib"]), LOW: found["min"], HIGH: found["max"],
        MARKED: False,
    })  # fmt: skip
    statistic = "of a process that each had to itself" if alone.all() else "the median over processes"
    yield Costs(group.title, group.slug, MEMORY, cells, statistic, RANGE)


def _of_training(view: View, group: Group) -> Iterator[Costs]:
    columns = {THROUGHPUT: "train_images_per_s", MEMORY: "peak_memory_mib"}
    runs = finished(of_origin(view.runs(group.device, [*columns.values()]), group.origin))
    runs = runs[runs["train_images_per_s"].notna()]
    for quantity, column in columns.items():
        values = runs.groupby(["cell", "seed"], sort=False)[column].first().unstack("seed").astype("float64")
        values = values.dropna(how="all")
        spread = {VALUE: values.median(axis=1), LOW: values.min(axis=1), HIGH: values.max(axis=1)}
        alone = values.notna().sum(axis=1) < 2  # of one run there is no spread
        cells = pd.DataFrame(spread).assign(**{MARKED: False})
        cells.loc[alone, [LOW, HIGH]] = np.nan
        several = not alone.all()
        yield Costs(
            f"training on {group.device}", f"training-{group.device}", quantity, cells,
            "the median over seeds" if several else "of one run", RANGE,
            f"with each of the {plural(values.shape[1], 'seed')} that both have" if several else "", values,
            alone=quantity == MEMORY or view.contention(group.device).alone,
        )  # fmt: skip
