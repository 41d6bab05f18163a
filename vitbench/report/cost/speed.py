"""Speed: latency, throughput and memory by cell, and each timing beside the baseline of its setting, with a verdict."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from vitbench.analysis.frames import level
from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.analysis.timings import BESIDE, UNSTEADY, WIDE
from vitbench.report.document import Bar, Scale, Table, filled, table
from vitbench.report.groups import TimeGroup
from vitbench.report.text import (
    NOTHING,
    UNSTABLE,
    Md,
    bold,
    count,
    distinct,
    escape,
    fixed,
    listed,
    ratio_ends,
    significant,
)
from vitbench.report.view import MAX_CELLS, View
from vitbench.wording import plural

LATENCY, RATIO, DRIFT = "latency p50 (ms)", "speed (× baseline)", "drift of the output"
OPTIONAL = frozenset({"by the host's clock (ms)", "GFLOP/s", "first iteration (ms)", "largest batch"})
CONTROL = "A/A control: the baseline again"

WIDER = f"{WIDE}speed, or of the A/A control, is ±{100 * UNSTEADY:.0f} % or wider"
MAX_MARKED = 12  # Marked timings that are named for each reason; the CSV has them all


def baseline(view: View, group: TimeGroup) -> dict[str, Any] | None:
    """The timing that others are compared with: of the plan's first cell that has one in the group."""
    rows = view.timed(group)
    return {str(key): value for key, value in rows.iloc[0].items()} if len(rows) else None


def by_cell(view: View, group: TimeGroup) -> Table:
    """The table of a group that has a result: a row for each planned cell, then the A/A control."""
    planned, rows = view.timings(group), view.timed(group).to_dict("records")
    missing, base = view.environments.missing(planned), baseline(view, group)
    timings, beside = {row["cell"]: row for row in rows}, {each.row["cell"]: each for each in _of_group(view, group)}
    assert base is not None
    # Of a part of the model only some axes matter: those in which the timings differ name them.
    axes = () if group.level == "model" else axes_of(view, group)
    order = sorted(planned["cell"].unique(), key=lambda c: timings[c]["latency_ms_p50"] if c in timings else math.inf)
    drifts = not view.by_other_runtimes.isdisjoint(planned["trial_id"])
    cells, best_ones = order[:MAX_CELLS], (fastest(rows, base["trial_id"]), leanest(rows))
    lines, bars = list[dict[str, Md]](), list[Bar | None]()
    for cell in cells:
        row = timings.get(cell)
        speed = Md("1") if cell == base["cell"] else ratio(beside[cell]) if cell in beside else NOTHING
        values = _values(group, row, speed, *best_ones, drifts=drifts) if row else {LATENCY: escape(missing[cell])}
        lines.append(view.identity([cell], axes) | values)
        bars.append(Bar(*(row[f"latency_ms_{end}"] for end in ("p50", "low", "high"))) if row else None)
    if math.isfinite(base["control"]):
        control = with_interval(base["control"], base["control_low"], base["control_high"])
        lines.append({next(iter(lines[0])): Md(CONTROL), RATIO: control})
        bars.append(None)
    lines = filled(lines)
    right = {name for line in lines for name in line} - {"cell", *view.axis_names.values()}
    named = called(view, group, [base["cell"]])[base["cell"]]
    caption = f"{escape(group.mode_name.capitalize())}, the lowest latency first. Baseline: {escape(named)}."
    drawn = {LATENCY: (bars, Scale())}
    return table(lines, right, caption=caption, bars=drawn, optional=OPTIONAL, cells=[[cell] for cell in cells])


def unstable(view: View, group: TimeGroup) -> list[Md]:
    """Reasons why timings are marked: a number for intervals, which the table has, names for others; or nothing."""
    rows = view.timed(group)
    marked = [(row["cell"], row["unstable"]) for row in rows.to_dict("records") if row["unstable"]]
    if not marked:
        return []
    named, reasons = called(view, group, [cell for cell, _ in marked]), dict[str, list[str]]()
    for cell, whys in marked:
        for why in whys.split("; "):
            reasons.setdefault(WIDER if why.startswith(WIDE) else why, []).append(named[cell])
    counted = [
        f"{escape(why)} ({f'{len(cells):,}' if why in {WIDER, BESIDE} else listed(cells, MAX_MARKED)})"
        for why, cells in reasons.items()
    ]
    base = baseline(view, group)
    all_speeds = " The baseline is one of them, so that each speed is marked." if base and base["unstable"] else ""
    number = f"{len(marked):,} of {plural(len(rows), 'timing')}"
    return [Md(f"{UNSTABLE} Unstable, {number}: {'; '.join(counted)}.{all_speeds}")]


