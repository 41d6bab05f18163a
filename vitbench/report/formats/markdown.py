"""Markdown: a document as text that forges and editors show."""

import re

from tabulate import tabulate

from vitbench.report import document
from vitbench.report.text import escape

MARK = "<!-- Rendered by vitbench from the study's records; rendered again it is overwritten. -->"
"""First line of every report: by it a later rendering knows that a folder's figures and tables are its own."""


def text(document: document.Document) -> str:
    """A document as Markdown."""
    parts = [MARK, f"# {escape(document.title)}", *map(_written, document.opening)]
    for section in document.sections:
        parts += [f"## {escape(section.title)}", *map(_written, section.blocks)]
    return "\n\n".join(parts).rstrip() + "\n"


def _written(block: document.Block) -> str:
    match block:
        case document.Heading(title, level):
            made = f"{'#' * level} {escape(title)}"
        case document.Bullets(items):
            made = "\n".join(f"- {item}" for item in items)
        case document.Note(line):
            made = f"> {line}"
        case document.Byline(line):
            made = f"*{line}*"
        case document.Chips(items):
            made = "\n".join(f"- **{escape(word)}**: {line}" for word, line in items)
        case document.Forest():
            links = " · ".join(f"[{kind}]({path})" for kind, path in block.files.items())
            made = "\n\n".join(filter(None, (_written(block.table), links)))
        case document.Code(lines):  # its fence is longer than any run of backticks inside
            safe = "".join(c if c.isprintable() or c == "\n" else " " for c in lines)
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", safe)), default=0))
            made = f"{fence}sh\n{safe}\n{fence}"
        case document.Figure():
            made = f"![{escape(block.alt)}]({block.path})" + (f"\n\n*{block.caption}*" if block.caption else "")
        case document.Table():
            align = ["right" if right else "left" for right in block.right]
            heads = [escape(column) for column in block.columns]
            rows = tabulate(block.rows, headers=heads, tablefmt="pipe", colalign=align, disable_numparse=True)
            made = f"{block.caption}\n\n{rows}" if block.caption else str(rows)
        case _:
            made = block
    return made
