"""Beside the baseline: each timing's speed relative to the baseline's, with a verdict corrected over the study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.report.cost import speed
from vitbench.report.document import Table, table
from vitbench.report.groups import TimeGroup
from vitbench.report.text import UNSTABLE, Md, distinct, escape, fixed
from vitbench.report.view import View
from vitbench.wording import plural


@dataclass(frozen=True)
class Beside:
    """A timing beside the baseline of its setting."""

    group: TimeGroup  # the setting
    name: str  # the part of the cell's name that differs within the setting
    base: str  # name of the baseline
    row: Mapping[Any, Any]  # the timing, see :func:`vitbench.analysis.frames.timings_frame`
    ratio: float  # times as fast as the baseline, side by side where they were timed so
    unstable: bool  # whether one of the two is not to be relied on
    p_holm: float = math.nan  # that the ratio is 1, corrected for all ratios of the study; NaN where it has no interval

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


FEWEST = 3  # Settings from which there is more to see than in the tables of each
MOST = 40  # Settings that are shown
MOST_COLUMNS = 8
STRONGEST = math.log(2.0)  # Logarithm of the ratio from which a cell has the strongest colour


def heat_map(view: View) -> Table | None:
    """Speeds beside the baseline, a row for each setting and a column for each implementation and mode.

    None of few settings, and where cells differ too much to stand side by side.
    """
    found = beside_baseline(view)
    columns = sorted({(each.group.mode_name, each.name) for each in found})
    groups, bases = list(dict.fromkeys(each.group for each in found)), {each.base for each in found}
    if len(groups) < FEWEST or len(bases) != 1 or len(columns) > MOST_COLUMNS:
        return None
    titles = distinct([
        (speed.shared(view, g), g.what.removesuffix(", "), g.device, g.dtype, f"batch size {g.batch_size}", g.letter)
        for g in groups
    ])  # fmt: skip
    title_of = dict(zip(groups, (title or "all" for title in titles), strict=True))
    rows: dict[str, dict[tuple[str, str], Beside]] = {}
    for each in found:
        rows.setdefault(title_of[each.group], {})[each.group.mode_name, each.name] = each
    several = len({mode for mode, _ in columns}) > 1
    heads = {column: f"{column[1]}, {column[0]}" if several else column[1] for column in columns}
    shown = list(rows.items())[:MOST]
    words = {"unstable": f" {UNSTABLE}", "faster": " faster", "slower": " slower"}
    lines = [
        {"setting": escape(title)}
        | {heads[column]: Md(f"{fixed(each.ratio, 2)}{words.get(each.verdict, '')}") for column, each in row.items()}
        for title, row in shown
    ]
    shades = {
        (at, columns.index(column) + 1): max(-1.0, min(1.0, math.log(each.ratio) / STRONGEST))
        for at, (_, row) in enumerate(shown)
        for column, each in row.items()
        if not each.unstable and each.ratio > 0
    }
    caption = f"Speed as a multiple of that of {bases.pop()}, timed beside it: above 1 is faster."
    caption += " Faster or slower, in words, where it is shown after correction for all comparisons."
    caption += f" {UNSTABLE}: unstable timing." if any(each.unstable for each in found) else ""
    caption += f" The first {MOST} of {plural(len(rows), 'setting')} are shown." if len(rows) > MOST else ""
    made = table(lines, right=set(heads.values()), columns=["setting", *heads.values()], caption=escape(caption))
    return replace(made, shades=shades)
