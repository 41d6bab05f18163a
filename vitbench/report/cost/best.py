"""Best: which timings of a table stand out, and no more of them than their intervals allow.

A lowest number alone is no winner: it may be so by luck. What cannot be told from it stands out, too, and where that is
everything, or where nothing is known of the luck, nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vitbench.report.text import significant

Row = Mapping[Any, Any]


def fastest(rows: Sequence[Row], baseline: str) -> set[str]:
    """Trial ids of the lowest latency and of those whose speed has an interval that overlaps with its.

    Speeds are those beside the baseline: timings made one after the other hold what the machine did meanwhile.

    Args:
        rows: finished timings of one group and origin; those that are marked take no part.
        baseline: trial id of the one that speeds are relative to.
    """
    sure = [row for row in rows if not row["unstable"]]
    if not sure:
        return set()
    spans = {row["trial_id"]: _span(row, baseline) for row in sure}
    low, high = spans[min(sure, key=lambda row: row["latency_ms_p50"])["trial_id"]]
    # An end that is not a number is neither above nor below anything: such a timing cannot be told from another.
    level = {trial for trial, (a, b) in spans.items() if not (b < low or a > high)}
    return level if len(level) < len(sure) else set()


def leanest(rows: Sequence[Row]) -> set[str]:
    """Trial ids of the least peak memory, as it is printed; none where it is no count.

    An allocator counts bytes. A resident set differs from process to process, and by how much is mostly not known.
    """
    if any(pd.isna(row["peak_reserved_mib"]) for row in rows):
        return set()
    shown = {row["trial_id"]: significant(row["peak_memory_mib"]) for row in rows}
    least = significant(min((row["peak_memory_mib"] for row in rows), default=math.nan))
    level = {trial for trial, memory in shown.items() if memory == least}
    return level if len(level) < len(shown) else set()


def _span(row: Row, baseline: str) -> tuple[float, float]:
    """Interval of the speed relative to the baseline's, whose own is 1 by definition."""
    return (1.0, 1.0) if row["trial_id"] == baseline else (row["speed_low"], row["speed_high"])
