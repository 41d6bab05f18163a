"""Timing: speed and memory by axis, then every setting with its cells, the roofline, and the numbers."""

from __future__ import annotations

import pandas as pd

from vitbench.analysis.results import TIMING
from vitbench.report.cost import by_axis, roofline, speed
from vitbench.report.document import Block, Heading
from vitbench.report.inline import Md
from vitbench.report.output import Files
from vitbench.report.sections.trends import THROUGHPUT, trends
from vitbench.report.text import cut
from vitbench.report.view import MAX_CELLS, View
from vitbench.wording import plural

FEW = 2
"""Settings up to which their tables are not folded away."""


def section(view: View, _: Files) -> list[Block]:
    """What has a verdict: timings by axis; where there are no axes, the settings' own tables if they are few."""
    return _by_axis(view) or ([] if len(view.time_groups) > FEW else _settings(view))


def details(view: View, files: Files) -> list[Block]:
    """Every setting with its cells, the roofline, training runs by axis, and the numbers."""
    blocks = _settings(view) if len(view.time_groups) > FEW or _by_axis(view) else []
    blocks += files.pictures(roofline.rooflines(view, speed.telling(view)))
    for device in view.train_devices:
        found = [block for group in by_axis.training(view, device) for block in by_axis.table_of(view, group)]
        blocks += [Heading(f"Training runs on {device}"), *found] if found else []
    blocks += files.pictures(trends(view, THROUGHPUT))
    links = [files.table("timing", frame(view))] if view.time_groups else []
    if view.axes and len(numbers := by_axis.axes_frame(view)):
        links.append(Md(f"by axis {files.table('speed-by-axis', numbers)}"))
    return [*blocks, Md(f"As numbers: {', '.join(links)}.")] if links else blocks


def _by_axis(view: View) -> list[Block]:
    blocks: list[Block] = []
    for group in view.time_groups:
        found = by_axis.table_of(view, group) if len(speed.axes_of(view, group)) > 1 else []
        blocks += [Heading(speed.headed(view, group)), *found] if found else []
    return blocks


def _settings(view: View) -> list[Block]:
    blocks: list[Block] = []
    for group in view.time_groups:
        rows = view.timings(group)
        blocks.append(Heading(speed.headed(view, group)))
        if view.timed(group).empty:
            blocks.append(Md(f"{plural(rows['cell'].nunique(), 'cell')}: {view.origins.absence(rows)}."))
            continue
        blocks += [
            speed.by_cell(view, group),
            *speed.unstable(view, group),
            *cut(rows["cell"].nunique(), MAX_CELLS, "cell"),
        ]
    return blocks


def frame(view: View) -> pd.DataFrame:
    """All timings as numbers, a row for each planned one."""
    columns = ["level", "level_shape", "device", "dtype", "batch_size", "mode", "cell", *view.axes, "state",
               "origin", "latency_ms_p50",
               "latency_ms_p25", "latency_ms_p75", "process_ms_min", "process_ms_max", "images_per_s",
               "peak_memory_mib", "peak_reserved_mib", "first_ms", "parameters", "forward_flops", "flops", "bytes",
               "energy_mj_per_image", "largest_batch", *TIMING]  # fmt: skip
    found = view.time[columns].copy()
    found["origin"] = [view.origins.letter(o) if isinstance(o, str) else "" for o in found["origin"]]
    return found
