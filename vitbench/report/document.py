"""Document: a report as data. Sections make it, and each format renders it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from vitbench.report.markdown import NOTHING, Md

NO_CAPTION = Md("")


@dataclass(frozen=True)
class Heading:
    """A heading within a section, as plain text.

    Attributes:
        level: 3 below a section's title, 4 below that.
    """

    text: str
    level: int = 3


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[Md, ...]


@dataclass(frozen=True)
class Note:
    """A warning above the report, such as that the data are not those asked for."""

    text: Md


@dataclass(frozen=True)
class Code:
    """Lines to be copied."""

    text: str
    language: str = "sh"


@dataclass(frozen=True)
class Figure:
    """A picture.

    Attributes:
        path: of its PNG file, relative to the report.
        alt: plain text, for who does not see it.
        caption: what it shows; empty where the text around it says so.
    """

    path: str
    alt: str
    caption: Md = NO_CAPTION


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        columns: heads, plain text.
        right: whether each column is aligned to the right.
        rows: cells.
    """

    columns: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[Md, ...], ...]

    @property
    def telling(self) -> int:
        """How many of the first columns tell the rows apart; the first alone where no number of words does."""
        for number in range(1, len(self.columns)):
            if self.right[number - 1]:
                break
            if len({row[:number] for row in self.rows}) == len(self.rows):
                return number
        return 1


Block = Md | Heading | Bullets | Note | Code | Figure | Table
"""A part of a section; a line of text by itself is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A title and its blocks."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A report.

    Attributes:
        title: plain text.
        opening: before the first section.
        sections: in their order, those without anything left out.
    """

    title: str
    opening: Sequence[Block]
    sections: Sequence[Section]

    def tables(self) -> Iterator[tuple[tuple[str, ...], Table]]:
        """The headings over each table, and the table."""
        for section in self.sections:
            above: tuple[str, ...] = (section.title,)
            for block in section.blocks:
                if isinstance(block, Heading):
                    above = (*above[: block.level - 2], block.text)
                elif isinstance(block, Table):
                    yield above, block


def table(rows: Sequence[Mapping[str, Md]], right: Set[str]) -> Table:
    """A table of rows, its columns in the order of the first row that has them.

    Args:
        rows: column → cell. A row without a column shows :data:`NOTHING` there.
        right: columns aligned to the right.
    """
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    cells = tuple(tuple(row.get(name, NOTHING) for name in columns) for row in rows)
    return Table(columns, tuple(name in right for name in columns), cells)


def bullets(items: Iterable[Md]) -> Bullets:
    """A list, an item a line."""
    return Bullets(tuple(items))


def mentions(blocks: Iterable[Block], mark: Md) -> bool:
    """Whether a mark stands in some blocks and has to be explained."""
    return any(mark in cell for block in blocks for cell in _texts(block))


def _texts(block: Block) -> Iterable[Md]:
    if isinstance(block, Table):
        return (cell for row in block.rows for cell in row)
    return [block] if isinstance(block, str) else ()
