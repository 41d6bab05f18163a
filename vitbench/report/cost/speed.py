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
from vitbench.report.document import Table, table
from vitbench.report.markdown import NOTHING, Md, bold, escape, listed
from vitbench.report.numbers import count, fixed, plural, significant
from vitbench.report.origins import of_origin
from vitbench.report.view import MAX_CELLS, View

LATENCY, INTERVAL, SPEED = "latency p50 (ms)", "95 % interval (ms)", "images/s"
RATIO, MEMORY, FIRST, FLOPS = "speed (× baseline)", "peak memory (MiB)", "first iteration (ms)", "GFLOP/s"
WALL, ROOFLINE, ENERGY = "by the host's clock (ms)", "of the roofline (%)", "energy"
LARGEST = "largest batch"
CONTROL = "A/A control: the baseline again"
UNSTABLE = "~"
"""Marks a timing that is not to be relied on."""

WIDER = f"{WIDE}{100 * UNSTEADY:.0f} % or wider"
MAX_MARKED = 12
"""Marked timings that are named for each reason; the CSV has them all."""


def ranked_cells(view: View, group: TimeGroup) -> list[str]:
    """Cells planned in a group: the lowest latency first, those without a result last, in plan order."""
    rows = view.timings(group)
    lowest = _finished(rows).groupby("cell", sort=False)["latency_ms_p50"].min().to_dict()
    return sorted(rows["cell"].unique(), key=lambda cell: lowest.get(cell, math.inf))


def baseline(view: View, group: TimeGroup, origin: str) -> dict[str, Any] | None:
    """The timing that others are compared with: of the plan's first cell that has one in the group and origin."""
    rows = _finished(view.timings(group))
    rows = of_origin(rows, origin)
    return {str(k): v for k, v in rows.iloc[0].items()} if len(rows) else None


def by_cell(view: View, group: TimeGroup) -> tuple[Table, list[Md]]:
    """The table of one group, a row for each planned cell, and what is to be said of it."""
    rows = view.timings(group)
    origins = view.origins.of(rows)
    found = {(r["cell"], _origin(r)): r for r in _finished(rows).to_dict("records")}
    missing = view.origins.missing(rows)
    bases = {origin: base for origin in origins if (base := baseline(view, group, origin))}
    names, lines = _names(group, list(found.values())), list[dict[str, Md]]()
    peers = {origin: [r for (_, o), r in found.items() if o == origin] for origin in bases}
    marked = {o: (best.fastest(peers[o], base["trial_id"]), best.leanest(peers[o])) for o, base in bases.items()}
    # Of a part of the model only some axes matter: those in which the timings differ name them.
    shown = () if group.level == "model" else axes_of(view, group)
    for cell in ranked_cells(view, group)[:MAX_CELLS]:
        line = {**view.identity(cell, shown)}
        for origin in origins or ["none"]:
            on = f"{view.origins.letter(origin)}: " if len(origins) > 1 else ""
            result = found.get((cell, origin))
            if result is None:  # its state stands in the place of what it was to give, and once
                line |= {f"{on}{n}": escape(missing[cell]) if n == LATENCY else NOTHING for n in names}
                continue
            values = _columns(group, result, bases[origin], *marked[origin])
            line |= {f"{on}{name}": values[name] for name in names}
        lines.append(line)
    lines += _controls(view, bases, names, list(lines[0]))
    said = [_about(view, group, origin, bases[origin], len(origins) > 1) for origin in bases]
    right = {name for line in lines for name in line} - {"cell", *view.axis_names.values()}
    return table(lines, right=right), said


def _controls(
    view: View, bases: Mapping[str, Mapping[str, Any]], names: Sequence[str], columns: Sequence[str]
) -> list[dict[str, Md]]:
    """The row of the A/A control, where the baseline was timed twice: its ratio is 1 but for noise."""
    if not any(math.isfinite(base["control"]) for base in bases.values()):
        return []
    line = dict.fromkeys(columns, NOTHING) | {columns[0]: Md(CONTROL)}
    for origin, base in bases.items():
        on = f"{view.origins.letter(origin)}: " if len(bases) > 1 else ""
        line[f"{on}{RATIO}"] = with_interval(base["control"], base["control_low"], base["control_high"])
    return [line]


def unstable(view: View, group: TimeGroup) -> list[Md]:
    """Why timings are marked: a number for intervals, which the table has, and names for other reasons; or nothing."""
    rows = _finished(view.timings(group))
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
    verb = "is" if len(marked) == 1 else "are"
    return [Md(f"{UNSTABLE} {len(marked):,} of {plural(len(rows), 'timing')} {verb} not to be relied on: "
               f"{'; '.join(said)}.")]  # fmt: skip


def _about(view: View, group: TimeGroup, origin: str, base: dict[str, Any], several: bool) -> Md:
    cells = view.timings(group)["cell"]
    which = "the first cell of the plan" if cells.iloc[0] == base["cell"] else "the first that has a result here"
    on = f" on {view.origins.letter(origin)}" if several else ""
    return Md(f"Baseline{on}: {escape(called(view, group, cells.unique())[base['cell']])}, {which}.")


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


def _origin(row: dict[Any, Any]) -> str:
    return row["origin"] if isinstance(row["origin"], str) else "unknown"
