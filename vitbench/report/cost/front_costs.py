"""Costs of cells, for fronts: throughput and peak memory, of timings or training runs, and how well each is known.

A cost is a median with its spread. Between cells it is told apart by :mod:`vitbench.analysis.front`: of training runs
seed by seed, of timings by their intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from vitbench.analysis.front import CostSamples
from vitbench.analysis.grouped import finished
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.origins import of_origin
from vitbench.report.text import plural
from vitbench.report.view import View

THROUGHPUT, MEMORY = "throughput", "peak memory"
UNIT = {THROUGHPUT: "images/s", MEMORY: "MiB"}
RANGE, INTERVAL = "smallest to largest", "95 % interval"
VALUE, LOW, HIGH, MARKED = "value", "low", "high", "marked"


@dataclass(frozen=True)
class Costs:
    """What the cells cost in one quantity, measured in one way.

    Attributes:
        title: what was measured, for captions.
        slug: as part of a file's name.
        quantity: :data:`THROUGHPUT`, of which more is better, or :data:`MEMORY`, of which less is.
        cells: cell → value, low, high (the ends of its bar), marked (whether it is not to be relied on).
        seeds: cell → the value with each seed; None for timings.
        statistic: what the value is, in words.
        bar: what its bar is, in words; empty where there is none.
        ends: what the ends of a bar are, as a column's name.
        alone: whether it had the machine to itself, as far as it depends on that.
        shown: when one is shown to cost less than another, and when it is not, in words; empty where nothing tells.
    """

    title: str
    slug: str
    quantity: str
    cells: pd.DataFrame
    seeds: pd.DataFrame | None
    statistic: str
    bar: str
    ends: str
    shown: tuple[str, str] | None
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
        if self.shown is None:
            return CostSamples(*np.full((2, len(cells)), np.nan))
        ends = sign * self.cells.loc[cells, [LOW, HIGH]].to_numpy(np.float64)
        repeated = None if self.seeds is None else sign * self.seeds.loc[cells].to_numpy(np.float64)
        return CostSamples(ends.min(axis=1), ends.max(axis=1), repeated)


def costs(view: View, device: str, origin: str) -> Iterator[Costs]:
    """Of timings of inference, the largest batch of each dtype; where there are none, of the training runs."""
    groups = [g for g in view.time_groups if (g.device, g.mode, g.level) == (device, "inference", "model")]
    largest = {g.dtype: g for g in sorted(groups, key=lambda g: g.batch_size)}
    timed = False
    for group in largest.values():
        rows = finished(view.timings(group))
        origins = view.origins.of(rows)
        for mine in origins:
            on, suffix = view.origins.on(mine, origins)
            found = of_origin(rows, mine)
            found = found[found["images_per_s"].notna()].drop_duplicates("cell")
            if len(found):
                timed = True
                yield from _of_timings(view, group, on, suffix, found)
    if not timed:
        columns = ["train_images_per_s", "peak_memory_mib"]
        runs = finished(of_origin(view.runs(device, columns), origin))
        yield from _of_training(view, device, runs[runs["train_images_per_s"].notna()])


def _of_timings(view: View, group: TimeGroup, on: str, suffix: str, rows: pd.DataFrame) -> Iterator[Costs]:
    """Throughput with the interval of its latency, memory over the processes."""
    title, slug = f"{group.title}{on}", f"{group.slug}{suffix}"
    rows = rows.set_index("cell")
    an_ms = rows["images_per_s"] * rows["latency_ms_p50"]
    cells = pd.DataFrame({
        VALUE: rows["images_per_s"], LOW: an_ms / rows["latency_ms_high"], HIGH: an_ms / rows["latency_ms_low"],
        MARKED: rows["unstable"].fillna("").astype(str) != "",
    })  # fmt: skip
    yield Costs(
        title, slug, THROUGHPUT, cells, None,
        "that of the median latency", "for the 95 % interval of that", INTERVAL,
        ("by intervals that lie apart", "where these overlap"),
    )  # fmt: skip
    of_trial = view.processes.groupby("trial_id")["peak_memory_mib"].agg(["median", "min", "max"])
    found = of_trial.reindex(rows["trial_id"]).set_axis(rows.index)
    # Of processes that variants share no memory is known: there is the one that each had to itself. Of several, memory
    # varies less than between cells of the same size, which shows nothing: they do again what the first has done.
    alone = found["median"].isna()
    cells = pd.DataFrame({
        VALUE: found["median"].where(~alone, rows["peak_memory_mib"]), LOW: found["min"], HIGH: found["max"],
        MARKED: False,
    })  # fmt: skip
    yield Costs(
        title, slug, MEMORY, cells, None,
        "of a process that each had to itself" if alone.all() else "the median over processes",
        "" if alone.all() else "from the smallest to the largest", RANGE, None,
    )  # fmt: skip


def _of_training(view: View, device: str, runs: pd.DataFrame) -> Iterator[Costs]:
    for quantity, column in ((THROUGHPUT, "train_images_per_s"), (MEMORY, "peak_memory_mib")):
        values = runs.groupby(["cell", "seed"], sort=False)[column].first().unstack("seed").astype("float64")
        values = values.dropna(how="all")
        spread = {VALUE: values.median(axis=1), LOW: values.min(axis=1), HIGH: values.max(axis=1)}
        alone = values.notna().sum(axis=1) < 2  # of one run there is no spread
        cells = pd.DataFrame(spread).assign(**{MARKED: False})
        cells.loc[alone, [LOW, HIGH]] = np.nan
        of_all = f"with each of the {plural(values.shape[1], 'seed')}"
        each = of_all if values.notna().all(axis=None) else "with each seed that both have"
        several = not alone.all()
        yield Costs(
            f"training on {device}", f"training-{device}", quantity, cells, values,
            "the median over seeds" if several else "of one run", "from the smallest to the largest" if several else "",
            RANGE, (each, "where the seeds disagree") if several else None,
            alone=quantity == MEMORY or view.contention(device).alone,
        )  # fmt: skip
