"""Fastest: what a study's timings say in sentences, and no more than their intervals and marks allow.

One cell is said to be faster than another where the interval of their ratio excludes 1, does so when corrected for all
comparisons of the study (Holm), and neither timing is marked as not to be relied on. All else is told as what was seen,
with the doubt beside it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from vitbench.analysis.multiplicity import ALPHA, holm
from vitbench.analysis.summary import finished
from vitbench.analysis.timings import WIDE
from vitbench.report.cost import by_axis, speed
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.markdown import Md, escape
from vitbench.report.numbers import fixed, plural, significant
from vitbench.report.origins import of_origin
from vitbench.report.view import View

COSTS = "Throughput, latency and memory"
"""Heading of the section that has every timing."""
FEWEST = 3
"""Settings from which they are summed up before any has a line of its own."""
MOST = 6
"""Settings that have a line of their own."""
MAX_NAMED = 4

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Lead:
    """Who is ahead in one group of timings of one origin.

    Attributes:
        setting: the group, and where there are several its origin, as the beginning of a sentence.
        rows: its finished timings of more than no time, the lowest latency first; two or more.
        base: the one that the others are compared with.
        names: cell → what it is called among them.
        processes: trial id → processes in which it was timed.
        adjusted: trial id → p of its ratio to the baseline, adjusted for all comparisons of the study; of none where
            there is no interval.
    """

    setting: str
    rows: Sequence[Row]
    base: Row
    names: Mapping[str, str]
    processes: Mapping[str, int]
    adjusted: Mapping[str, float] = field(default_factory=dict)

    @property
    def first(self) -> Row:
        """The one with the lowest latency."""
        return self.rows[0]

    @property
    def is_baseline(self) -> bool:
        """Whether that is the baseline."""
        return bool(self.first["cell"] == self.base["cell"])

    def name(self, row: Row) -> str:
        """A timing by its cell, escaped."""
        return escape(self.names[row["cell"]])

    @cached_property
    def others(self) -> list[Row]:
        """All but the baseline."""
        return [row for row in self.rows if row["cell"] != self.base["cell"]]

    @cached_property
    def faster(self) -> list[Row]:
        """Those that are shown to be faster than the baseline."""
        return [row for row in self.others if row["speed_low"] > 1 and self.is_shown(row)]

    @cached_property
    def not_slower(self) -> list[Row]:
        """Those that are not shown to be slower than the baseline."""
        return [row for row in self.others if not (row["speed_high"] < 1 and self.is_shown(row))]

    def is_shown(self, row: Row) -> bool:
        """Whether the ratio to the baseline is shown not to be 1, be there ever so many comparisons."""
        return self.adjusted.get(row["trial_id"], 1.0) <= ALPHA and not self.marked(row)

    def marked(self, row: Row) -> bool:
        """Whether a timing, or that of the baseline, is not to be relied on."""
        return bool(row["unstable"] or self.base["unstable"])


def sentences(view: View) -> list[Md]:
    """What is shown of each axis, or of cells where none was timed over blocks; and how near the roofline they come."""
    of_axes = by_axis.sentences(view)
    known = {measured.group for measured in of_axes}
    leads = _corrected([lead for group in view.time_groups if group not in known for lead in _leads(view, group)])
    if len(leads) < FEWEST:
        return [*of_axes.values(), *(_whole(lead) for lead in leads), *_roofline(view)]
    shown = sorted((lead for lead in leads if lead.faster), key=lambda lead: -_ratio(lead, lead.faster[0]))
    said = [_tally(leads), *(_shown(lead) for lead in shown[:MOST])]
    if len(shown) > MOST:
        rest = plural(len(shown) - MOST, "more setting")
        said.append(Md(f"In {rest} a cell is shown to be faster than the baseline: see {COSTS}."))
    return [*of_axes.values(), *said, *_not_shown(leads), *_roofline(view)]


def _corrected(leads: Sequence[Lead]) -> list[Lead]:
    """The same, with the p of every ratio adjusted for the number of all of them."""
    known = [(r["trial_id"], r["speed_p"]) for lead in leads for r in lead.others if math.isfinite(r["speed_p"])]
    adjusted = dict(zip((trial for trial, _ in known), holm([p for _, p in known]), strict=True))
    return [replace(lead, adjusted=adjusted) for lead in leads]


def _leads(view: View, group: TimeGroup) -> Iterable[Lead]:
    rows = view.timings(group)
    of_process = Counter[str](view.processes["trial_id"].tolist())
    for origin in view.origins.of(rows):
        base = speed.baseline(view, group, origin)
        mine = of_origin(finished(rows), origin)
        mine = mine[mine["latency_ms_p50"] > 0].sort_values("latency_ms_p50", kind="stable")
        if base is None or len(mine) < 2 or not base["latency_ms_p50"] > 0:
            continue
        on = f" on {view.origins.letter(origin)}" if view.origins.several else ""
        names = speed.called(view, group, mine["cell"].tolist())
        found = [{str(key): value for key, value in row.items()} for row in mine.to_dict("records")]
        yield Lead(f"{speed.titled(view, group)}{on}", found, base, names, of_process)


def _whole(lead: Lead) -> Md:
    """One setting by itself."""
    name, base, took = lead.name(lead.first), lead.name(lead.base), _took(lead.first)
    if lead.is_baseline:
        said = f"the baseline, {name}, {took}. {_behind(lead)}"
    elif lead.marked(lead.first):
        said = f"{name}, {took}; the baseline, {base}, {_took(lead.base)}. {_unsure(lead)}"
    else:
        said = f"{name}, {took}, {_times(lead, lead.first)} as fast as the baseline, {base}."
    if not lead.is_baseline and lead.faster and lead.first not in lead.faster:
        said += f" Shown to be faster than the baseline: {_named(lead, lead.faster)}."
    return Md(f"Lowest latency ({escape(lead.setting)}): {said}")


def _took(row: Row) -> str:
    return f"{significant(row['latency_ms_p50'])} ms"


def _behind(lead: Lead) -> str:
    """What the baseline's lead is worth."""
    if lead.base["unstable"]:
        return f"Its timing is marked {speed.UNSTABLE} ({_why(lead.base)}), and shows nothing."
    if not lead.not_slower:
        return "Every other is shown to be slower."
    if len(lead.not_slower) <= MAX_NAMED:
        return f"Not shown to be slower: {_named(lead, lead.not_slower)}."
    return f"Of {len(lead.others):,} others {len(lead.not_slower):,} are not shown to be slower."


