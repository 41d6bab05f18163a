"""Beside the baseline: each timing's speed relative to the baseline's, with a verdict corrected over the study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.report.cost import speed
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.view import View


@dataclass(frozen=True)
class Beside:
    """A timing beside the baseline of its setting.

    Attributes:
        group: the setting.
        name: the part of the cell's name that differs within the setting.
        base: name of the baseline.
        row: the timing, see :func:`vitbench.analysis.frames.timings_frame`.
        ratio: times as fast as the baseline, side by side where they were timed so.
        unstable: whether one of the two is not to be relied on.
        p_holm: that the ratio is 1, corrected for all ratios of the study; NaN where it has no interval.
    """

    group: TimeGroup
    name: str
    base: str
    row: Mapping[Any, Any]
    ratio: float
    unstable: bool
    p_holm: float = math.nan

    @property
    def verdict(self) -> str:
        """Faster or slower by the corrected p; unstable, or undecided."""
        if self.unstable:
            return "unstable"
        if not self.p_holm <= ALPHA:
            return "undecided"
        return "faster" if self.ratio > 1 else "slower"


def beside_baseline(view: View) -> list[Beside]:
    """Every finished timing but the baselines', in the plan's order."""
    found = [each for group in view.time_groups for each in _of_group(view, group)]
    known = [number for number, each in enumerate(found) if math.isfinite(each.row["speed_p"])]
    for number, p in zip(known, holm([float(found[number].row["speed_p"]) for number in known]), strict=True):
        found[number] = replace(found[number], p_holm=p)
    return found


def _of_group(view: View, group: TimeGroup) -> Iterator[Beside]:
    rows = view.timed(group)
    base, rows = speed.baseline(view, group), rows[rows["latency_ms_p50"] > 0]
    names = speed.called(view, group, rows["cell"].tolist())
    if base is None or base["cell"] not in names:
        return
    for row in rows[rows["cell"] != base["cell"]].to_dict("records"):
        ratio = row["speed"] if math.isfinite(row["speed"]) else base["latency_ms_p50"] / row["latency_ms_p50"]
        unstable = bool(row["unstable"] or base["unstable"])
        yield Beside(group, names[row["cell"]], names[base["cell"]], row, float(ratio), unstable)
