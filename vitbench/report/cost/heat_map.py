"""Heat map: how fast each implementation is beside the baseline, in every setting that was timed."""

from __future__ import annotations

import math
from dataclasses import replace

from vitbench.report.cost import speed
from vitbench.report.cost.beside import Beside, beside_baseline
from vitbench.report.document import Table, table
from vitbench.report.inline import Md, escape
from vitbench.report.text import UNSTABLE, distinct, fixed
from vitbench.report.view import View
from vitbench.wording import plural

FEWEST = 3
"""Settings from which there is more to see than in the tables of each."""
MOST = 40
"""Settings that are shown."""
MOST_COLUMNS = 8
STRONGEST = math.log(2.0)
"""Logarithm of the ratio from which a cell has the strongest colour."""


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
    lines = [
        {"setting": escape(title)} | {heads[column]: _cell(each) for column, each in row.items()}
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
    made = table(lines, right=set(heads.values()), columns=["setting", *heads.values()])
    return replace(made, shades=shades).captioned(escape(caption))


def _cell(each: Beside) -> Md:
    word = UNSTABLE if each.unstable else each.verdict if each.verdict in ("faster", "slower") else ""
    return Md(f"{fixed(each.ratio, 2)} {word}".strip())
