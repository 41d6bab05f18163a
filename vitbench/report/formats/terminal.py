"""Terminal: the answer and the main tables of a report, for who does not open it."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from vitbench.report.document import Bar, Block, Bullets, Byline, Chips, Document, Forest, Heading, Note, Table, tone
from vitbench.report.formats.bars import Axis
from vitbench.report.text import Md, escape, plain, spans
from vitbench.wording import plural

SUMMARY = "Summary"
SECTIONS = (SUMMARY, "Effects", "Accuracy", "Speed and memory", "Time to accuracy")
"""Titles of the sections that are printed; the page has them all."""
MOST_ROWS = 40
GAP = 3  # Characters around a column: its rule, and a space on each side
LONG = 24  # Characters from which a text is broken into lines, at its spaces

FOLDED = 16  # Characters down to which words of names are folded for the one number beside them

KEPT = ("test accuracy (%)", "verdict", "outcome", "speed (× baseline)", "difference (points)", "latency p50 (ms)",
        "images/s")  # fmt: skip
"""Columns that stay longest where the terminal is narrow, beside those that say what a row is of."""

LEAST_BAR, MOST_BAR = 12, 48
"""Characters of the bars of a forest plot; where there is no room for them beside the names, they are beneath."""

COLOURS = {"good": "green", "bad": "red", "same": "blue", "open": "yellow"}
JUDGED = frozenset({"verdict", "outcome"})  # Columns whose words have a colour


def printed(document: Document, width: int) -> Iterator[RenderableType]:
    """A report for a terminal of a width in characters: the question, the answer, and the tables of its sections."""
    yield Text(document.title, style="bold")
    yield from (Text(plain(block if isinstance(block, str) else block.text)) for block in document.opening
                if isinstance(block, (str, Note, Byline)))  # fmt: skip
    for section in document.sections:
        yield Text(f"\n{section.title}", style="bold")
        for block in section.blocks:
            yield from _shown(block, section.title, width)


def _shown(block: Block, section: str, width: int) -> Iterator[RenderableType]:
    match block:
        case Heading():
            yield Text(f"\n{block.text}", style="bold")
        case Forest():
            yield from _forest(block, width)
        case Table():
            if block.caption:
                yield Text(plain(block.caption), style="dim")
            yield grid(block, width)
        case Bullets() | Chips():
            points = Grid.grid(padding=(0, 1))
            for item in block.items:
                points.add_row(Text(" •"), _cell(item if isinstance(item, str) else Md(f"**{item[0]}**: {item[1]}")))
            yield points
        case Note():
            yield Text(plain(block.text))
        case str() if not any(span.link for span in spans(block)):
            yield Text(plain(block), style="" if section == SUMMARY else "dim")


def fitting(table: Table, width: int) -> list[int]:
    """Numbers of the columns that a terminal of a width in characters shows side by side, no word of numbers broken.

    Optional ones give way first, then the last ones, and of ``KEPT`` the last there. What distinguishes the rows stays,
    and is broken into more lines for the last of ``KEPT``.
    """
    needs = [_need(table, number, width) for number in range(len(table.columns))]
    numbers, names = list(range(len(table.columns))), _names(table)
    while len(numbers) > 1 and sum(needs[n] + GAP for n in numbers) > width:
        optional = [n for n in numbers[1:] if table.columns[n] in table.optional]
        spare = [n for n in numbers if n not in names and table.columns[n] not in KEPT]
        kept = sorted(numbers[1:], key=lambda n: KEPT.index(name) if (name := table.columns[n]) in KEPT else -1)
        last = not optional and not spare and len(numbers) <= len(names) + 1
        if last and sum((_least(table, n) if n in names else needs[n]) + GAP for n in numbers) <= width:
            break
        numbers.remove((optional or spare or kept)[-1])
    return numbers


def _names(table: Table) -> range:
    """Numbers of the columns that say what a row is of."""
    return range(1 if table.right[0] else table.telling)


def _widths(table: Table, numbers: Sequence[int], width: int) -> list[int]:
    """Characters of each column that is shown: its need, and of what is left as much as its lines can use."""
    widths = [_need(table, number, width) for number in numbers]
    left = width - sum(widths) - GAP * len(widths)
    folded = {place: _least(table, n) for place, n in enumerate(numbers) if left < 0 and n in _names(table)}
    while left < 0 and (wide := [place for place, least in folded.items() if widths[place] > least]):
        widths[max(wide, key=widths.__getitem__)] -= 1
        left += 1
    wishes = [max(map(cell_len, [table.columns[n], *(plain(row[n]) for row in table.rows)])) for n in numbers]
    for place in sorted(range(len(widths)), key=lambda p: wishes[p] - widths[p]):
        more = max(0, min(wishes[place] - widths[place], left))
        widths[place] += more
        left -= more
    return widths


def _need(table: Table, number: int, width: int) -> int:
    """The longest word of a column; a longer one than half of the terminal gives way in the first, and is folded."""
    words = table.columns[number].split(" ")
    cells = [plain(row[number]) for row in table.rows]
    least = LONG if number == 0 else LONG // 2  # what a row is about is read first
    lines = [[cell] if cell_len(cell) < LONG else ["x" * least, *cell.split(" ")] for cell in cells]
    need = max(map(cell_len, itertools.chain(words, *lines)))
    return need if number else min(need, max(LONG, width // 2))


def _least(table: Table, number: int) -> int:
    """The longest word of a column of names, or as much of it as a line has at the least."""
    texts = [table.columns[number], *(plain(row[number]) for row in table.rows)]
    return min(max(cell_len(word) for text in texts for word in text.split(" ")), FOLDED)


def grid(table: Table, width: int, most: int = MOST_ROWS, rest: str = "in the report") -> Grid:
    """A table's first rows and the columns for which there is room; beneath it, where the ``rest`` of both is."""
    drawn, first = Grid(box=box.SIMPLE_HEAD, pad_edge=False), replace(table, rows=table.rows[:most])
    numbers = fitting(first, width)
    for number, given in zip(numbers, _widths(first, numbers, width), strict=True):
        side: Literal["left", "right"] = "right" if table.right[number] else "left"
        drawn.add_column(Text(table.columns[number]), justify=side, width=given, overflow="fold")
    for row in first.rows:
        drawn.add_row(*(_cell(row[number], judged=table.columns[number] in JUDGED) for number in numbers))
    rows, columns = len(table.rows) - most, len(table.columns) - len(numbers)
    if left_out := [plural(count, noun) for count, noun in ((rows, "more row"), (columns, "more column")) if count > 0]:
        drawn.caption, drawn.caption_justify = f"{' and '.join(left_out)} {rest}", "left"
    return drawn


