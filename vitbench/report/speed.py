"""Latency, throughput and memory in tables: by cell and by axis, for each device, dtype, batch size and mode."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vitbench.analysis.frames import level
from vitbench.analysis.results import TIMING
from vitbench.analysis.timings import UNSTEADY
from vitbench.report.accuracy import absence_of, matching
from vitbench.report.markdown import NOTHING, Md, bold, bullets, escape, listed, table
from vitbench.report.numbers import count, fixed, plural, significant
from vitbench.report.origins import of_origin, states_of
from vitbench.report.time_groups import TimeGroup
from vitbench.report.view import MAX_CELLS, View

LATENCY, QUARTILES, SPEED = "latency p50 (ms)", "p25 to p75 (ms)", "images/s"
RATIO, MEMORY, FIRST, FLOPS = "speed (× baseline)", "peak memory (MiB)", "first iteration (ms)", "GFLOP/s"
WALL, ROOFLINE, ENERGY = "by the host's clock (ms)", "of the roofline (%)", "energy (mJ/image)"
LARGEST = "largest batch"
CONTROL = "A/A control: the baseline again"
UNSTABLE = "~"
"""Marks a timing that is not to be relied on."""

WIDE = "the interval is ±"
"""How the reason begins of a timing whose interval is too wide."""
WIDER = f"the interval is ±{100 * UNSTEADY:.0f} % or wider"
MAX_MARKED = 12
"""Marked timings that are named for each reason; the CSV has them all."""

LATENCY_RATIO, MEMORY_RATIO = "latency (× reference)", "peak memory (× reference)"


def ranked_cells(view: View, group: TimeGroup) -> list[str]:
    """Cells planned in a group: the lowest latency first, those without a result last, in plan order."""
    rows = view.timings(group)
    best = _finished(rows).groupby("cell", sort=False)["latency_ms_p50"].min().to_dict()
    return sorted(rows["cell"].unique(), key=lambda cell: best.get(cell, math.inf))


def baseline(view: View, group: TimeGroup, origin: str) -> dict[str, Any] | None:
    """The timing that others are compared with: of the plan's first cell that has one in the group and origin."""
    rows = _finished(view.timings(group))
    rows = of_origin(rows, origin)
    return {str(k): v for k, v in rows.iloc[0].items()} if len(rows) else None


def by_cell(view: View, group: TimeGroup) -> tuple[Md, list[Md]]:
    """The table of one group, a row for each planned cell, and what is to be said of it."""
    rows = view.timings(group)
    origins = view.origins.of(rows)
    found = {(r["cell"], _origin(r)): r for r in _finished(rows).to_dict("records")}
    states, missing = states_of(rows), view.origins.missing(rows)
    bases = {origin: base for origin in origins if (base := baseline(view, group, origin))}
    names, lines = _names(list(found.values())), list[dict[str, Md]]()
    # Of a part of the model only some axes matter: those in which the timings differ name them.
    shown = () if group.level == "model" else axes_of(view, group)
    for cell in ranked_cells(view, group)[:MAX_CELLS]:
        line = {**view.identity(cell, shown), "state": escape(states[cell])}
        for origin in origins or ["none"]:
            on = f"{view.origins.letter(origin)}: " if len(origins) > 1 else ""
            result = found.get((cell, origin))
            if result is None:
                word = escape(missing[cell])
                line |= {f"{on}{n}": word if n in (LATENCY, SPEED) else NOTHING for n in names}
                continue
            peers = [r for (_, o), r in found.items() if o == origin]
            values = _columns(result, peers, bases[origin])
            line |= {f"{on}{name}": values[name] for name in names}
        lines.append(line)
    lines += _controls(view, bases, names, list(lines[0]))
    said = [_about(view, group, origin, bases[origin], len(origins) > 1) for origin in bases]
    return table(lines, right={n for line in lines for n in line} - {"cell", "state", *view.axis_names.values()}), said


def _controls(
    view: View, bases: Mapping[str, Mapping[str, Any]], names: Sequence[str], columns: Sequence[str]
) -> list[dict[str, Md]]:
    """The row of the A/A control, where the baseline was timed twice: its ratio is 1 but for noise."""
    if not any(math.isfinite(base["control"]) for base in bases.values()):
        return []
    line = dict.fromkeys(columns, NOTHING) | {columns[0]: Md(CONTROL)}
    for origin, base in bases.items():
        on = f"{view.origins.letter(origin)}: " if len(bases) > 1 else ""
        line[f"{on}{RATIO}"] = _with_interval(base["control"], base["control_low"], base["control_high"])
    return [line]