def _named(lead: Lead, rows: Sequence[Row]) -> str:
    """Timings with their ratios, the doubt of each left out: the sentence says it."""
    shown = [f"{lead.name(row)}, {_times(lead, row, doubt=False)} as fast" for row in rows[:MAX_NAMED]]
    more = f"; and {len(rows) - MAX_NAMED:,} more" if len(rows) > MAX_NAMED else ""
    return f"{'; '.join(shown)}{more}"


def _ratio(lead: Lead, row: Row) -> float:
    """Times as fast as the baseline."""
    side_by_side = math.isfinite(row["speed"])
    return float(row["speed"] if side_by_side else lead.base["latency_ms_p50"] / row["latency_ms_p50"])


def _times(lead: Lead, row: Row, *, doubt: bool = True) -> str:
    """How many times as fast as the baseline, with the interval, or why there is none."""
    times = f"{fixed(_ratio(lead, row), 2)} times"
    if not math.isfinite(row["speed"]):
        return f"{times} (not timed side by side, so without an interval)"
    alone = lead.processes.get(row["trial_id"], 0) == 1
    if not math.isfinite(row["speed_low"]):
        return f"{times} (from {'one process' if alone else 'too few samples'}, so without an interval)"
    within = " within one process" if alone else ""
    noise = ", which may be noise" if doubt and not lead.is_shown(row) else ""
    return f"{times} ({speed.ends(row['speed_low'], row['speed_high'])}{within}{noise})"


def _unsure(lead: Lead) -> str:
    """What is said where the first timing, or that of the baseline, is marked."""
    reasons = {name: _why(row) for name, row in (("it", lead.first), ("the baseline", lead.base)) if row["unstable"]}
    if len(reasons) == 2 and len(set(reasons.values())) == 1:
        reasons = {"both": reasons["it"]}
    named = " and ".join(f"{name} ({why})" for name, why in reasons.items())
    verb = "is" if [*reasons] in (["it"], ["the baseline"]) else "are"
    return f"Nothing is shown by that: {named} {verb} marked {speed.UNSTABLE}."


def _why(row: Row) -> str:
    """The reasons of a mark, that of a wide interval by its width alone."""
    return "; ".join(escape(why.replace(WIDE, "±")) for why in row["unstable"].split("; "))


