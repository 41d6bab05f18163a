"""Comparison: several studies side by side, as a page and as Markdown, with pictures and tables beside them."""

from pathlib import Path

from vitbench.analysis.side_by_side import SideBySide, planned
from vitbench.config.base import uncollected_so_far
from vitbench.report.comparisons import comparison_tables as tables
from vitbench.report.comparisons import limits, plots
from vitbench.report.document import Block, Bullets, Document, Section, table
from vitbench.report.figures.charts import Draw, drawn
from vitbench.report.output import Files
from vitbench.report.text import NOTHING, Md, bold, count, escape, listed

MOST_NAMED = 12  # Timings or cells that a row of what only some have lists before it counts the others


def render_comparison(comparison: SideBySide, out: Path, draw: Draw = drawn) -> Path:
    """Write a comparison of studies into a folder, see :meth:`Files.write`; returns the path of ``index.html``."""
    files = Files(draw)
    with uncollected_so_far():
        return files.write(out, compose(comparison, files))


def compose(comparison: SideBySide, files: Files) -> Document:
    """The comparison; its figures and tables are added to ``files``."""
    names = dict.fromkeys(arm.study_name for arm in comparison.arms)
    blocks = [*plots.ratios(comparison, files), *plots.differences(comparison, files)]
    counts = [escape(line) for line in comparison.summaries(None)]
    sections = [
        Section("Summary", [*([Bullets(counts)] if counts else []), *blocks]),
        Section("What is compared", conditions(comparison)),
        Section("Timings", tables.timings(comparison, files), folded=True),
        Section("Accuracy and training", tables.accuracy(comparison, files), folded=True),
        Section("Caveats", [Bullets([sentence for _, sentence in limits.stated(comparison)])]),
        Section("What only some have", only_in_some(comparison), folded=True),
        Section("What is the same", alike(comparison), folded=True),
    ]
    filled = [section for section in sections if section.blocks]
    return Document(f"Comparison: {', '.join(names)}", [limits.differences(comparison)], filled)


def conditions(comparison: SideBySide) -> list[Block]:
    """Conditions of the arms, a row for each in which they are not known to be alike; what explains most first."""
    apart = sorted((c for c in comparison.conditions if not c.alike), key=lambda c: (c.name != "study", not c.differs))
    lines = [
        {"condition": bold(escape(each.name)) if each.differs else escape(each.name)}
        | {arm.letter: escape(value) or NOTHING for arm, value in zip(comparison.arms, each.values, strict=True)}
        for each in apart
    ]
    return [
        Md("One column for each arm: a study, on one device, in one environment. Bold: what differs and may "
           "explain a difference."),
        table(lines, set()),
    ]  # fmt: skip


def alike(comparison: SideBySide) -> list[Block]:
    """The conditions that are equal in all arms; empty where there is none."""
    lines = [{"condition": escape(c.name), "in all": escape(c.values[0])} for c in comparison.conditions if c.alike]
    return [table(lines, set())] if lines else []


def only_in_some(comparison: SideBySide) -> list[Block]:
    """Trials that are planned only in some of the arms."""
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, rows in (("timings", comparison.timings), ("trained cells", comparison.cells)):
        for row in rows:
            if len(numbers := planned(row)) < len(comparison.arms):
                letters = ", ".join(comparison.arms[number].letter for number in numbers)
                groups.setdefault((letters, kind), []).append(row.label)
    lines = [
        {"planned in": Md(letters), "what": Md(kind), "number": count(len(labels)), "which": listed(labels, MOST_NAMED)}
        for (letters, kind), labels in groups.items()
    ]
    return [table(lines, {"number"})] if lines else []
