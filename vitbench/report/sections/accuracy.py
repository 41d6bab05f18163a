"""Accuracy: one table of all that was trained, a row for each function that cells compute; published numbers."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from vitbench.analysis.grouped import ACCURACY, TRAIN_BLOCK, accuracy_interval, finished, matched
from vitbench.analysis.paired import Interval
from vitbench.analysis.verdicts import Judged
from vitbench.report.document import Bar, Block, Scale, Table, table
from vitbench.report.groups import Group, of_environment, states_of
from vitbench.report.output import Files
from vitbench.report.sections.effects import DIFFERENCE, VERDICT, numbers_of, words_of
from vitbench.report.text import (
    AT_CHANCE,
    NOTHING,
    SURVIVORS,
    Md,
    bold,
    count,
    cut,
    escape,
    ranging,
    seeds,
    signed,
    significant,
    span,
    spread,
)
from vitbench.report.view import MAX_CELLS, MEAN, STD, View
from vitbench.wording import plural

TEST, INTERVAL = "test accuracy (%)", "95 % interval (%)"
EQUIVALENT = "equivalent cells"
SHARED = "Equal in every row"  # Begins the sentence on columns that are left out, since every row has the same there
UNEQUAL_SEEDS = "Means are over all seeds of a cell; a difference is over as many as its row under Effects says."
NOT_ALONE = "Runs shared the machine: images/s and seconds cannot be compared."
OPTIONAL = frozenset(
    {"p (Holm)", "validation (%)", "warm-up (s)", "TFLOP per run", "steps", "FLOPs per image (M)", "of peak (%)"}
)
NAMING = frozenset({"cell", "state", "verdict", EQUIVALENT})


@dataclass(frozen=True)
class Function:
    """Cells that compute one function from the same weights, and what their runs in one group came to."""

    cells: Sequence[str]  # their labels, in the plan's order
    values: Mapping[str, Sequence[str]]  # axis → its values among them; empty where cells have names
    n: int  # seeds with a result
    planned: int  # seeds
    mean: float  # test accuracy, percent, over seeds; of each seed over the cells
    std: float  # sample standard deviation over seeds; NaN of one
    interval: Interval  # 95 % interval of the mean; NaN of one seed

    @property
    def name(self) -> str:
        """A name that no other function has: the values that its cells share, or the label of its first cell."""
        shared = [values[0] for values in self.values.values() if len(values) == 1]
        return " · ".join(shared) if shared and len(self.cells) > 1 else self.cells[0]


def functions(view: View, group: Group) -> list[Function]:
    """The functions of a group that have a result, the highest mean first."""
    of_device = view.runs(group.device, [ACCURACY], judged=True)
    planned = of_device.groupby("function", sort=False)["seed"].nunique()
    runs = finished(of_environment(of_device, group.environment))
    runs = runs[runs[ACCURACY].notna()]
    results = []
    for first, rows in runs.groupby("function", sort=False):
        cells = list(dict.fromkeys(rows["cell"].tolist()))
        by_axis = {axis: list(dict.fromkeys(view.values_of[cell][axis] for cell in cells)) for axis in view.axes}
        values = rows.groupby("seed", sort=False)[ACCURACY].mean().tolist()
        results.append(
            Function(
                cells, by_axis if view.factorial else {}, len(values), int(planned[first]), statistics.fmean(values),
                statistics.stdev(values) if len(values) > 1 else math.nan, accuracy_interval(values),
            )
        )  # fmt: skip
    return sorted(results, key=lambda each: -each.mean)


def section(view: View, files: Files) -> Iterator[Block]:
    """The table of each group, and the noise floor."""
    if blocks := view.by_group(lambda group: _by_function(view, group)):
        links = [files.table("accuracy", by_cell_frame(view))]
        links += [Md(f"by axis {files.table('accuracy-by-axis', axes_frame(view))}")] if view.axes else []
        yield from blocks
        yield Md(f"As numbers, a row for each cell: {', '.join(links)}.")


def _by_function(view: View, group: Group) -> Iterator[Block]:
    """The table of a group: a row for each function, then the cells without a result on one line."""
    if results := functions(view, group):
        yield _table(view, group, results[:MAX_CELLS])
        yield from cut(len(results), MAX_CELLS)
    known = {cell for each in results for cell in each.cells}
    missing = view.environments.missing(view.runs(group.device, judged=True))
    if words := Counter(word for cell, word in missing.items() if cell not in known):
        numbers = "; ".join(f"{escape(word)}: {plural(number, 'cell')}" for word, number in words.items())
        yield Md(f"Without a result here: {numbers}.")


def _table(view: View, group: Group, results: Sequence[Function]) -> Table:
    judged = [e.judged for e in group.conclusions.effects] + group.conclusions.variants if group.conclusions else []
    against_first = {j.comparison.cells[0]: j for j in judged if j.comparison.cells[1:] == (view.cells[0],)}
    records = view.cost_by_cell.to_dict("records")
    costs = {r["cell"]: r for r in records if (r["device"], r["environment"]) == (group.device, group.environment)}
    whole = view.trials[(view.trials["kind"] == "train") | (view.trials["level"] == "model")]
    sizes = whole.groupby("cell", sort=False)[["parameters", "forward_flops"]].first().to_dict("index")
    best = _best(view, results)
    lines = []
    for each in results:
        of_cells = [costs[cell] for cell in each.cells if cell in costs]
        accuracy = spread(each.mean, each.std, view.decimals)
        accuracy = bold(accuracy) if each in best else accuracy
        if view.is_at_chance(each.cells[0], each.mean, each.interval.low):
            accuracy = Md(f"{accuracy} ({AT_CHANCE})")
        line = view.identity(each.cells)
        if "cell" in line and len(view.function_of) > len(set(view.function_of.values())):
            line[EQUIVALENT] = count(len(each.cells))
        line[TEST] = Md(f"{accuracy} {SURVIVORS}") if each.n < each.planned else accuracy
        line[INTERVAL] = ranging(each.interval.low, each.interval.high, view.decimals)
        line["seeds"] = seeds(each.n, each.planned)
        if against_first and view.cells[0] not in each.cells:
            line |= _against_first(view, against_first.get(each.cells[0]))
        line |= {title: cost for title, column in COSTS.items() if (cost := _cost(of_cells, *column)) != NOTHING}
        size = sizes[each.cells[0]]
        line["parameters"] = count(size["parameters"])
        line["FLOPs per image (M)"] = significant(size["forward_flops"] / 1e6)
        lines.append(line)
    bars = [Bar(each.mean, each.interval.low, each.interval.high) for each in results]
    lines, same = without_equal(lines, keep={TEST, INTERVAL, *view.axis_names.values(), "cell"})
    shared = "; ".join(f"{name} {value}" for name, value in same.items())
    sentences = [
        "Test accuracy by cell, the highest mean first.",
        f"{SHARED}: {shared}." if shared else "",
        UNEQUAL_SEEDS if len({*(each.n for each in results), *(j.n for j in judged if j.n)}) > 1 else "",
        "" if view.contention[group.device].alone else NOT_ALONE,
    ]
    caption = " ".join(filter(None, sentences))
    right = {name for line in lines for name in line} - NAMING - set(view.axis_names.values())
    cells = [each.cells for each in results]
    return table(lines, right, caption=caption, bars={TEST: (bars, Scale())}, optional=OPTIONAL, cells=cells)


def without_equal(lines: Sequence[dict[str, Md]], keep: set[str]) -> tuple[list[dict[str, Md]], dict[str, Md]]:
    """Lines without the columns in which all agree, and what they agree on; one line keeps its columns."""
    names = [name for name in dict.fromkeys(name for line in lines for name in line) if name not in keep]
    values = {name: {line.get(name, NOTHING) for line in lines} for name in names}
    same = {name: next(iter(cells)) for name, cells in values.items() if len(cells) == 1} if len(lines) > 1 else {}
    different = [{name: cell for name, cell in line.items() if name not in same} for line in lines]
    return different, {name: value for name, value in same.items() if value != NOTHING}


def _against_first(view: View, judged: Judged | None) -> dict[str, Md]:
    """The difference from the first cell, and the verdict on it."""
    if judged is None or not judged.n:
        return dict.fromkeys((DIFFERENCE, "p (Holm)", VERDICT), NOTHING)
    numbers = numbers_of(view, judged)
    return {name: numbers[name] for name in (DIFFERENCE, "p (Holm)")} | {VERDICT: bold(escape(words_of(view, judged)))}


COSTS: Mapping[str, tuple[str, float]] = {
    "validation (%)": ("validation_accuracy_pct_mean", 1.0),
    "training (images/s)": ("train_images_per_s", 1.0),
    "peak memory (MiB)": ("peak_memory_mib", 1.0),
    "s per run": ("seconds_mean", 1.0),
    "warm-up (s)": ("warm_up_seconds", 1.0),
    "of peak (%)": ("of_peak", 100.0),
    "TFLOP per run": ("train_flops", 1e-12),
    "steps": ("steps", 1.0),
}
"""Column → what it shows of each cell's own runs, and by how much that is multiplied."""