def _tally(leads: Sequence[Lead]) -> Md:
    """Who has the lowest latency, by in how many settings."""
    first = Counter(lead.names[lead.first["cell"]] for lead in leads)
    named = [f"{escape(name)} in {number}" for name, number in first.most_common(MAX_NAMED)]
    more = f" and {len(first) - MAX_NAMED:,} others" if len(first) > MAX_NAMED else ""
    return Md(f"Lowest latency, in {plural(len(leads), 'setting')} that were timed: {', '.join(named)}{more}.")


def _shown(lead: Lead) -> Md:
    """A setting in which something is shown to be faster than the baseline."""
    best = lead.faster[0]
    said = f"Faster than the baseline ({escape(lead.setting)}): {lead.name(best)}, {_times(lead, best)} as fast"
    more = len(lead.faster) - 1
    return Md(f"{said} as {lead.name(lead.base)}{f', and {more:,} more' if more else ''}{_of_all(lead)}.")


def _not_shown(leads: Sequence[Lead]) -> list[Md]:
    """In how many settings nothing is shown to be faster than the baseline, and why; what is shown to be slower."""
    said, bases = [], {lead.names[lead.base["cell"]] for lead in leads}
    which = f"the baseline, {escape(*bases)}" if len(bases) == 1 else "the baseline"
    if left := [lead for lead in leads if not lead.faster]:
        where = f"In {len(left)} of them no cell is" if len(left) < len(leads) else "In none of them is a cell"
        reasons = ", ".join(f"in {number} {why}" for why, number in Counter(map(_reason, left)).most_common())
        said.append(Md(f"{where} shown to be faster than {which}: {reasons}."))
    slower = Counter(lead.names[row["cell"]] for lead in leads for row in lead.others if row not in lead.not_slower)
    if slower and len(bases) == 1:
        named = [f"{escape(name)} in {number}" for name, number in slower.most_common(MAX_NAMED)]
        more = f" and {len(slower) - MAX_NAMED:,} others" if len(slower) > MAX_NAMED else ""
        said.append(Md(f"Shown to be slower than {which}{_of_all(leads[0])}: {', '.join(named)}{more}."))
    return said


def _of_all(lead: Lead) -> str:
    """By how many comparisons what is said has been corrected."""
    return f", corrected for {len(lead.adjusted):,} comparisons (Holm)" if len(lead.adjusted) > 1 else ""


def _reason(lead: Lead) -> str:
    if lead.is_baseline:
        return "the baseline has the lowest latency"
    if lead.marked(lead.first):
        return f"a timing on which it rests is marked {speed.UNSTABLE}"
    if not math.isfinite(lead.first["speed_low"]):
        return "the ratio has no interval"
    if lead.first["speed_low"] <= 1:
        return "the interval of the ratio includes 1"
    return "the ratio may be chance, given how many there are"


def _roofline(view: View) -> list[Md]:
    """How near timings come to what their device can do at most: the nearest, and the baselines."""
    said = []
    rows = finished(view.time)
    rows = rows[(rows["of_roofline"] > 0) & (rows["unstable"].fillna("") == "")]
    for (device, dtype), mine in rows.groupby(["device", "dtype"], sort=False):
        best = mine.sort_values("of_roofline", ascending=False, kind="stable").iloc[0]
        several = rows[["device", "dtype"]].drop_duplicates().shape[0] > 1
        on = f" on {escape(device)} in {escape(dtype)}" if several else ""
        said.append(
            Md(f"Nearest to the roofline{on}, what the device was seen to do at most: {escape(best['cell'])}, "
               f"{_mode(view, best)}, with {_share(best['of_roofline'])} of it.{_spread(mine)}")
        )  # fmt: skip
    return said


def _mode(view: View, row: pd.Series[Any]) -> str:
    return next(
        group.mode_name for group in view.time_groups if (group.mode, group.level) == (row["mode"], row["level"])
    )


def _spread(rows: pd.DataFrame) -> str:
    """Where the other timings lie."""
    if len(rows) < 2:
        return ""
    low, middle = rows["of_roofline"].min(), rows["of_roofline"].median()
    return f" The median of {plural(len(rows), 'timing')} without a mark is {_share(middle)}, the least {_share(low)}."


def _share(fraction: float) -> str:
    return f"{fixed(100 * fraction, 0)} %"