def _forest(forest: Forest, width: int) -> Iterator[RenderableType]:
    """A forest plot in characters: ● estimate, ─ interval, │ no difference, ░ margin. A row takes one line, or two."""
    heads, room = ("comparison", "value", "verdict"), 0
    for apart in (" ", "\n"):
        rows = [
            (f"{plain(escape(row.name))}{apart}({plain(escape(row.context))})", number, row.verdict)
            for row in forest.rows
            for value, ends in [row.number]
            for number in [f"{value}{apart}({ends})" if ends else value]
        ]
        needs = [max(cell_len(line) for row in (heads, *rows) for line in row[n].split("\n")) for n in range(3)]
        if apart == "\n":  # a name takes more lines, rather than each row three
            needs[0] = min(needs[0], max(LONG, width - sum(needs[1:]) - GAP * (len(heads) + 1) - LEAST_BAR))
        room = min(width - sum(needs) - GAP * (len(heads) + 1), MOST_BAR)
        if room >= LEAST_BAR:
            break
    widths = {heads[0]: needs[0], "": room, **dict(zip(heads[1:], needs[1:], strict=True))}
    if stacked := room < LEAST_BAR:
        room = max(LEAST_BAR, width - max(needs[1:]) - 2 * GAP)
        widths = {heads[0]: room, f"{heads[1]} and {heads[2]}": max(needs[1:])}
    axis = Axis((row.bar for row in forest.rows), forest.scale)
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for head, given in widths.items():
        grid.add_column(head, width=given, overflow="fold", justify="right" if head == "value" else "left")
    for row, (name, number, verdict) in zip(forest.rows, rows, strict=True):
        judged = Text(verdict, style=f"bold {COLOURS.get(tone(verdict), '')}")
        drawn = _bar(row.bar, axis, room)
        beside = [Text(name), Text(drawn), Text(number), judged]
        grid.add_row(*([Text(f"{name}\n{drawn}"), Text.assemble(f"{number}\n", judged)] if stacked else beside))
    yield Text(plain(forest.table.caption), style="dim")
    yield grid


def _bar(bar: Bar, axis: Axis, width: int) -> str:
    def place(value: float) -> int:
        return min(width - 1, int(axis.percent(value) / 100 * width))

    drawn = [" "] * width
    if axis.scale.margin is not None:
        low, high = map(place, axis.scale.margin)
        drawn[low : high + 1] = "░" * (high + 1 - low)
    if math.isfinite(bar.low) and math.isfinite(bar.high):
        low, high = place(bar.low), place(bar.high)
        drawn[low : high + 1] = "─" * (high + 1 - low)
    if axis.scale.neutral is not None:
        drawn[place(axis.scale.neutral)] = "│"
    if math.isfinite(bar.value):
        drawn[place(bar.value)] = "●"
    return "".join(drawn)


def _cell(cell: Md, *, judged: bool = False) -> Text:
    colour = COLOURS.get(tone(plain(cell)), "") if judged else ""
    return Text.assemble(*((s.text, f"{'bold' if 'strong' in s.styles else ''} {colour}".strip()) for s in spans(cell)))
