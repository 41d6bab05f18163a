"""Markdown: a document as text that forges and editors show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import singledispatch

from tabulate import tabulate

from vitbench.report.document import (
    Block,
    Bullets,
    Byline,
    Chips,
    Code,
    Document,
    Figure,
    Forest,
    Heading,
    Note,
    Table,
)
from vitbench.report.inline import escape

MARK = "<!-- Rendered by vitbench from the study's records; rendered again it is overwritten. -->"
"""First line of every report: by it a later rendering knows that a folder's figures and tables are its own."""


def text(document: Document) -> str:
    """A document as Markdown."""
    return "\n\n".join(_parts(document)).rstrip() + "\n"


def _parts(document: Document) -> Iterator[str]:
    yield MARK
    yield f"# {escape(document.title)}"
    yield from map(_written, document.opening)
    for section in document.sections:
        yield f"## {escape(section.title)}"
        yield from map(_written, section.blocks)


@singledispatch
def _written(block: Block) -> str:
    return str(block)


@_written.register
def _(block: Heading) -> str:
    return f"{'#' * block.level} {escape(block.text)}"


@_written.register
def _(block: Bullets) -> str:
    return "\n".join(f"- {item}" for item in block.items)


@_written.register
def _(block: Note) -> str:
    return f"> {block.text}"


@_written.register
def _(block: Byline) -> str:
    return f"*{block.text}*"


@_written.register
def _(block: Chips) -> str:
    return "\n".join(f"- **{escape(word)}**: {text}" for word, text in block.items)


@_written.register
def _(block: Forest) -> str:
    links = " · ".join(f"[{kind}]({path})" for kind, path in block.files.items())
    return "\n\n".join(filter(None, (_written(block.table), links)))


@_written.register
def _(block: Code) -> str:
    """A block that holds just this text: its fence is longer than any run of backticks inside."""
    safe = "".join(c if c.isprintable() or c == "\n" else " " for c in block.text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", safe)), default=0))
    return f"{fence}{block.language}\n{safe}\n{fence}"


@_written.register
def _(block: Figure) -> str:
    picture = f"![{escape(block.alt)}]({block.path})"
    return f"{picture}\n\n*{block.caption}*" if block.caption else picture


@_written.register
def _(block: Table) -> str:
    align = ["right" if right else "left" for right in block.right]
    heads = [escape(column) for column in block.columns]
    made = str(tabulate(block.rows, headers=heads, tablefmt="pipe", colalign=align, disable_numparse=True))
    return f"{block.caption}\n\n{made}" if block.caption else made
