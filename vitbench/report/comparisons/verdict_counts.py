"""Results of a comparison in short: what differs between the arms, and the verdicts on each pair of them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from vitbench.analysis.regressions import EQUIVALENT, FASTER, IDENTICAL, OK_NOW, SLOWER, TOO_FEW, UNDECIDED
from vitbench.analysis.side_by_side import SideBySide, verdict
from vitbench.report.comparisons.limits import letters, values_of
from vitbench.report.document import Block, Heading, table
from vitbench.report.inline import NOTHING, Md, escape
from vitbench.report.text import count, fixed, ranging, signed

KINDS = {"machine": "machine", "software": "software", "data": "data", "recipe": "recipe", "protocol": "timing"}
"""Kinds of conditions, as a reader says them."""
MOST_NAMED = 8
"""Conditions that the first line names; the table below has them all."""
OF_TIMINGS = (SLOWER, FASTER, EQUIVALENT, UNDECIDED, IDENTICAL, TOO_FEW)
OF_CELLS = ("better", "worse", "equivalent", "undecided", "underpowered", "invalid", IDENTICAL)


def differences(found: SideBySide) -> Md:
    """Conditions in which the arms differ, and those in which they do not."""
    apart = [each for each in found.conditions if each.differs]
    kinds = {each.kind for each in found.conditions}
    # What is not known of every arm is not known to be the same.
    other = {each.kind for each in apart} | {each.kind for each in found.conditions if not each.known}
    same = ", ".join(name for kind, name in KINDS.items() if kind in kinds - other)
    unknown = [number for number, arm in enumerate(found.arms) if arm.conditions is None]
    if len({(arm.path.resolve(), arm.name) for arm in found.arms}) == 1:
        return Md(f"{letters(found, range(len(found.arms)))} are the same study.")
    named = "; ".join(values_of(found, each) for each in apart[:MOST_NAMED])
    more = f"; {len(apart) - MOST_NAMED} more below" if len(apart) > MOST_NAMED else ""
    parts = [
        f"**Different:** {named or 'nothing that the records know of'}{more}.",
        f"**Same:** {same}." if same else "",
        f"**Unknown:** machine and software of {letters(found, unknown)}." if unknown else "",
    ]
    return Md(" ".join(filter(None, parts)))


def verdicts(found: SideBySide) -> list[Block]:
    """A table of timings and one of accuracies, a row for each pair of arms; nothing where nothing is compared."""
    timed = [line for pair in found.pairs if (line := _timings(found, *pair))]
    trained = [line for pair in found.pairs if (line := _cells(found, *pair))]
    return [*_table("Timings", timed), *_table("Test accuracy", trained)]


def _table(title: str, lines: Sequence[dict[str, Md]]) -> list[Block]:
    if not lines:
        return []
    names = dict.fromkeys(name for line in lines for name in line)
    empty = {name for name in names if all(line.get(name, NOTHING) in (NOTHING, "0") for line in lines)}
    made = [{name: cell for name, cell in line.items() if name not in empty} for line in lines]
    return [Heading(title), table(made, right=set(names) - {"arms"})]


def _timings(found: SideBySide, number: int, base: int) -> dict[str, Md]:
    """Verdict counts of an arm's timings; empty where none is compared."""
    every = found.changes(number, base).changes
    changes = [change for change in every if change.ratio]
    if not every:
        return {}
    counts = Counter(change.word for change in changes)
    lost = Counter(change.word for change in every if change.lost)
    ratios = [change.ratio.estimate for change in changes if change.ratio]
    known = [change.ratio for change in changes if change.ratio and change.judged]
    widest = max(known, key=lambda ratio: ratio.high / ratio.low, default=None)
    mean = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan
    return {
        "arms": escape(found.against(number, base)),
        "ok in both": count(len(changes)),
        **{word: count(counts[word]) for word in OF_TIMINGS},
        "unstable (~)": count(sum(change.doubtful for change in changes)),
        "no longer ok": escape(", ".join(f"{n} {word}" for word, n in lost.items()) or "0"),
        "newly ok": count(sum(change.word == OK_NOW for change in every)),
        "latency ratio, geometric mean": fixed(mean, 3),
        "smallest to largest": ranging(min(ratios, default=math.nan), max(ratios, default=math.nan), 3),
        "widest 95 % interval": ranging(widest.low, widest.high, 3) if widest else NOTHING,
    }


def _cells(found: SideBySide, number: int, base: int) -> dict[str, Md]:
    """Verdict counts of an arm's accuracies; empty where no cell is compared."""
    judged = [each for row in found.cells if row.bases[number] == base and (each := row.judged[number]) is not None]
    if not judged:
        return {}
    counts = Counter(verdict(each) for each in judged)
    means = [each.mean for each in judged if math.isfinite(each.mean)]
    ends = f"{signed(min(means), 2)} to {signed(max(means), 2)}" if means else NOTHING
    return {
        "arms": escape(found.against(number, base)),
        "cells": count(len(judged)),
        **{word: count(counts[word]) for word in OF_CELLS},
        "differences (points)": Md(ends),
    }
