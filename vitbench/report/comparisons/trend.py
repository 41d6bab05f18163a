"""Trend of a comparison: latencies over three studies or more, such as those of successive commits."""

from __future__ import annotations

import math

import pandas as pd

from vitbench.analysis.side_by_side import SideBySide
from vitbench.report.comparisons.forest import names_of
from vitbench.report.document import Block
from vitbench.report.figures.charts import Colouring, Picture, Trends
from vitbench.report.output import Files
from vitbench.report.text import cut

FEWEST, MOST_LINES = 3, 8
"""Studies of which a trend is made, and timings that it shows."""


def latencies(found: SideBySide, files: Files) -> list[Block]:
    """Latency over the first study's, study by study in the order given, of the timings that changed most."""
    ratios = {
        name: {1: 1.0} | {
            number: change.ratio.estimate for number, (change, base)
            in enumerate(zip(row.changes, row.bases, strict=True), 1)
            if change is not None and change.ratio is not None and base == 0
        }
        for name, row in names_of(found.timings).items()
    }  # fmt: skip
    changed = {name: max(map(abs, map(math.log, of.values()))) for name, of in ratios.items() if len(of) >= FEWEST}
    names = sorted(changed, key=lambda name: -changed[name])
    if not names:
        return []
    shown = names[:MOST_LINES]
    points = pd.DataFrame(
        [(name, float(at), ratio) for name in shown for at, ratio in ratios[name].items()],
        columns=["colour", "at", "value"],
    )
    chart = Trends("study", "latency over that of A", sorted(points["at"].unique()), points,
                   Colouring("timing", shown, shown), logarithmic=False, levels=[("as fast as A", 1.0)])  # fmt: skip
    said = {each.name: each.values for each in found.conditions}
    commits = said.get("commit", ("",) * len(found.arms))
    arms = [f"{number} is {arm.letter}: {arm.name}{f' (commit {commit})' if commit else ''}"
            for number, (arm, commit) in enumerate(zip(found.arms, commits, strict=True), 1)]  # fmt: skip
    caption = f"Latency study by study, in the order given; above 1 is slower. {'; '.join(arms)}."
    picture = Picture("latency-trend", chart, "Latency over that of the first study, study by study", caption)
    return [*files.pictures([picture]), *cut(len(names), MOST_LINES, "timing")]
