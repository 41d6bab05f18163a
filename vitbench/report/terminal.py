"""Terminal: the answer and the main tables of a report, for who does not open it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from vitbench.report.cell_tables import SHARED, bare
from vitbench.report.numbers import plural
from vitbench.report.pages import blocks
from vitbench.report.pages.blocks import Block, Table

ANSWER = "In short"
CLAIMS = "Claims"
"""Has a list of what was compared for each: the table says what came of it."""
SECTIONS = re.compile(
    rf"{ANSWER}|{CLAIMS}|Accuracy|Axis: .*|Cells against .*|Interactions|"
    r"Throughput, latency and memory|Time to accuracy"
)
"""Headings of those that are printed; the page has them all."""
MOST_ROWS = 40
GAP = 3
"""Characters around a column: its rule, and a space on each side."""
LONG = 24
"""Characters from which a text is broken into lines, at its spaces."""

MARKS = frozenset("†‡~")
"""What stands beside a number and has to be explained."""

FIRST_OUT = ("source", "state", "P(better)", "p", "claimed (points)", "blocks", "cell pairs", "matched runs",
             "compared", "FLOPs per image (M)", "parameters", "TFLOP per run", "steps", "seconds per run",
             "first step (ms)", "warm-up (s)", "expected")  # fmt: skip
"""Columns that give way first where the terminal is narrow, in this order; then the last ones, these kept:"""
KEPT = frozenset({"verdict", "outcome", "difference (points)", "test accuracy (%)", "latency p50 (ms)", "images/s",
                  "speed (× baseline)"})  # fmt: skip


def printed(text: str, width: int) -> Iterator[RenderableType]:
    """What is printed of a report's text: the question, the answer, and the tables of :data:`SECTIONS`.

    Args:
        text: Markdown, see :func:`vitbench.report.render.compose`.
        width: of the terminal, in characters.
    """
    section, title, opening = "", "", True
    for block in blocks.parse(text):
        kind = block[0].type
        if kind == "heading_open":
            shown, level = blocks.plain(block[1]), int(block[0].tag[1])
            section, title, opening = (shown if level <= 2 else section), shown, level == 1
            if level == 1 or SECTIONS.fullmatch(section):
                yield Text(f"\n{shown}" if level > 1 else shown, style="bold")
        elif kind == "table_open" and SECTIONS.fullmatch(section):
            yield _grid(blocks.table(block, (title,)), width)
        elif kind == "bullet_list_open" and SECTIONS.fullmatch(section) and section != CLAIMS:
            points = Grid.grid(padding=(0, 1))
            for line in _lines(block):
                points.add_row(Text(" •"), Text(line))
            yield points
        elif kind == "paragraph_open" and SECTIONS.fullmatch(section) and _is_needed(block, section):
            yield Text(blocks.plain(block[1]), style="dim")
        elif kind == "blockquote_open" or (kind == "paragraph_open" and opening):
            yield from (Text(line) for line in _lines(block))


def _is_needed(block: Block, section: str) -> bool:
    """Whether a paragraph explains a mark or, beside the answer, a word, or tells of all rows; one that leads to a file
    does none of these."""
    leads, said = any(child.type == "link_open" for child in block[1].children or []), blocks.plain(block[1])
    return not leads and (section == ANSWER or bool(MARKS & set(said)) or SHARED in said)


def _lines(block: Block) -> Sequence[str]:
    return [blocks.plain(token) for token in block if token.type == "inline"]


def fitting(table: Table, width: int) -> list[int]:
    """Numbers of the columns that a terminal shows side by side, none of them broken within a word.

    Args:
        table: whose columns give way, see :data:`FIRST_OUT`; the first one never does.
        width: of the terminal, in characters.
    """
    needs = [_need(table, number) for number in range(len(table.columns))]
    shown = list(range(len(table.columns)))
    rank = {name: place for place, name in enumerate(FIRST_OUT)}
    while len(shown) > 1 and sum(needs[n] + GAP for n in shown) > width:
        first = [n for n in shown if bare(table.columns[n]) in rank]
        others = [n for n in shown[1:] if bare(table.columns[n]) not in KEPT]
        out = min(first, key=lambda n: rank[bare(table.columns[n])]) if first else (others or shown)[-1]
        shown.remove(out)
    return shown


def _widths(table: Table, shown: Sequence[int], width: int) -> list[int]:
    """Characters of each shown column: what it needs, and of what is left as much as its lines can use."""
    found = [_need(table, number) for number in shown]
    left = width - sum(found) - GAP * len(found)
    wishes = [max(map(cell_len, [table.columns[n], *(row[n].text for row in table.rows)])) for n in shown]
    for place in sorted(range(len(found)), key=lambda p: wishes[p] - found[p]):
        more = max(0, min(wishes[place] - found[place], left))
        found[place] += more
        left -= more
    return found


def _need(table: Table, number: int) -> int:
    """Characters that a column needs at least."""
    words = table.columns[number].split(" ")
    cells = [row[number].text for row in table.rows]
    least = LONG if number == 0 else LONG // 2  # what a row is about is read first
    longest = max((cell_len(cell) if cell_len(cell) < LONG else _broken(cell, least) for cell in cells), default=0)
    return max(longest, *map(cell_len, words))


def _broken(cell: str, least: int) -> int:
    return max(least, *map(cell_len, cell.split(" ")))


def _grid(table: Table, width: int) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    shown = fitting(table, width)
    for number, given in zip(shown, _widths(table, shown, width), strict=True):
        grid.add_column(Text(table.columns[number]), justify="right" if table.right[number] else "left", width=given)
    for row in table.rows[:MOST_ROWS]:
        grid.add_row(*(Text(row[number].text, style="bold" if row[number].bold else "") for number in shown))
    left_out = [
        *([plural(len(table.rows) - MOST_ROWS, "more row")] if len(table.rows) > MOST_ROWS else []),
        *([plural(len(table.columns) - len(shown), "more column")] if len(shown) < len(table.columns) else []),
    ]
    if left_out:
        grid.caption, grid.caption_justify = f"{' and '.join(left_out)} in the report", "left"
    return grid