def _values(
    group: TimeGroup, result: Mapping[Any, Any], speed: Md, first: Set[str], least: Set[str], *, drifts: bool,
) -> dict[str, Md]:  # fmt: skip
    trial, doubt = result["trial_id"], f" {UNSTABLE}" if result["unstable"] else ""
    latency, rate = Md(f"{significant(result['latency_ms_p50'])}{doubt}"), Md(f"{count(result['images_per_s'])}{doubt}")
    memory, ends = significant(result["peak_memory_mib"]), [result["latency_ms_low"], result["latency_ms_high"]]
    return {
        LATENCY: bold(latency) if trial in first else latency,
        "95 % interval (ms)": Md(" to ".join(significant(end) for end in ends if math.isfinite(end)) or "n/a"),
        "by the host's clock (ms)": significant(result["wall_ms_p50"]),
        f"{group.item}s/s": bold(rate) if trial in first else rate,
        RATIO: speed,
        "GFLOP/s": significant(result["flops_per_s"] / 1e9),
        "of the roofline (%)": fixed(100 * result["of_roofline"], 0),
        "peak memory (MiB)": bold(memory) if trial in least else memory,
        f"energy (mJ/{group.item})": significant(result["energy_mj_per_image"]),
        "largest batch": count(result["largest_batch"]),
        "first iteration (ms)": significant(result["first_ms"]),
        **({DRIFT: significant(result["drift"])} if drifts else {}),
    }


def fastest(rows: Sequence[Mapping[Any, Any]], baseline: str) -> set[str]:
    """Trial ids of the lowest latency and of those whose speed beside the baseline has an interval that overlaps with
    its; none where that is everything, or where nothing is known of the luck. Marked timings take no part.
    """
    sure = [row for row in rows if not row["unstable"]]
    if not sure:
        return set()
    spans = {row["trial_id"]: (row["speed_low"], row["speed_high"]) for row in sure}
    spans |= {baseline: (1.0, 1.0)} if baseline in spans else {}
    low, high = spans[min(sure, key=lambda row: row["latency_ms_p50"])["trial_id"]]
    # An end that is not a number is neither above nor below anything: such a timing cannot be told from another.
    trials = {trial for trial, (a, b) in spans.items() if not (b < low or a > high)}
    return trials if len(trials) < len(sure) else set()


def leanest(rows: Sequence[Mapping[Any, Any]]) -> set[str]:
    """Trial ids of the least peak memory, as it is printed; none where it is no count.

    An allocator counts bytes. A resident set differs from process to process, and by how much is mostly not known.
    """
    if any(pd.isna(row["peak_reserved_mib"]) for row in rows):
        return set()
    memories = {row["trial_id"]: significant(row["peak_memory_mib"]) for row in rows}
    least = significant(min((row["peak_memory_mib"] for row in rows), default=math.nan))
    trials = {trial for trial, memory in memories.items() if memory == least}
    return trials if len(trials) < len(memories) else set()


def with_interval(estimate: float, low: float, high: float) -> Md:
    """A ratio with the ends of its interval; the estimate alone where it has none."""
    return Md(f"{fixed(estimate, 2)} ({ratio_ends(low, high)})") if math.isfinite(low) else fixed(estimate, 2)


def axes_of(view: View, group: TimeGroup) -> list[str]:
    """The axes along which more than one value is timed: the others do not change the model."""
    rows = view.timings(group)
    return [axis for axis in view.axes if rows[axis].map(level).nunique() > 1]


def called(view: View, group: TimeGroup, cells: Iterable[str]) -> dict[str, str]:
    """Cell of a group → what tells it from the others: its values of the axes along which they differ."""
    axes = axes_of(view, group) if view.factorial else ()
    return {cell: " · ".join(view.values_of[cell][axis] for axis in axes) or cell for cell in cells}


def shared(view: View, group: TimeGroup) -> str:
    """Values that all cells of a group have in common and others of its level do not, such as their shape's name."""
    rows, level_of = view.timings(group), view.time[view.time["level"] == group.level]
    axes = view.axes if view.factorial else ()
    common = [a for a in axes if rows[a].map(level).nunique() == 1 < level_of[a].map(level).nunique()]
    return " · ".join(level(rows[axis].iloc[0]) for axis in common)


def headed(view: View, group: TimeGroup) -> str:
    """A group as a heading: with what its cells share; a device's name stays as it is written."""
    title = ": ".join(filter(None, (shared(view, group), group.title)))
    return title if title.startswith(group.device) else title[:1].upper() + title[1:]


def telling(view: View) -> list[str]:
    """The axes, the one first whose values differ most in latency, by ratio of geometric means, over all groups.

    One order for all pictures of a section, so that a colour means the same in each.
    """

    def width(axis: str, group: TimeGroup) -> float:
        blocks = view.timing_over(axis, group, "latency_ms_p50")
        ratios = [geometric_mean(column) for _, column in blocks.ratios().items()] if len(blocks.table) else []
        ratios = [r for r in ratios if math.isfinite(r)]
        return math.log(max(ratios) / min(ratios)) if ratios else 0.0

    widths = {axis: math.fsum(width(axis, group) for group in view.time_groups) for axis in view.axes}
    return sorted(widths, key=lambda axis: -widths[axis])


