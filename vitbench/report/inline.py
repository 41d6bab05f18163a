"""Lines of text, and cells of CSV, that show a name or a message as it is, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NewType, TextIO

import pandas as pd
from markdown_it import MarkdownIt

Md = NewType("Md", str)
"""A piece of Markdown: written here, or escaped. Plain text becomes one through :func:`escape` alone."""

NOTHING = Md("n/a")
"""What a table shows where a value does not exist. Where a trial gave none, it shows the state instead."""

_SPECIAL = re.compile(r"[\\`*\[\]|~]")
_LONE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = re.compile(r"^([-+=#]|\d+(?=[.)](\s|$)))")
_MARKED = re.compile(r"[\\`*_\[\]&<!~|]")
_PARSER = MarkdownIt("commonmark", {"html": False})
PART = 50_000
"""Rows of a CSV that are written at once: a million take a gigabyte beside their frame."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def printable(text: str) -> str:
    """Plain text on one line, without what steers a terminal or turns letters round."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def escape(text: object) -> Md:
    """Any text as Markdown that shows just this text, in a paragraph or a table cell: one line, no markup.

    An underscore between letters or digits stays as it is, so that names such as ``per_head`` can be read in
    the source; it cannot begin emphasis there. ``$`` becomes an entity, since some renderers set formulas.
    """
    line = printable(str(text))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _LONE_UNDERSCORE.sub(r"\\_", _SPECIAL.sub(r"\\\g<0>", line)).replace("$", "&#36;")
    return Md(_BLOCK_START.sub(lambda m: f"{m[0]}\\" if m[0].isdigit() else f"\\{m[0]}", line))


def bold(text: Md) -> Md:
    """Marked as the best of its column."""
    return Md(f"**{text}**")


def listed(items: Sequence[str], limit: int, more: str = "more") -> Md:
    """Plain names in a row, escaped; above the limit the number of the others in their place."""
    shown = ", ".join(escape(item) for item in items[:limit])
    return Md(f"{shown} and {len(items) - limit:,} {more}" if len(items) > limit else shown)


class Span(NamedTuple):
    """Letters of a line that look alike.

    Attributes:
        text: as a reader sees it.
        styles: "strong", "em", "code": HTML's names, the outer one first.
        link: where they lead; empty if nowhere.
    """

    text: str
    styles: tuple[str, ...] = ()
    link: str = ""


def spans(text: Md) -> list[Span]:
    """A line of Markdown taken apart."""
    if not _MARKED.search(text):
        return [Span(text)]
    found, styles, link = list[Span](), list[str](), ""
    for token in _PARSER.parseInline(text)[0].children or []:
        if token.type in ("strong_open", "em_open"):
            styles.append(token.tag)
        elif token.type in ("strong_close", "em_close"):
            styles.pop()
        elif token.type in ("link_open", "link_close"):
            link = str(token.attrGet("href") or "")
        elif token.content or token.type == "softbreak":
            code = ["code"] if token.type == "code_inline" else []
            found.append(Span(token.content or " ", (*styles, *code), link))
    return found


def plain(text: Md) -> str:
    """What a reader sees of a line, without its markup."""
    return "".join(span.text for span in spans(text))


def csv(frame: pd.DataFrame, stream: TextIO) -> None:
    """Write a frame as CSV that a spreadsheet opens without computing anything: numbers as they are, text as text.

    A ``'`` goes before text that begins with one of ``= + - @``, a tab or a carriage return (CWE-1236).
    """
    safe = frame.copy(deep=False)
    parts = [slice(start, start + PART) for start in range(0, len(frame) or 1, PART)]
    for place in range(safe.shape[1]):
        column = safe.iloc[:, place]
        if column.dtype.kind not in "biufc" and not all(_is_plain(column.iloc[part]) for part in parts):
            safe.isetitem(place, list(column.map(_as_text, na_action="ignore")))
    safe.columns = pd.Index([str(_as_text(name)) for name in safe.columns])
    for part in parts:
        safe.iloc[part].to_csv(stream, index=False, header=not part.start, lineterminator="\n", float_format="%.10g")


def _is_plain(column: pd.Series[Any]) -> bool:
    """Whether a column is of text that stands in a file as it is."""
    text = pd.api.types.infer_dtype(column, skipna=True) == "string"
    return text and all(_as_text(value) is value for value in column.dropna().unique())


def _as_text(value: object) -> object:
    """A cell of a column of text; a number among text stays a number."""
    if isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    guarded = f"'{text}" if text.startswith(_FORMULA) else text
    return guarded.replace("\r", " ")  # which some readers take for the end of the row
