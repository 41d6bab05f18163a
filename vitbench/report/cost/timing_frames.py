"""Timings as numbers: the table beside a report, of every timing."""

from __future__ import annotations

import pandas as pd

from vitbench.analysis.results import TIMING
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