def geometric_mean(ratios: "pd.Series[float]") -> float:
    """Geometric mean: exp of the mean logarithm; not a number where a ratio is zero or not a number."""
    positive = ratios.to_numpy(dtype="float64")
    return float(np.exp(np.log(positive).mean())) if (positive > 0).all() else math.nan


@dataclass(frozen=True)
class Beside:
    """A timing beside the baseline of its setting."""

    group: TimeGroup  # the setting
    name: str  # the part of the cell's name that differs within the setting
    base: str  # name of the baseline
    row: Mapping[Any, Any]  # the timing, see :func:`vitbench.analysis.frames.timings_frame`
    ratio: float  # times as fast as the baseline, side by side where they were timed so
    unstable: bool  # whether one of the two is marked
    wide: bool = False  # whether it is marked for the width of its interval alone
    p_holm: float = math.nan  # that the ratio is 1, corrected for all ratios of the study; NaN where it has no interval

    @property
    def verdict(self) -> str:
        """Faster or slower by the corrected p, however wide the interval that excludes 1; unstable, or undecided."""
        if self.p_holm <= ALPHA and (self.wide or not self.unstable):
            return "faster" if self.ratio > 1 else "slower"
        return "unstable" if self.unstable else "undecided"


def ratio(each: Beside) -> Md:
    """Times as fast as the baseline: with its interval where both were timed side by side, marked where either is."""
    ends = each.row["speed_low"], each.row["speed_high"]
    return Md(f"{with_interval(each.ratio, *ends)}{f' {UNSTABLE}' * each.unstable}")


def beside_baseline(view: View) -> list[Beside]:
    """Every finished timing but the baselines', in the plan's order."""
    timings = [each for group in view.time_groups for each in _of_group(view, group)]
    known = [number for number, each in enumerate(timings) if math.isfinite(each.row["speed_p"])]
    for number, p in zip(known, holm([float(timings[number].row["speed_p"]) for number in known]), strict=True):
        timings[number] = replace(timings[number], p_holm=p)
    return timings


def _of_group(view: View, group: TimeGroup) -> Iterator[Beside]:
    rows = view.timed(group)
    base, rows = baseline(view, group), rows[rows["latency_ms_p50"] > 0]
    names = called(view, group, rows["cell"].tolist())
    if base is None or base["cell"] not in names:
        return
    for row in rows[rows["cell"] != base["cell"]].to_dict("records"):
        ratio = row["speed"] if math.isfinite(row["speed"]) else base["latency_ms_p50"] / row["latency_ms_p50"]
        why = [reason for each in (row, base) for reason in each["unstable"].split("; ") if reason]
        wide = all(reason.startswith(WIDE) for reason in why)
        yield Beside(group, names[row["cell"]], names[base["cell"]], row, float(ratio), bool(why), wide)


FEWEST = 3  # Settings from which there is more to see than in the tables of each
MOST = 40  # Settings that are shown
MOST_COLUMNS = 8
STRONGEST = math.log(2.0)  # Logarithm of the ratio from which a cell has the strongest colour


def heat_map(view: View) -> Table | None:
    """Speeds beside the baseline, a row for each setting and a column for each implementation, the fastest first.

    None of few settings, and where cells differ too much to stand side by side.
    """
    timings = beside_baseline(view)
    ratios: dict[str, list[float]] = {}
    rows: dict[TimeGroup, dict[str, Beside]] = {}
    for each in timings:
        ratios.setdefault(each.name, []).append(each.ratio)
        rows.setdefault(each.group, {})[each.name] = each
    columns = sorted(ratios, key=lambda name: (-statistics.geometric_mean(ratios[name]), name))
    bases = {each.base for each in timings}
    if len(rows) < FEWEST or len(bases) != 1 or len(columns) > MOST_COLUMNS:
        return None
    titles = distinct([
        (shared(view, g), g.what, g.device, g.dtype, f"batch size {g.batch_size}", g.mode_name, g.letter) for g in rows
    ])  # fmt: skip
    settings = list(zip(titles, rows.values(), strict=True))[:MOST]
    words = {"faster": " faster", "slower": " slower"}
    lines = [
        {"setting": escape(title or "all")}
        | {
            name: Md(f"{fixed(each.ratio, 2)}{words.get(each.verdict, '')}{f' {UNSTABLE}' * each.unstable}")
            for name, each in row.items()
        }
        for title, row in settings
    ]
    shades = {
        (number, columns.index(name) + 1): max(-1.0, min(1.0, math.log(each.ratio) / STRONGEST))
        for number, (_, row) in enumerate(settings)
        for name, each in row.items()
        if each.verdict != "unstable" and each.ratio > 0
    }
    caption = f"Speed as a multiple of that of {bases.pop()}, timed beside it: above 1 is faster."
    caption += " Faster or slower, in words, where it is shown after correction for all comparisons."
    caption += f" {UNSTABLE}: unstable timing." if any(each.unstable for each in timings) else ""
    caption += f" The first {MOST} of {plural(len(rows), 'setting')} are shown." if len(rows) > MOST else ""
    speeds = table(lines, set(columns), columns=["setting", *columns], caption=escape(caption))
    return replace(speeds, shades=shades)
