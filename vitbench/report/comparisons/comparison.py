"""Comparison: several studies side by side, as a page and as Markdown, with pictures and tables beside them."""

from __future__ import annotations

from pathlib import Path

from vitbench.analysis.side_by_side import SideBySide
from vitbench.config.base import uncollected_so_far
from vitbench.report.comparisons import comparison_tables as tables
from vitbench.report.comparisons import limits, plots
from vitbench.report.document import Block, Bullets, Document, Section, table
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.output import Files
from vitbench.report.text import NOTHING, Md, bold, count, escape, listed

MOST_NAMED = 12  # Timings or cells that a row of what only some have lists before it counts the others


def render_comparison(found: SideBySide, out: Path, draw: Draw = drawn) -> Path:
    """Write a comparison of studies into a folder, see :meth:`Files.write`; returns the path of ``index.html``."""
    files = Files(draw)
    with uncollected_so_far():
        return files.write(out, compose(found, files))


def compose(found: SideBySide, files: Files) -> Document:
    """The comparison; its figures and tables are added to ``files``."""
    names = dict.fromkeys(arm.study_name for arm in found.arms)
    shown = [*plots.ratios(found, files), *plots.trends(found, files), *plots.differences(found, files)]
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
