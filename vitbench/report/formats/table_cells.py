"""Cells of a page's table: what a browser needs to show them well on any width, and to read them out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from vitbench.report.document import Table, tone
from vitbench.report.formats import bars
from vitbench.report.inline import NOTHING, Md, escape, plain

NAME, SENTENCE = 24, 36
"""Characters up to which a cell is not broken into lines, and from which it has room for several words in one."""
SHORT = 20
"""Characters up to which what names a row is not broken into lines on a phone, either."""
HEAD = 12
"""Characters of a head from which its column is as wide as two or three words, so that it does not become a tower."""
TONED = frozenset({"verdict", "outcome"})
"""Heads of columns whose words are coloured."""


class TableCell(NamedTuple):
    """A cell.

    Attributes:
        scope: whether it is a header of its row, of its column, or of neither.
        classes: in the style.
        text: what stands in it.
        bar: a drawing below that; empty for none.
        shade: how strong the colour behind it is; empty for none.
    """

    scope: str
    classes: str
    text: Md
    bar: Markup | str = ""
    shade: str = ""


def cells(table: Table) -> Iterator[list[TableCell]]:
    """The rows of a table, the heads first.

    What names a row is its header, for who has it read out. Where it takes several columns to name one, a column that
    joins them stands before them; the style shows the one or the others, as far as there is room.
    """
    naming = 0 if table.right[0] else table.telling
    heads = tuple(map(escape, table.columns))
    rows = [_label(row[: table.telling]) for row in table.rows]
    joined = itertools.repeat(Md("")) if table.telling < 2 else [_label(heads[: table.telling]), *rows]
    longest = max((len(plain(label)) for label in rows), default=0)
    wide = any(len(word) > NAME for label in rows for word in plain(label).split())
    kind = _classes({"joined": True, "name": longest <= SHORT, "sentence": longest > SHORT, "long": wide})
    drawn = {
        (number, column): bars.bar(each, axis, bars.FLAT)
        for column, (of_rows, scale) in table.bars.items()
        for axis in [bars.Axis(of_rows, scale)]
        for number, each in enumerate(of_rows)
        if each is not None
    }
    for number, (row, label) in enumerate(zip([heads, *table.rows], joined, strict=False)):
        made = [TableCell("row" if number else "col", kind, label)] if label else []
        for column, cell in enumerate(row):
            name, text, at = table.columns[column], plain(cell), (number - 1, column)
            share = table.shades.get(at, 0.0)
            words, names_row = [len(word) for word in text.split()], column < naming
            looks = {
                "number": table.right[column],
                # A name is kept on one line, and a sentence is not broken at every word.
                "name": number and not table.right[column] and len(text) <= NAME,
                "sentence": number and not table.right[column] and len(text) > SENTENCE,
                "phrase": not number and len(text) > HEAD,
                "long": max(words, default=0) > NAME,
                "part": names_row and naming > 1,
                f"{tone(text)} tone": number and name in TONED,
                "shaded": at in table.shades,
                "above": share > 0,
                "optional": name in table.optional,
            }
            made.append(TableCell(
                ("row" if names_row else "") if number else "col", _classes(looks), cell,
                drawn.get(at, ""),
                f"{100 * abs(share):.0f}%" if at in table.shades else "",
            ))  # fmt: skip
        yield made


def _classes(looks: Mapping[str, object]) -> str:
    return " ".join(name.strip() for name, holds in looks.items() if holds)


def _label(names: Sequence[Md]) -> Md:
    """What names a row, as one; broken into lines, if at all, after a dot."""
    return Md("\u00a0· ".join(name for name in names if name != NOTHING) or NOTHING)
