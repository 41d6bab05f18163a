"""Latency, throughput and memory in tables: by cell and by axis, for each device, dtype, batch size and mode."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd

from vitbench.analysis.frames import level
from vitbench.analysis.timings import BESIDE, UNSTEADY, WIDE
from vitbench.report.cost import best
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.document import Bar, Scale, Table, table
from vitbench.report.inline import NOTHING, Md, bold, escape, listed
from vitbench.report.origins import of_origin
from vitbench.report.text import UNSTABLE, count, fixed, plural, significant
from vitbench.report.view import MAX_CELLS, View

LATENCY, INTERVAL, SPEED = "latency p50 (ms)", "95 % interval (ms)", "images/s"
RATIO, MEMORY, FIRST, FLOPS = "speed (× baseline)", "peak memory (MiB)", "first iteration (ms)", "GFLOP/s"
WALL, ROOFLINE, ENERGY = "by the host's clock (ms)", "of the roofline (%)", "energy"
LARGEST = "largest batch"
CONTROL = "A/A control: the baseline again"

WIDER = f"{WIDE}{100 * UNSTEADY:.0f} % or wider"
MAX_MARKED = 12
"""Marked timings that are named for each reason; the CSV has them all."""


def baseline(view: View, group: TimeGroup, origin: str) -> dict[str, Any] | None:
    """The timing that others are compared with: of the plan's first cell that has one in the group and origin."""
    rows = _finished(view.timings(group))
    rows = of_origin(rows, origin)
    return {str(k): v for k, v in rows.iloc[0].items()} if len(rows) else None


def by_cell(view: View, group: TimeGroup, origin: str) -> Table:
    """The table of one setting and origin: a row for each planned cell, then the A/A control."""
    planned = view.timings(group)
    rows, missing = of_origin(_finished(planned), origin), view.origins.missing(planned)
    found = {row["cell"]: row for row in rows.to_dict("records")}
    base = baseline(view, group, origin)
    names = _names(group, list(found.values()))
    # Of a part of the model only some axes matter: those in which the timings differ name them.
    shown = () if group.level == "model" else axes_of(view, group)
    cells = sorted(planned["cell"].unique(), key=lambda c: found[c]["latency_ms_p50"] if c in found else math.inf)
    lines, bars = list[dict[str, Md]](), list[Bar | None]()
    marked = (best.fastest([*found.values()], base["trial_id"]), best.leanest([*found.values()])) if base else None
    for cell in cells[:MAX_CELLS]:
        result = found.get(cell)
        line = view.identity(cell, shown)
        if result is None or base is None or marked is None:  # its state stands in the place of what it was to give
            line |= {name: escape(missing[cell]) if name == LATENCY else NOTHING for name in names}
            bars.append(None)
        else:
            values = _columns(group, result, base, *marked)
            line |= {name: values[name] for name in names}
            bars.append(Bar(result["latency_ms_p50"], result["latency_ms_low"], result["latency_ms_high"]))
        lines.append(line)
    if base and math.isfinite(base["control"]):
        control = with_interval(base["control"], base["control_low"], base["control_high"])
        first, *others = lines[0]
        lines.append({first: Md(CONTROL), **dict.fromkeys(others, NOTHING), RATIO: control})
        bars.append(None)
    right = {name for line in lines for name in line} - {"cell", *view.axis_names.values()}
    named = f" Baseline: {escape(called(view, group, [base['cell']])[base['cell']])}." if base else ""
    caption = Md(f"{escape(group.mode_name.capitalize())}, the lowest latency first.{named}")
    made = table(lines, right=right).with_bars({LATENCY: (bars, Scale())}).captioned(caption)
    return made.about([cell] for cell in cells[:MAX_CELLS]).hiding({WALL, FLOPS, FIRST, LARGEST})


def unstable(view: View, group: TimeGroup, origin: str) -> list[Md]:
    """Why timings are marked: a number for intervals, which the table has, and names for other reasons; or nothing."""
    rows = of_origin(_finished(view.timings(group)), origin)
    marked = [(r["cell"], r["unstable"]) for r in rows.to_dict("records") if r["unstable"]]
    if not marked:
        return []
    named, reasons = called(view, group, [cell for cell, _ in marked]), dict[str, list[str]]()
    for cell, whys in marked:
        for why in whys.split("; "):
            reasons.setdefault(WIDER if why.startswith(WIDE) else why, []).append(named[cell])
    counted = {why: f"{len(cells):,}" if why in {WIDER, BESIDE} else listed(cells, MAX_MARKED)
               for why, cells in reasons.items()}  # fmt: skip
    said = [f"{escape(why)} ({which})" for why, which in counted.items()]
    return [Md(f"{UNSTABLE} Unstable, {len(marked):,} of {plural(len(rows), 'timing')}: {'; '.join(said)}.")]


def _names(group: TimeGroup, rows: Sequence[Mapping[Any, Any]]) -> tuple[str, ...]:
    """The columns of a table: those of rates where operations were counted and ceilings measured."""
    optional = (
        (INTERVAL, "latency_ms_low"), (WALL, "wall_ms_p50"), (FLOPS, "flops_per_s"), (ROOFLINE, "of_roofline"),
        (ENERGY, "energy_mj_per_image"), (LARGEST, "largest_batch"),
    )  # fmt: skip
    shown = {name for name, key in optional if any(pd.notna(row[key]) for row in rows)}
    order = (LATENCY, INTERVAL, WALL, SPEED, RATIO, FLOPS, ROOFLINE, MEMORY, ENERGY, LARGEST, FIRST)
    found = (name for name in order if name in shown or name not in dict(optional))
    return tuple({SPEED: group.rate, ENERGY: _energy(group)}.get(name, name) for name in found)


