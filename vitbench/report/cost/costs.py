"""Costs: throughput, latency and memory in a section, of timings and of the training runs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from vitbench.report.cost import by_axis, roofline, speed, timing_frames, timing_overview, timing_terms, training_speed
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.document import Block, Heading
from vitbench.report.figures import cells, trends
from vitbench.report.files import Files
from vitbench.report.findings import effects
from vitbench.report.markdown import Md
from vitbench.report.view import View, beyond

MAX_SPEED_PICTURES = 24
"""Pictures of timings in one report; what is beyond is in the tables."""


def throughput(view: View, files: Files) -> list[Block]:
    """What the cells cost: timings, each setting apart, then the training runs themselves."""
    colour_by = speed.telling(view) if view.time_groups else view.telling  # then the colours of the accuracies
    blocks = _timings(view, files, colour_by) if view.time_groups else []
    for device in view.train_devices:
        blocks.append(Heading(f"{device}, training runs"))
        timed = view.time[(view.time["device"] == device) & (view.time["state"] == "ok")]
        if "train" not in set(timed["mode"]):
            blocks += files.pictures(cells.training_speed(view, device, colour_by))
            for axis in view.axes:
                blocks += files.pictures(trends.along(view, device, axis, trends.THROUGHPUT))
        blocks += [training_speed.about(view, device), *by_axis.by_axis(view, None, device)]
        blocks += [*training_speed.by_cell(view, device), *beyond(view.runs(device))]
    if view.axes and len(numbers := by_axis.axes_frame(view)):
        blocks.append(Md(f"Speed by axis as numbers: {files.table('speed-by-axis', numbers)}."))
    return blocks or [Md("Nothing is planned.")]


def _timings(view: View, files: Files, colour_by: Sequence[str]) -> list[Block]:
    settings: dict[str, list[TimeGroup]] = {}
    for group in view.time_groups:
        settings.setdefault(group.setting, []).append(group)
    blocks, wanted = timing_terms.terms(view), 0
    if (found := timing_overview.overview(view, colour_by)) is not None:
        blocks += [Heading("All settings"), *files.pictures([found.picture] if found.picture else [])]
        blocks += [found.said, found.table]
    pictures = roofline.rooflines(view, colour_by)
    blocks += files.pictures(pictures) if pictures else roofline.without(view)
    for groups in settings.values():
        blocks.append(Heading(speed.headed(view, groups[0], mode=False)))
        pictures = effects.speed_by_axis(view, groups)
        blocks += files.pictures(pictures[: max(0, MAX_SPEED_PICTURES - wanted)])
        wanted += len(pictures)
        for group in groups:
            pictures = cells.timings(view, group, colour_by)
            blocks += [Heading(group.mode_name.capitalize(), level=4)]
            blocks += files.pictures(pictures[: max(0, MAX_SPEED_PICTURES - wanted)])
            wanted += len(pictures)
            blocks += _timed(view, group)
    if wanted > MAX_SPEED_PICTURES:
        blocks.append(Md(f"Of {wanted} pictures of timings the first {MAX_SPEED_PICTURES} are drawn."))
    return [*blocks, Md(f"As numbers: {files.table('timing', timing_frames.timing_frame(view))}.")]


def _timed(view: View, group: TimeGroup) -> list[Block]:
    several = len(speed.axes_of(view, group)) > 1  # of a single axis the table by cell says the same
    blocks = by_axis.by_axis(view, group, group.device) if several else []
    found, said = speed.by_cell(view, group)
    order = ["By cell, the lowest latency first."] if said else []
    return [
        *blocks,
        Md(" ".join([*order, *said]) or "By cell; none has a result."),
        found,
        *beyond(view.timings(group)),
        *speed.unstable(view, group),
    ]