def unstable(view: View, group: TimeGroup) -> list[Md]:
    """A list of the timings that are marked unstable, each with the reasons; nothing where there is none."""
    rows = _finished(view.timings(group))
    marked = [(r["cell"], r["unstable"]) for r in rows.to_dict("records") if r["unstable"]]
    if not marked:
        return []
    reasons: dict[str, list[str]] = {}
    for cell, whys in marked:
        for why in whys.split("; "):
            # Wide intervals are one reason, whatever the width of each.
            width = f"±{why.removeprefix(WIDE)}" if why.startswith(WIDE) else ""
            reasons.setdefault(WIDER if width else why, []).append(f"{cell} ({width})" if width else cell)
    said = [Md(f"{escape(why)}: {listed(cells, MAX_MARKED)}") for why, cells in reasons.items()]
    return [Md(f"{UNSTABLE} {plural(len(marked), 'timing')} not to be relied on:"), bullets(said)]


def _about(view: View, group: TimeGroup, origin: str, base: dict[str, Any], several: bool) -> Md:
    first = view.timings(group)["cell"].iloc[0] == base["cell"]
    which = "the first cell of the plan" if first else "the first cell of the plan that has a result here"
    on = f" on {view.origins.letter(origin)}" if several else ""
    return Md(f"Baseline{on}: {escape(base['cell'])}, {which}.")


def _names(rows: Sequence[Mapping[Any, Any]]) -> tuple[str, ...]:
    """The columns of a table: those of rates where operations were counted and ceilings measured."""
    optional = (
        (WALL, "wall_ms_p50"), (FLOPS, "flops_per_s"), (ROOFLINE, "of_roofline"), (ENERGY, "energy_mj_per_image"),
        (LARGEST, "largest_batch"),
    )  # fmt: skip
    shown = {name for name, key in optional if any(pd.notna(row[key]) for row in rows)}
    order = (LATENCY, QUARTILES, WALL, SPEED, RATIO, FLOPS, ROOFLINE, MEMORY, ENERGY, LARGEST, FIRST)
    return tuple(name for name in order if name in shown or name not in dict(optional))


def _columns(result: Mapping[Any, Any], peers: Sequence[Mapping[Any, Any]], base: Mapping[str, Any]) -> dict[str, Md]:
    latency, memory = result["latency_ms_p50"], result["peak_memory_mib"]
    fastest = latency <= min(r["latency_ms_p50"] for r in peers) and len(peers) > 1
    leanest = memory <= min(r["peak_memory_mib"] for r in peers) and len(peers) > 1
    quartiles = f"{significant(result['latency_ms_p25'])} to {significant(result['latency_ms_p75'])}"
    shown = f"{significant(latency)} {UNSTABLE}" if result["unstable"] else significant(latency)
    return {
        LATENCY: bold(Md(shown)) if fastest else Md(shown),
        QUARTILES: Md(quartiles) if pd.notna(result["latency_ms_p25"]) else NOTHING,
        WALL: significant(result["wall_ms_p50"]),
        SPEED: bold(count(result["images_per_s"])) if fastest else count(result["images_per_s"]),
        RATIO: _ratio(result, base),
        MEMORY: bold(significant(memory)) if leanest else significant(memory),
        FIRST: significant(result["first_ms"]),
        FLOPS: significant(result["flops_per_s"] / 1e9),
        ROOFLINE: fixed(100 * result["of_roofline"], 0),
        ENERGY: significant(result["energy_mj_per_image"]),
        LARGEST: count(result["largest_batch"]),
    }


def _ratio(result: Mapping[Any, Any], base: Mapping[str, Any]) -> Md:
    """Times as fast as the baseline: with its interval where both were timed side by side."""
    if result["trial_id"] == base["trial_id"]:
        return Md("1")
    if math.isfinite(result["speed"]):
        return _with_interval(result["speed"], result["speed_low"], result["speed_high"])
    latency = float(result["latency_ms_p50"])
    return fixed(float(base["latency_ms_p50"]) / latency if latency else math.nan, 2)


def _with_interval(estimate: float, low: float, high: float) -> Md:
    return Md(f"{fixed(estimate, 2)} ({fixed(low, 2)} to {fixed(high, 2)})")


def over_axes(view: View, group: TimeGroup) -> list[Md]:
    """Blocks on the axes of one group: the geometric mean ratios over matched blocks, and their range."""
    rows = view.timings(group)
    rows = rows[rows["factorial"].astype(bool)]
    origins = view.origins.of(rows)
    lines: list[dict[str, Md]] = []
    notes: list[str] = []
    telling = axes_of(view, group)
    for origin in origins if len(telling) > 1 else ():  # of a single axis the table by cell says the same
        for axis in telling:
            latency = view.timing_over(axis, origin, group, "latency_ms_p50")
            memory = view.timing_over(axis, origin, group, "peak_memory_mib")
            if latency.incomplete:
                notes.append(f"{axis}: {matching(latency, 'timing')}")
            for value in view.axes[axis]:
                line = {"on": Md(view.origins.letter(origin))} if len(origins) > 1 else {}
                line |= {"axis": escape(axis), "value": escape(value), "blocks": count(0)}
                if value not in latency.table:
                    line[LATENCY_RATIO] = escape(absence_of(view, rows, axis, value))
                elif not len(latency.table):
                    line[LATENCY_RATIO] = Md("not matched")
                else:
                    ratio = latency.ratios()[value]
                    ends = f"{fixed(float(ratio.min()), 2)} to {fixed(float(ratio.max()), 2)}"
                    reference = value == latency.reference
                    line["blocks"] = count(len(ratio))
                    line[LATENCY_RATIO] = Md("reference") if reference else fixed(geometric_mean(ratio), 2)
                    line["smallest to largest"] = Md("1") if reference else Md(ends)
                    line[MEMORY_RATIO] = fixed(geometric_mean(memory.ratios()[value]), 2)
                lines.append(line)
    if not lines:
        return []
    right = {"blocks", LATENCY_RATIO, "smallest to largest", MEMORY_RATIO}
    return [table(lines, right), *(escape(note) for note in notes)]


