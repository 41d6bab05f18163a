"""Cells of a page's table: what a browser needs to show them well on any width, and to read them out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from vitbench.report.document import Table
from vitbench.report.inline import NOTHING, Md, Span, escape, plain

NAME, SENTENCE = 24, 36
"""Characters up to which a cell is not broken into lines, and from which it has room for several words in one."""
SHORT = 20
"""Characters up to which what names a row is not broken into lines on a phone, either."""
HEAD = 12
"""Characters of a head from which its column is as wide as two or three words, so that it does not become a tower."""


class TableCell(NamedTuple):
    """A cell: a header of its row, of its column, or of neither; its classes in the style; what stands in it."""

    scope: str
    classes: str
    line: Sequence[Span]


def cells(table: Table, read: Callable[[Md], Sequence[Span]]) -> Iterator[list[TableCell]]:
    """The rows of a table, the heads first.

    What names a row is its header, for who has it read out. Where it takes several columns to name one, a column that
    joins them stands before them; the style shows the one or the others, as far as there is room.

    Args:
        table: its cells.
        read: what stands in a cell.
    """
    naming = 0 if table.right[0] else table.telling
    heads = tuple(map(escape, table.columns))
    rows = [_label([plain(cell) for cell in row[: table.telling]]) for row in table.rows]
    joined = itertools.repeat("") if table.telling < 2 else [_label(table.columns[: table.telling]), *rows]
    longest = max(map(len, rows), default=0)
    words = max((len(word) for row in rows for word in row.split()), default=0)
    kind = _classes("joined", "name" if longest <= SHORT else "sentence", "long" if words > NAME else "")
    for number, (row, label) in enumerate(zip([heads, *table.rows], joined, strict=False)):
        first = [TableCell("row" if number else "col", kind, [Span(label)])] if label else []
        yield first + [
            TableCell(
                "row" if number and column < naming else "" if number else "col",
                _classes(
                    *_of_text(plain(cell), is_number=table.right[column], is_head=not number),
                    "part" if column < naming and naming > 1 else "",
                ),
                read(cell),
            )
            for column, cell in enumerate(row)
        ]


def _of_text(text: str, *, is_number: bool, is_head: bool) -> Iterator[str]:
    yield "number" if is_number else ""
    if not is_number and not is_head:  # a name is kept on one line, and a sentence is not broken at every word
        yield "name" if len(text) <= NAME else "sentence" if len(text) > SENTENCE else ""
    yield "phrase" if is_head and len(text) > HEAD else ""
    yield "long" if max(map(len, text.split()), default=0) > NAME else ""


def _classes(*names: str) -> str:
    return " ".join(filter(None, names))


def _label(texts: Sequence[str]) -> str:
    """What names a row, as one; broken into lines, if at all, after a dot."""
    return "\u00a0· ".join(text for text in texts if text != NOTHING) or NOTHING