def _energy(group: TimeGroup) -> str:
    return f"{ENERGY} (mJ/{group.item})"


def _columns(
    group: TimeGroup, result: Mapping[Any, Any], base: Mapping[str, Any], fastest: Set[str], leanest: Set[str]
) -> dict[str, Md]:
    doubt = f" {UNSTABLE}" if result["unstable"] else ""
    latency, rate = Md(f"{significant(result['latency_ms_p50'])}{doubt}"), Md(f"{count(result['images_per_s'])}{doubt}")
    memory, first = significant(result["peak_memory_mib"]), result["trial_id"] in fastest
    known = pd.notna(result["latency_ms_low"])
    span = f"{significant(result['latency_ms_low'])} to {significant(result['latency_ms_high'])}"
    return {
        LATENCY: bold(latency) if first else latency,
        INTERVAL: Md(span) if known else NOTHING,
        WALL: significant(result["wall_ms_p50"]),
        group.rate: bold(rate) if first else rate,
        RATIO: Md("1") if result["trial_id"] == base["trial_id"] else ratio(result, base),
        MEMORY: bold(memory) if result["trial_id"] in leanest else memory,
        FIRST: significant(result["first_ms"]),
        FLOPS: significant(result["flops_per_s"] / 1e9),
        ROOFLINE: fixed(100 * result["of_roofline"], 0),
        _energy(group): significant(result["energy_mj_per_image"]),
        LARGEST: count(result["largest_batch"]),
    }


def ratio(result: Mapping[Any, Any], base: Mapping[Any, Any]) -> Md:
    """Times as fast as the baseline: with its interval where both were timed side by side, marked where either is."""
    doubt = f" {UNSTABLE}" if result["unstable"] or base["unstable"] else ""
    if math.isfinite(result["speed"]):
        return Md(f"{with_interval(result['speed'], result['speed_low'], result['speed_high'])}{doubt}")
    latency = float(result["latency_ms_p50"])
    return Md(f"{fixed(float(base['latency_ms_p50']) / latency, 2)}{doubt}") if latency else NOTHING


def with_interval(estimate: float, low: float, high: float) -> Md:
    """A ratio with the ends of its interval; the estimate alone where it has none."""
    return Md(f"{fixed(estimate, 2)} ({ends(low, high)})") if math.isfinite(low) else fixed(estimate, 2)


def ends(low: float, high: float) -> str:
    """Ends of a ratio's interval, with as many decimals as it takes to see that 1 is not in it."""
    shown = [(round(low, decimals), round(high, decimals), decimals) for decimals in range(2, 6)]
    told = (decimals for a, b, decimals in shown if low <= 1 <= high or not a <= 1 <= b)
    decimals = next(told, 5)
    return f"{fixed(low, decimals)} to {fixed(high, decimals)}"


def axes_of(view: View, group: TimeGroup) -> list[str]:
    """The axes along which more than one value is timed: the others do not change the model."""
    rows = view.timings(group)
    return [axis for axis in view.axes if rows[axis].map(level).nunique() > 1]


def called(view: View, group: TimeGroup, cells: Iterable[str]) -> dict[str, str]:
    """Cell of a group → what tells it from the others: its values of the axes along which they differ."""
    axes = axes_of(view, group) if view.factorial else ()
    return {cell: " · ".join(view.values_of(cell)[axis] for axis in axes) or cell for cell in cells}


def shared(view: View, group: TimeGroup) -> str:
    """What all cells of a group have in common and others of its level do not, such as the name of their shape."""
    rows, level_of = view.timings(group), view.time[view.time["level"] == group.level]
    axes = view.axes if view.factorial else ()
    common = [a for a in axes if rows[a].map(level).nunique() == 1 < level_of[a].map(level).nunique()]
    return " · ".join(level(rows[axis].iloc[0]) for axis in common)


def titled(view: View, group: TimeGroup, *, mode: bool = True) -> str:
    """A group as a heading, or as the beginning of a sentence: with what its cells share, and without its mode."""
    common, setting = shared(view, group), group.title if mode else group.setting
    return f"{common}: {setting}" if common else setting


def headed(view: View, group: TimeGroup, *, mode: bool = True) -> str:
    """The same where a line begins: a device's name stays as it is written."""
    title = titled(view, group, mode=mode)
    return title if title.startswith(group.device) else title[:1].upper() + title[1:]


def telling(view: View) -> list[str]:
    """The axes, the one first whose values differ most in latency, by ratio of geometric means, over all groups.

    One order for all pictures of a section, so that a colour means the same in each.
    """
    places = [(group, origin) for group in view.time_groups for origin in view.origins.of(view.timings(group))]

    def width(axis: str, group: TimeGroup, origin: str) -> float:
        found = view.timing_over(axis, origin, group, "latency_ms_p50")
        ratios = [geometric_mean(column) for _, column in found.ratios().items()] if len(found.table) else []
        ratios = [r for r in ratios if math.isfinite(r)]
        return math.log(max(ratios) / min(ratios)) if ratios else 0.0

    widths = {axis: math.fsum(width(axis, *place) for place in places) for axis in view.axes}
    return sorted(widths, key=lambda axis: -widths[axis])


def geometric_mean(ratios: pd.Series[float]) -> float:
    """exp of the mean logarithm; not a number where a ratio is zero or not a number."""
    positive = ratios.to_numpy(dtype="float64")
    return float(np.exp(np.log(positive).mean())) if (positive > 0).all() else math.nan


def _finished(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["state"] == "ok") & rows["latency_ms_p50"].notna()]
