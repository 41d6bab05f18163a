"""Beside the baseline: each timing's speed relative to the baseline's, with a verdict corrected over the study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vitbench.analysis.grouped import finished
from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.report.cost import speed
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.origins import of_origin
from vitbench.report.view import View


@dataclass(frozen=True)
class Beside:
    """A timing beside the baseline of its setting.

    Attributes:
        group: the setting.
        origin: whose results.
        name: the part of the cell's name that differs within the setting.
        base: name of the baseline.
        row: the timing, see :func:`vitbench.analysis.frames.timings_frame`.
        ratio: times as fast as the baseline, side by side where they were timed so.
        p_holm: that the ratio is 1, corrected for all ratios of the study; NaN where it has no interval.
        unstable: whether one of the two is not to be relied on.
    """

    group: TimeGroup
    origin: str
    name: str
    base: str
    row: Mapping[str, Any]
    ratio: float
    p_holm: float
    unstable: bool

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
    known = [number for number, (*_, p) in enumerate(found) if math.isfinite(p)]
    adjusted = dict(zip(known, holm([found[number][-1] for number in known]), strict=True))
    return [
        Beside(group, origin, name, base, row, ratio, adjusted.get(number, math.nan), unstable)
        for number, (group, origin, name, base, row, ratio, unstable, _) in enumerate(found)
    ]


_Found = tuple[TimeGroup, str, str, str, Mapping[str, Any], float, bool, float]


def _of_group(view: View, group: TimeGroup) -> list[_Found]:
    planned, found = view.timings(group), list[_Found]()
    for origin in view.origins.of(planned):
        base = speed.baseline(view, group, origin)
        rows = of_origin(finished(planned), origin)
        rows = rows[rows["latency_ms_p50"] > 0]
        names = speed.called(view, group, rows["cell"].tolist())
        if base is None or base["cell"] not in names:
            continue
        for row in rows.to_dict("records"):
            if row["cell"] != base["cell"]:
                ratio = row["speed"] if math.isfinite(row["speed"]) else base["latency_ms_p50"] / row["latency_ms_p50"]
                unstable = bool(row["unstable"] or base["unstable"])
                found.append((group, origin, names[row["cell"]], names[base["cell"]],
                              {str(key): value for key, value in row.items()}, float(ratio), unstable,
                              float(row["speed_p"])))  # fmt: skip
    return found