def _cost(of_cells: Sequence[Mapping[Any, Any]], key: str, factor: float) -> Md:
    values = [float(cost[key]) * factor for cost in of_cells if cost[key] == cost[key]]
    if key in ("warm_up_seconds", "of_peak") and not any(values):
        return NOTHING
    return span(values, count if key == "steps" else significant)


def _best(view: View, results: Sequence[Function]) -> list[Function]:
    """The highest mean of each task, and those within the noise floor of it; of single runs none."""
    floor = view.noise.largest if view.noise else 0.0
    highest: dict[str, float] = {}
    for each in results:
        highest.setdefault(view.task(each.cells[0]), each.mean)
    best = [each for each in results if each.n > 1 and each.mean >= highest[view.task(each.cells[0])] - floor]
    return best if len(best) < len(results) else []


def by_cell_frame(view: View) -> pd.DataFrame:
    """A row for each device, cell and environment; for a cell without a result, one with its state."""
    values = view.trials.drop_duplicates("cell").set_index("cell")[list(view.axes)]
    states = {device: states_of(rows) for device, rows in view.judged.groupby("device", sort=False)}
    planned = view.judged.groupby(["device", "cell"], sort=False).size().rename("planned").reset_index()
    frame = planned.merge(view.by_cell.drop(columns="planned"), on=["device", "cell"], how="left")
    frame = frame.join(values, on="cell")
    frame["at_chance"] = frame["at_chance"].eq(True)
    frame["n"] = frame["n"].astype("float64").fillna(0).astype(int)
    stood_for = {"seeds_of": frame["cell"].map(view.stood_for)} if view.stood_for else {}
    frame = frame.assign(**stood_for)
    frame["state"] = [states[d][c] for d, c in zip(frame["device"], frame["cell"], strict=True)]
    frame["environment"] = view.environments.letters_of(frame["environment"])
    first = ["device", "cell", *view.axes, "state", "environment", "n", "planned", *stood_for]
    return frame[[*first, *(c for c in frame.columns if c not in first)]]


