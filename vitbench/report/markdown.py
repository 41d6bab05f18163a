"""Text that is safe to set into Markdown and CSV, whatever a name or a message holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import NewType

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


def csv(frame: pd.DataFrame, file: Path | None = None) -> str | None:
    """A frame as CSV that a spreadsheet opens without computing anything: numbers as they are, text as text.

    A ``'`` goes before text that begins with one of ``= + - @``, a tab or a carriage return (CWE-1236).

    Args:
        frame: the rows.
        file: where to write it; else the text is returned.
    """
    safe = frame.copy()  # no copy of what stays: pandas copies on write
    for place in range(safe.shape[1]):
        if safe.iloc[:, place].dtype.kind not in "biufc":
            safe.isetitem(place, list(safe.iloc[:, place].map(_as_text, na_action="ignore")))
    safe.columns = pd.Index([str(_as_text(name)) for name in safe.columns])
    text: str | None = safe.to_csv(file, index=False, lineterminator="\n", float_format="%.10g", errors="replace")
    return text


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
