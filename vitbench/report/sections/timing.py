"""Timing: speed and memory by axis, then every setting with its cells, the roofline, and the numbers."""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from vitbench.analysis.grouped import finished
from vitbench.analysis.results import TIMING
from vitbench.report.cost import by_axis, speed
from vitbench.report.document import Block, Heading
from vitbench.report.figures.charts import Colouring, Picture, Roofline
from vitbench.report.groups import ending, of_environment
from vitbench.report.output import Files
from vitbench.report.sections.curves import THROUGHPUT, trends
from vitbench.report.text import Md, cut, span
from vitbench.report.view import MAX_CELLS, View
from vitbench.wording import plural

FEW = 2  # Settings up to which their tables are not folded away


def section(view: View, _: Files) -> Iterable[Block]:
    """Timings by axis, which have verdicts; where there are no axes, the settings' own tables if they are few."""
    return _by_axis(view) or ([] if len(view.time_groups) > FEW else _settings(view))


def details(view: View, files: Files) -> Iterator[Block]:
    """Every setting with its cells, the roofline, training runs by axis, and the numbers."""
    if len(view.time_groups) > FEW or _by_axis(view):
        yield from _settings(view)
    yield from map(files.picture, rooflines(view, speed.telling(view)))
    for device in view.train_devices:
        tables = [block for group in by_axis.training(view, device) for block in by_axis.table_of(view, group)]
        yield from [Heading(f"Training runs on {device}"), *tables] if tables else []
    yield from map(files.picture, trends(view, THROUGHPUT))
    links = [files.table("timing", frame(view))] if view.time_groups else []
    if view.axes and len(numbers := by_axis.axes_frame(view)):
        links.append(Md(f"by axis {files.table('speed-by-axis', numbers)}"))
    if links:
        yield Md(f"As numbers: {', '.join(links)}.")


def _by_axis(view: View) -> list[Block]:
    groups = [group for group in view.time_groups if len(speed.axes_of(view, group)) > 1]
    parts = [(speed.headed(view, group), by_axis.table_of(view, group)) for group in groups]
    return [block for title, tables in parts if tables for block in (Heading(title), *tables)]


def _settings(view: View) -> Iterator[Block]:
    for group in view.time_groups:
        rows = view.timings(group)
        yield Heading(speed.headed(view, group))
        if view.timed(group).empty:
            yield Md(f"{plural(rows['cell'].nunique(), 'cell')}: {view.environments.absence(rows)}.")
        else:
            yield speed.by_cell(view, group)
            yield from speed.unstable(view, group)
            yield from cut(rows["cell"].nunique(), MAX_CELLS, "cell")


def frame(view: View) -> pd.DataFrame:
    """All timings as numbers, a row for each planned one."""
    columns = ["level", "level_shape", "device", "dtype", "batch_size", "mode", "cell", *view.axes, "state",
               "environment", "latency_ms_p50",
               "latency_ms_p25", "latency_ms_p75", "process_ms_min", "process_ms_max", "images_per_s",
               "peak_memory_mib", "peak_reserved_mib", "first_ms", "parameters", "forward_flops", "flops", "bytes",
               "energy_mj_per_image", "largest_batch", *TIMING]  # fmt: skip
    numbers = view.time[columns].copy()
    if numbers["drift"].isna().all():
        numbers = numbers.drop(columns="drift")
    numbers["environment"] = view.environments.letters_of(numbers["environment"])
    return numbers


SETTING = ["level", "level_shape", "batch_size", "mode"]
CEILINGS = ["ceiling_flops_per_s", "ceiling_bytes_per_s"]
"""Peak rates of the device, measured with each timing: operations and bytes per second."""
CAPTION = (
    "Roofline of {title}{common}. The slope is the measured copy ({copy} GB/s{over}), the level the measured matrix "
    "product ({product} GFLOP/s{over}){bands}. A point is one timing: operations and least necessary traffic over its "
    "latency."
)


def rooflines(view: View, colour_by: Sequence[str]) -> list[Picture]:
    """Achieved operations per second over operations per byte by device, dtype and environment; one point a timing.

    The first axis of ``colour_by`` that differs between timings colours them. Source: Williams, Waterman and Patterson
    2009, "Roofline: an insightful visual performance model".
    """
    rows = finished(view.time)
    measured = (rows["ceiling_flops_per_s"] > 0) & (rows["ceiling_bytes_per_s"] > 0)
    rows = rows[measured & (rows["flops_per_s"] > 0) & (rows["intensity"] > 0)]
    pictures = []
    for (device, dtype), of_device in rows.groupby(["device", "dtype"], sort=False):
        for key, letter in view.environments.of(of_device):
            timings, on = of_environment(of_device, key), f" on {letter}" if letter else ""
            colour, points, common = _points(view, timings, colour_by)
            ceilings = timings[[*SETTING, *CEILINGS]].drop_duplicates()
            flops, of_bytes = ((float(ceilings[c].min()), float(ceilings[c].max())) for c in CEILINGS)
            several = len(ceilings) > 1
            facts = {
                "title": f"{device}, {dtype}{on}", "common": f": {common}" if common else "",
                "copy": span([end / 1e9 for end in of_bytes]), "product": span([end / 1e9 for end in flops]),
                "over": f" over {plural(len(ceilings), 'measurement')}" if several else "",
                "bands": ", bands from the smallest to the largest" if several else "",
            }  # fmt: skip
            name, alt = f"roofline-{device}-{dtype}{ending(letter)}", f"Roofline plot: {facts['title']}"
            chart = Roofline(flops, of_bytes, colour, points)
            pictures.append(Picture(name, chart, alt, CAPTION.format_map(facts)))
    return pictures


def _points(view: View, rows: pd.DataFrame, colour_by: Sequence[str]) -> tuple[Colouring, pd.DataFrame, str]:
    """Meaning of the colours (an axis of the suite, or the cell), the points, and the setting that all points share."""
    # A setting in words, of which those that all settings share need not be said of each.
    groups = {
        (g.level, g.shape, g.batch_size, g.mode): (
            g.level.replace("_", " "), g.shape, f"batch {g.batch_size}", g.mode_name
        )
        for g in view.time_groups
    }  # fmt: skip
    axis = next((a for a in colour_by if rows[a].nunique() > 1), None) if view.factorial else None
    present = {key: groups[key] for key in rows[SETTING].drop_duplicates().itertuples(index=False, name=None)}
    varied = [len(set(parts)) > 1 for parts in zip(*present.values(), strict=True)]
    points = []
    for row in rows.to_dict("records"):
        parts = present[row["level"], row["level_shape"], int(row["batch_size"]), row["mode"]]
        setting = ", ".join(part for part, varies in zip(parts, varied, strict=True) if varies and part)
        points.append((setting, str(row[axis] if axis else row["cell"]), row["intensity"], row["flops_per_s"]))
    first = next(iter(present.values()))
    common = ", ".join(part for part, varies in zip(first, varied, strict=True) if part and not varies)
    frame = pd.DataFrame(points, columns=["setting", "colour", "flops_per_byte", "flops_per_s"])
    colours = [*frame["colour"].unique()]
    # A value has the colour that it has in the other pictures of the axis, whatever else was timed.
    values = view.axes[axis] if axis else view.in_colour(colours)
    return Colouring(axis or "cell", values, [value for value in values if value in colours]), frame, common
