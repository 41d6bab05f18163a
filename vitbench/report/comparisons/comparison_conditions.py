"""What the arms of a comparison are, in tables: in what they differ, what is the same, and what only some have."""

from __future__ import annotations

from vitbench.analysis.side_by_side import SideBySide
from vitbench.report.document import Block, table
from vitbench.report.inline import NOTHING, Md, bold, escape, listed
from vitbench.report.text import count

MOST_NAMED = 12
"""Timings or cells that a row of what only some have lists before it counts the others."""


def conditions(found: SideBySide) -> list[Block]:
    """What the arms are, a row for each thing in which they are not known to be alike; what explains most first."""
    apart = [each for each in found.conditions if not each.alike]
    names, rest = [each for each in apart if each.name == "study"], [each for each in apart if each.name != "study"]
    lines = []
    for each in [*names, *(e for e in rest if e.differs), *(e for e in rest if not e.differs)]:
        name = escape(each.name)
        values = (escape(value) if value else NOTHING for value in each.values)
        line = {"condition": bold(name) if each.differs else name}
        lines.append(line | {arm.letter: value for arm, value in zip(found.arms, values, strict=True)})
    said = "One column for each arm: a study, on one device, under one set of conditions."
    more = " Bold: what differs and may explain a difference." if any(each.differs for each in apart) else ""
    return [Md(f"{said}{more}"), table(lines, set())]


def alike(found: SideBySide) -> list[Block]:
    """What is known to be the same in all arms; nothing where there is nothing."""
    lines = [{"condition": escape(each.name), "in all": escape(each.values[0])}
             for each in found.conditions if each.alike]  # fmt: skip
    return [table(lines, set())] if lines else []


def alone(found: SideBySide) -> list[Block]:
    """What is planned in some arms and not in the others."""
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, rows in (
        ("timings", [(row.label, row.timings) for row in found.timings]),
        ("trained cells", [(row.label, row.cells) for row in found.cells]),
    ):
        for label, of_arms in rows:
            letters = [arm.letter for arm, each in zip(found.arms, of_arms, strict=True) if each is not None]
            if len(letters) < len(found.arms):
                groups.setdefault((", ".join(letters), kind), []).append(label)
    if not groups:
        return [Md("Nothing: what one plans, all plan.")]
    lines = [
        {"planned in": Md(letters), "what": Md(kind), "number": count(len(labels)), "which": listed(labels, MOST_NAMED)}
        for (letters, kind), labels in groups.items()
    ]
    return [table(lines, {"number"})]