def axes_of(view: View, group: TimeGroup) -> list[str]:
    """The axes along which more than one value is timed: the others do not change the model."""
    rows = view.timings(group)
    return [axis for axis in view.axes if rows[axis].map(level).nunique() > 1]


def called(view: View, group: TimeGroup, cells: Iterable[str]) -> dict[str, str]:
    """Cell of a group → what tells it from the others: its values of the axes along which they differ."""
    axes = axes_of(view, group) if view.factorial else ()
    return {cell: " · ".join(view.values_of(cell)[axis] for axis in axes) or cell for cell in cells}


def telling(view: View, group: TimeGroup, origin: str) -> list[str]:
    """The axes, the one first whose values differ most in latency, by ratio of the geometric means."""

    def width(axis: str) -> float:
        found = view.timing_over(axis, origin, group, "latency_ms_p50")
        ratios = [geometric_mean(column) for _, column in found.ratios().items()] if len(found.table) else []
        ratios = [r for r in ratios if math.isfinite(r)]
        return max(ratios) / min(ratios) if ratios else 0.0

    widths = {axis: width(axis) for axis in view.axes}
    return sorted(widths, key=lambda axis: -widths[axis])


def geometric_mean(ratios: pd.Series[float]) -> float:
    """exp of the mean logarithm; not a number where a ratio is zero or not a number."""
    positive = ratios.to_numpy(dtype="float64")
    return float(np.exp(np.log(positive).mean())) if (positive > 0).all() else math.nan


def timing_frame(view: View) -> pd.DataFrame:
    """All timings as numbers, a row for each planned one."""
    columns = ["level", "level_shape", "device", "dtype", "batch_size", "mode", "cell", *view.axes, "state",
               "origin", "latency_ms_p50",
               "latency_ms_p25", "latency_ms_p75", "process_ms_min", "process_ms_max", "images_per_s",
               "peak_memory_mib", "peak_reserved_mib", "first_ms", "parameters", "forward_flops", "flops", "bytes",
               "energy_mj_per_image", "largest_batch", *TIMING]  # fmt: skip
    frame = view.time[columns].copy()
    frame["origin"] = [view.origins.letter(o) if isinstance(o, str) else "" for o in frame["origin"]]
    return frame


def axes_frame(view: View) -> pd.DataFrame:
    """Ratios over matched blocks as numbers: a row for each group, origin, axis and value."""
    lines = []
    for group in view.time_groups:
        for origin in view.origins.of(view.timings(group)):
            for axis in axes_of(view, group):
                latency = view.timing_over(axis, origin, group, "latency_ms_p50")
                memory = view.timing_over(axis, origin, group, "peak_memory_mib")
                for value in latency.table.columns if len(latency.table) else ():
                    lines.append(
                        {
                            "device": group.device,
                            "dtype": group.dtype,
                            "batch_size": group.batch_size,
                            "mode": group.mode,
                            "level": group.level,
                            "level_shape": group.shape,
                            "origin": view.origins.letter(origin),
                            "axis": axis,
                            "value": value,
                            "reference": latency.reference,
                            "blocks": len(latency.table),
                            "incomplete_blocks": latency.incomplete,
                            "latency_ratio_geometric_mean": geometric_mean(latency.ratios()[value]),
                            "latency_ratio_min": latency.ratios()[value].min(),
                            "latency_ratio_max": latency.ratios()[value].max(),
                            "peak_memory_ratio_geometric_mean": geometric_mean(memory.ratios()[value]),
                        }
                    )
    columns = ["device", "dtype", "batch_size", "mode", "level", "level_shape", "origin", "axis", "value",
               "reference", "blocks",
               "incomplete_blocks", "latency_ratio_geometric_mean", "latency_ratio_min", "latency_ratio_max",
               "peak_memory_ratio_geometric_mean"]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)


def _finished(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["state"] == "ok") & rows["latency_ms_p50"].notna()]


def _origin(row: dict[Any, Any]) -> str:
    return row["origin"] if isinstance(row["origin"], str) else "unknown"