def axes_frame(view: View) -> pd.DataFrame:
    """Marginal means over matched blocks: a row for each device, environment, axis and value."""
    lines = []
    for group in view.groups:
        for axis in view.axes if group.environment else ():
            rows = of_environment(view.runs(group.device, judged=axis not in view.equivalent_axes), group.environment)
            blocks = matched(rows, view.axes, axis, ACCURACY, TRAIN_BLOCK)
            differences = blocks.differences()
            lines += [
                (group.device, view.environments.letter(group.environment), axis, value, blocks.reference, len(column),
                 blocks.incomplete, column.mean(), differences[value].mean(), differences[value].std(ddof=1))
                for value, column in blocks.table.items()
            ]  # fmt: skip
    columns = ["device", "environment", "axis", "value", "reference", "blocks", "incomplete_blocks", MEAN,
               "difference_points_mean", "difference_points_std"]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)


def _by_cell(view: View, group: Group) -> dict[str, dict[Any, Any]]:
    """Cell → its row of ``view.by_cell`` in a group."""
    rows = view.by_cell[view.by_cell["device"] == group.device]
    return {row["cell"]: row for row in of_environment(rows, group.environment).to_dict("records")}


def less_published(view: View, group: Group) -> dict[str, float]:
    """Cell → mean test accuracy less the published one, points, of those with both; none of other data."""
    results = _by_cell(view, group) if view.study.info.fallback is None else {}
    published = view.train.dropna(subset="published").drop_duplicates("cell").set_index("cell")["published"]
    return {cell: results[cell][MEAN] - number for cell, number in published.items() if cell in results}


def published(view: View, group: Group) -> list[Table]:
    """Published and measured side by side, accuracy and images a second; nothing where the suite names no number."""
    rows = view.train[(view.train["device"] == group.device) & view.train["published_source"].notna()]
    timed = rows["published_images_per_s"].notna().any()
    apart, results, states = less_published(view, group), _by_cell(view, group), states_of(rows)
    lines = []
    for row in rows.drop_duplicates("cell").to_dict("records"):
        result, state = results.get(row["cell"]), states[row["cell"]]
        line = {"cell": escape(row["cell"]), "published (%)": significant(row["published"]),
                "measured (%)": escape(state), "difference (points)": NOTHING, "seeds": Md("0")}  # fmt: skip
        if timed:
            rates = row["published_images_per_s"], result["train_images_per_s"] if result is not None else math.nan
            line |= dict(zip(("published (images/s)", "measured (images/s)"), map(significant, rates), strict=True))
        if result is not None:
            mark = f" {SURVIVORS}" if state != "ok" else ""
            line["measured (%)"] = Md(f"{spread(result[MEAN], result[STD], view.decimals)}{mark}")
            line["seeds"] = seeds(result["n"], result["planned"])
            other = NOTHING if view.study.info.fallback is None or math.isnan(row["published"]) else Md("other data")
            points = apart.get(row["cell"])
            line["difference (points)"] = other if points is None else signed(points, view.decimals)
        lines.append(line | {"source": escape(row["published_source"])})
    form = ", in the suite's small form, which is another setting" if view.small else ""
    caption = f"Published accuracy and what was measured{group.on}{form}."
    right = {name for line in lines for name in line} - {"cell", "source"}
    return [table(lines, right, caption=escape(caption), optional={"seeds", "source"})] if lines else []
