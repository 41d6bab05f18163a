"""Timings as numbers: the tables beside a report, of every timing and of ratios over matched blocks."""

from __future__ import annotations

import pandas as pd

from vitbench.analysis.results import TIMING
from vitbench.report.cost import speed
from vitbench.report.view import View


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
            for axis in speed.axes_of(view, group):
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
                            "latency_ratio_geometric_mean": speed.geometric_mean(latency.ratios()[value]),
                            "latency_ratio_min": latency.ratios()[value].min(),
                            "latency_ratio_max": latency.ratios()[value].max(),
                            "peak_memory_ratio_geometric_mean": speed.geometric_mean(memory.ratios()[value]),
                        }
                    )
    columns = ["device", "dtype", "batch_size", "mode", "level", "level_shape", "origin", "axis", "value",
               "reference", "blocks",
               "incomplete_blocks", "latency_ratio_geometric_mean", "latency_ratio_min", "latency_ratio_max",
               "peak_memory_ratio_geometric_mean"]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)
