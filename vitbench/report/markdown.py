"""Text that is safe to set into Markdown and CSV, whatever a name or a message holds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence, Set
from csv import writer
from dataclasses import dataclass
from typing import Any, NewType

import numpy as np
import pandas as pd
from tabulate import tabulate

Md = NewType("Md", str)
"""A piece of Markdown: written here, or escaped. Plain text becomes one through :func:`escape` alone."""

NOTHING = Md("n/a")
"""What a table shows where a value does not exist. Where a trial gave none, it shows the state instead."""

_SPECIAL = re.compile(r"[\\`*\[\]|~]")
_LONE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = re.compile(r"^([-+=#]|\d+(?=[.)](\s|$)))")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape(text: object) -> Md:
    """Any text as Markdown that shows just this text, in a paragraph or a table cell: one line, no markup.

    An underscore between letters or digits stays as it is, so that names such as ``per_head`` can be read in
    the source; it cannot begin emphasis there. ``$`` becomes an entity, since some renderers set formulas.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _LONE_UNDERSCORE.sub(r"\\_", _SPECIAL.sub(r"\\\g<0>", line)).replace("$", "&#36;")
    return Md(_BLOCK_START.sub(lambda m: f"{m[0]}\\" if m[0].isdigit() else f"\\{m[0]}", line))


def bold(text: Md) -> Md:
    """Marked as the best of its column."""
    return Md(f"**{text}**")


def fenced(text: str, language: str = "") -> Md:
    """A block of code that holds just this text: its fence is longer than any run of backticks inside."""
    safe = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    longest = max((len(run) for run in re.findall(r"`+", safe)), default=0)
    fence = "`" * max(3, longest + 1)
    return Md(f"{fence}{language}\n{safe}\n{fence}")


def listed(items: Sequence[str], limit: int, more: str = "more") -> Md:
    """Plain names in a row, escaped; above the limit the number of the others in their place."""
    shown = ", ".join(escape(item) for item in items[:limit])
    return Md(f"{shown} and {len(items) - limit:,} {more}" if len(items) > limit else shown)


def table(rows: Sequence[dict[str, Md]], right: Set[str]) -> Md:
    """A Markdown table, its columns in the order of the first row that has them.

    Args:
        rows: column → cell. A row without a column shows :data:`NOTHING` there.
        right: columns aligned to the right.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name, NOTHING) for name in columns] for row in rows]
    align = ["right" if name in right else "left" for name in columns]
    headers = [escape(name) for name in columns]
    return Md(tabulate(cells, headers=headers, tablefmt="pipe", colalign=align, disable_numparse=True))


def bullets(items: Iterable[Md]) -> Md:
    """A list, an item a line."""
    return Md("\n".join(f"- {item}" for item in items))


def csv(frame: pd.DataFrame) -> str:
    """A frame as CSV that a spreadsheet opens without computing anything: numbers as they are, text as text.

    A ``'`` goes before text that begins with one of ``= + - @``, a tab or a carriage return (CWE-1236).
    """
    # Each distinct value of a column is written once: a hundred thousand rows have few.
    columns = [_cells(frame.iloc[:, position]) for position in range(frame.shape[1])]
    names = _quoted([str(_as_text(name)) for name in frame.columns])
    lines = [",".join(names), *map(",".join, zip(*columns, strict=True))]
    if len(columns) == 1:
        lines = [line or '""' for line in lines]  # a reader would take an empty line for no row
    return "\n".join([*lines, ""])


def _cells(column: pd.Series[Any]) -> list[str]:
    """A column as it stands in the file; what is missing is empty."""
    if not _is_of_one_type(column):
        # Numbers among text stay numbers, and nothing but numbers is a column of them.
        column = pd.Series(list(column.map(_as_text, na_action="ignore")))
    if not _is_of_one_type(column):
        # Not by distinct values, among which True and 1 are one.
        return _quoted([str(value) for value in column.astype(object).where(column.notna(), "")])
    if column.dtype.kind == "f":
        # By their bits: a negative zero is not zero.
        codes, bits = pd.factorize(column.to_numpy(np.float64, na_value=math.nan).view(np.int64))
        texts = ["" if math.isnan(x) else f"{x:.10g}" for x in bits.view(np.float64).tolist()]
    else:
        codes, distinct = pd.factorize(column)
        texts = [str(x) for x in distinct] if _is_numeric(column) else _quoted([str(_as_text(x)) for x in distinct])
    # What is missing has the code -1: the last of the texts.
    return list(np.array([*texts, ""], dtype=object)[codes])


def _is_numeric(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def _is_of_one_type(column: pd.Series[Any]) -> bool:
    return _is_numeric(column) or pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")


def _quoted(texts: Iterable[str]) -> list[str]:
    """Each text as a cell, in quotes where it needs them, as the standard library's writer judges."""
    lines: list[str] = []
    writer(_Lines(lines.append), lineterminator="\n").writerows((text, "") for text in texts)
    return [line[:-2] for line in lines]  # less the second cell: a line of one empty cell is written otherwise


@dataclass(frozen=True)
class _Lines:
    """Where a writer of CSV leaves its lines."""

    write: Callable[[str], object]


def _as_text(value: object) -> object:
    """A cell of a column of text; a number among text stays a number."""
    if isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    guarded = f"'{text}" if text.startswith(_FORMULA) else text
    return guarded.replace("\r", " ")  # which some readers take for the end of the row


def heading(text: str, level: int = 3) -> Md:
    """A heading."""
    return Md(f"{'#' * level} {escape(text)}")
