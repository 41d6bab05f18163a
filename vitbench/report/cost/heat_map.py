"""Heat map: how fast each implementation is beside the baseline, in every setting that was timed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vitbench.report.cost import speed
from vitbench.report.cost.beside import Beside, beside_baseline
from vitbench.report.cost.time_groups import TimeGroup
from vitbench.report.document import Table, table
from vitbench.report.inline import NOTHING, Md, bold, escape
from vitbench.report.text import UNSTABLE, fixed, plural
from vitbench.report.view import View

FEWEST = 3
"""Settings from which there is more to see than in the tables of each."""
MOST = 40
"""Settings that are shown."""
MOST_COLUMNS = 8
STRONGEST = math.log(2.0)
"""Logarithm of the ratio from which a cell has the strongest colour."""


@dataclass(frozen=True)
class HeatMap:
    """The table, a row for each setting and a column for each implementation and mode, and how it is to be read."""

    table: Table
    said: Md


def heat_map(view: View) -> HeatMap | None:
    """Speeds beside the baseline; None of few settings, and where cells differ too much to stand side by side."""
    found = beside_baseline(view)
    settings = {(each.group, each.origin) for each in found}
    bases = {each.base for each in found}
    columns = dict.fromkeys((each.group.mode_name, each.name) for each in found)
    if len(settings) < FEWEST or len(bases) != 1 or not 1 <= len(columns) <= MOST_COLUMNS:
        return None
    parts = {(each.group, each.origin): _parts(view, each) for each in found}
    titles = _titles(parts)
    rows: dict[str, dict[tuple[str, str], Beside]] = {}
    for each in found:
        rows.setdefault(titles[each.group, each.origin], {})[each.group.mode_name, each.name] = each
    several = len({mode for mode, _ in columns}) > 1
    heads = {column: f"{column[1]}, {column[0]}" if several else column[1] for column in sorted(columns)}
    shown = dict([*rows.items()][:MOST])
    lines = [
        {"setting": escape(title)} | {head: _cell(row.get(column)) for column, head in heads.items()}
        for title, row in shown.items()
    ]
    shades = {
        (at, number): max(-1.0, min(1.0, math.log(beside.ratio) / STRONGEST))
        for at, row in enumerate(shown.values())
        for number, column in enumerate(heads, 1)
        if (beside := row.get(column)) is not None and not beside.unstable and beside.ratio > 0
    }
    (base,) = bases
    said = f"Speed as a multiple of that of {base}, timed beside it: above 1 is faster."
    said += " Bold: faster or slower, corrected for all comparisons."
    said += f" {UNSTABLE}: unstable timing." if any(each.unstable for each in found) else ""
    said += f" The first {MOST} of {plural(len(rows), 'setting')} are shown." if len(rows) > MOST else ""
    return HeatMap(replace(table(lines, right=set(heads.values())), shades=shades), escape(said))


def _cell(each: Beside | None) -> Md:
    if each is None:
        return NOTHING
    shown = Md(f"{fixed(each.ratio, 2)}{f' {UNSTABLE}' if each.unstable else ''}")
    return bold(shown) if each.verdict in ("faster", "slower") else shown


def _parts(view: View, each: Beside) -> tuple[str, ...]:
    group = each.group
    on = view.origins.letter(each.origin) if view.origins.several else ""
    return (speed.shared(view, group), group.what.removesuffix(", "), group.device, group.dtype,
            f"batch size {group.batch_size}", on)  # fmt: skip


def _titles(parts: Mapping[tuple[TimeGroup, str], Sequence[str]]) -> dict[tuple[TimeGroup, str], str]:
    """Names of settings without the parts that are not needed to tell them apart, the first parts kept longest."""
    every = set(map(tuple, parts.values()))
    kept = [place for place in range(len(next(iter(every)))) if len({each[place] for each in every}) > 1]
    for place in reversed(kept):
        fewer = [each for each in kept if each != place]
        if len({tuple(each[n] for n in fewer) for each in every}) == len(every):
            kept = fewer
    return {key: ", ".join(filter(None, (each[n] for n in kept))) or each[2] for key, each in parts.items()}
