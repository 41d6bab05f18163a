"""Blocks: a report's text, which is Markdown that this package made, taken apart again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

PARSER = MarkdownIt("commonmark", {"html": False}).enable("table")
"""Raw HTML would be text: the first line, a comment, is left out before."""

Block = Sequence[Token]


def parse(text: str) -> list[Block]:
    """The tokens of each block that lies in no other; the text's first line is its mark."""
    tokens = PARSER.parse(text.partition("\n")[2])
    blocks: list[Block] = []
    begun = 0
    for number, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            blocks.append(tokens[begun : number + 1])
            begun = number + 1
    return blocks


@dataclass(frozen=True)
class Cell:
    """One cell of a table: plain text, and whether it stands out as the best of its column."""

    text: str
    bold: bool = False


@dataclass
class Table:
    """A table as it is shown.

    Attributes:
        above: the headings over it, from the title down.
        columns: heads.
        right: of each column whether it is aligned to the right.
        rows: cells.
    """

    above: tuple[str, ...]
    columns: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)

    @property
    def telling(self) -> int:
        """How many of the first columns tell the rows apart; the first alone where no number of words does."""
        for number in range(1, len(self.columns)):
            if self.right[number - 1]:
                break
            if len({tuple(cell.text for cell in row[:number]) for row in self.rows}) == len(self.rows):
                return number
        return 1


def tables(text: str) -> Iterator[Table]:
    """The tables of a report, in its order."""
    above: tuple[str, ...] = ()
    for block in parse(text):
        if block[0].type == "heading_open":
            above = (*above[: int(block[0].tag[1]) - 1], plain(block[1]))
        elif block[0].type == "table_open":
            yield table(block, above)


def table(block: Block, above: tuple[str, ...]) -> Table:
    """A block that is a table."""
    found = Table(above)
    for before, token in itertools.pairwise(block):
        if token.type == "tr_open" and found.columns:
            found.rows.append([])
        elif token.type == "inline" and before.type == "th_open":
            found.columns.append(plain(token))
            found.right.append("right" in str(before.attrGet("style")))
        elif token.type == "inline" and before.type == "td_open":
            found.rows[-1].append(Cell(plain(token), any(c.type == "strong_open" for c in token.children or [])))
    return found


def plain(inline: Token) -> str:
    """What a reader sees of a line, without its markup."""
    return "".join(child.content for child in inline.children or [])
