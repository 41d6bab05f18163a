"""Comparison: several studies side by side, as a page and as Markdown, with pictures and tables beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from vitbench.analysis.regressions import within
from vitbench.analysis.side_by_side import SideBySide, TimingRow, common_margin, verdict
from vitbench.config.base import uncollected_so_far
from vitbench.config.trial import TimeTrial
from vitbench.report.comparisons import comparison_tables as tables
from vitbench.report.comparisons import limits
from vitbench.report.document import Bar, Block, Bullets, Document, Forest, ForestRow, Scale, Section, table
from vitbench.report.figures.charts import Colouring, Draw, Picture, Trends, drawn
from vitbench.report.output import Files
from vitbench.report.sections.effects import note_of, scale_of
from vitbench.report.text import NOTHING, Md, bold, count, cut, distinct, escape, fixed, interval_text, listed, signed

MOST_NAMED = 12  # Timings or cells that a row of what only some have lists before it counts the others


def render_comparison(found: SideBySide, out: Path, draw: Draw = drawn) -> Path:
    """Write a comparison of studies into a folder, see :meth:`Files.write`; returns the path of ``index.html``."""
    files = Files(draw)
    with uncollected_so_far():
        return files.write(out, compose(found, files))


def compose(found: SideBySide, files: Files) -> Document:
    """The comparison; its figures and tables are added to ``files``."""
    names = dict.fromkeys(arm.study_name for arm in found.arms)
    shown = [*ratios(found, files), *trends(found, files), *differences(found, files)]
    counted = [escape(line) for line in found.summaries(None)]
    sections = [
        Section("Summary", [*([Bullets(counted)] if counted else []), *shown]),
        Section("What is compared", conditions(found)),
        Section("Timings", tables.timings(found, files), folded=True),
        Section("Accuracy and training", tables.accuracy(found, files), folded=True),
        Section("Caveats", [Bullets([sentence for _, sentence in limits.stated(found)])]),
        Section("What only some have", only_in_some(found), folded=True),
        Section("What is the same", alike(found), folded=True),
    ]
    opening = [limits.differences(found)]
    return Document(f"Comparison: {', '.join(names)}", opening, [each for each in sections if each.blocks])


def conditions(found: SideBySide) -> list[Block]:
    """What the arms are, a row for each thing in which they are not known to be alike; what explains most first."""
    apart = sorted((e for e in found.conditions if not e.alike), key=lambda e: (e.name != "study", not e.differs))
    lines = [
        {"condition": bold(escape(each.name)) if each.differs else escape(each.name)}
        | {arm.letter: escape(value) or NOTHING for arm, value in zip(found.arms, each.values, strict=True)}
        for each in apart
    ]
    return [
        Md("One column for each arm: a study, on one device, under one set of conditions. Bold: what differs and may "
           "explain a difference."),
        table(lines, set()),
    ]  # fmt: skip


def alike(found: SideBySide) -> list[Block]:
    """The conditions that are equal in all arms; empty where there is none."""
    same = [each for each in found.conditions if each.alike]
    lines = [{"condition": escape(each.name), "in all": escape(each.values[0])} for each in same]
    return [table(lines, set())] if lines else []


def only_in_some(found: SideBySide) -> list[Block]:
    """Trials that are planned only in some of the arms."""
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, rows in (("timings", found.timings), ("trained cells", found.cells)):
        for row in rows:
            if len(numbers := tables.planned(row)) < len(found.arms):
                letters = ", ".join(found.arms[number].letter for number in numbers)
                groups.setdefault((letters, kind), []).append(row.label)
    lines = [
        {"planned in": Md(letters), "what": Md(kind), "number": count(len(labels)), "which": listed(labels, MOST_NAMED)}
        for (letters, kind), labels in groups.items()
    ]
    return [table(lines, {"number"})] if lines else []


MOST = 40  # Rows of a plot; what is beyond is in the tables


def ratios(found: SideBySide, files: Files) -> list[Block]:
    """Latency of each arm over that of its counterpart, a row for each timing that both have; nothing without any."""
    rows = [
        ForestRow(
            name, f"{found.arms[number].letter}/{found.arms[base].letter}",
            Bar(change.ratio.estimate, change.ratio.low, change.ratio.high),
            (f"×{fixed(change.ratio.estimate, 3)}", interval_text(change.ratio.low, change.ratio.high, 3)), change.word,
        )
        for name, row in names_of(found.timings).items()
        for number, change in enumerate(row.changes)
        if change is not None and change.ratio is not None and (base := row.bases[number]) is not None
    ]  # fmt: skip
    scale = Scale(1.0, within(found.margin), logarithmic=True)
    band = f"margin: {100 * found.margin:g} %"
    return _plot("latency-ratios", "Latency ratio (above 1 is slower)", rows, scale, files, band=band)


def differences(found: SideBySide, files: Files) -> list[Block]:
    """Difference in test accuracy of each cell, a row for each arm that is compared seed by seed with another."""
    decimals = tables.decimals_of(found) + 1
    rows = [
        ForestRow(
            row.label, found.against(number, base),
            Bar(judged.mean, judged.interval.low, judged.interval.high, judged.comparison.deltas),
            (signed(judged.mean, decimals),
             interval_text(judged.interval.low, judged.interval.high, decimals, sign=True)),
            verdict(judged),
        )
        for row in found.cells
        for number, (judged, base) in enumerate(zip(row.judged, row.bases, strict=True))
        if judged is not None and judged.n and base is not None
    ]  # fmt: skip
    margin = common_margin(found.arms)
    note = note_of(margin, [judged for row in found.cells for judged in row.judged if judged is not None])
    return _plot("accuracy", "Difference in test accuracy (points)", rows, scale_of(margin), files, band=note)


def _plot(
    name: str, title: str, rows: Sequence[ForestRow], scale: Scale, files: Files, *, band: str
) -> list[Block]:  # fmt: skip
    if not rows:
        return []
    return [files.forest(name, Forest(title, tuple(rows[:MOST]), scale, band)), *cut(len(rows), MOST)]


def names_of(rows: Sequence[TimingRow]) -> dict[str, TimingRow]:
    """Timings that two arms have, by the shortest names that tell them apart."""
    compared = [row for row in rows if any(change and change.ratio for change in row.changes)]
    return dict(zip(distinct([_parts(row) for row in compared], keep=1), compared, strict=True))


def _parts(row: TimingRow) -> list[str]:
    """What tells a timing from others, as far as it goes: the cell first, then its setting."""
    trial = row.planned.trial
    assert isinstance(trial, TimeTrial)
    part = "" if trial.level == "model" else f"{trial.level} ({trial.shape})"
    return [row.cell, trial.mode, part, f"batch {trial.batch_size}", trial.dtype]


FEWEST, MOST_LINES = 3, 8  # Studies of which a trend is made, and timings that it shows


def trends(found: SideBySide, files: Files) -> list[Block]:
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
