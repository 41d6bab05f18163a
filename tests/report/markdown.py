"""Reads a rendered page with a CommonMark parser: what a reader of it would see."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from markdown_it import MarkdownIt
from markdown_it.token import Token

from vitbench.report import output
from vitbench.report.document import Block, Document, Table
from vitbench.report.formats import markdown
from vitbench.report.text import plain


@dataclass(frozen=True)
class Shown:
    """A table of a document as its reader sees it: the headings over it, heads, cells."""

    above: tuple[str, ...]
    table: Table

    @property
    def columns(self) -> list[str]:
        return list(self.table.columns)

    @property
    def rows(self) -> list[list[str]]:
        return [[plain(cell) for cell in row] for row in self.table.rows]


def written(*blocks: Block) -> str:
    """Some blocks as Markdown."""
    return markdown.text(Document("title", blocks, [])).partition("# title\n\n")[2].rstrip("\n")


def tables(document: Document) -> list[Shown]:
    return [Shown(*each) for each in document.tables()]


HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a|b|c", "back\\slash `code`", "$x$ and $y$",
    "$\\frac$ and $_$",  # wrong as a formula
    "**bold** _em_ ~~gone~~", "[link](javascript:alert(1))", "![picture](https://example.org/x.png)",
    "=cmd|' /C calc'!A0", "+1", "-rf", "@SUM(A1)", "1. one", "# heading", "&lt;b&gt;", "{{7*7}} {% raw %}",
    "\N{SNOWMAN} \N{PILE OF POO} 漢字", "x" * 80, "x" * 79 + "y",
]  # fmt: skip
KNOWN = {"text", "softbreak", "strong_open", "strong_close", "em_open", "em_close", "link_open", "link_close",
         "image", "code_inline"}  # fmt: skip


@dataclass
class Page:
    """A report as its reader sees it."""

    folder: Path
    text: str = ""
    headings: list[str] = field(default_factory=list)
    tables: list[tuple[list[str], list[dict[str, str]]]] = field(default_factory=list)
    """(headings above it, rows) of each table; a row is column → cell."""
    links: set[str] = field(default_factory=set)
    pictures: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    strange: set[str] = field(default_factory=set)  # Kinds of inline markup that a report never uses

    def table(self, column: str, section: str = "") -> list[dict[str, str]]:
        """Rows of the first table with a column, in the first section of that name where one is given."""
        return next(
            rows for above, rows in self.tables if rows and column in rows[0] and (not section or section in above)
        )

    def effects(self, section: str = "") -> list[dict[str, str]]:
        """Rows of the tables of main effects; of one subsection if given."""
        return [
            row
            for above, rows in self.tables
            if rows
            and {"axis", "against", "difference (points)"} <= rows[0].keys()
            and (not section or section in above)
            for row in rows
        ]

    def csv(self, name: str) -> list[dict[str, str]]:
        with (self.folder / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))

    def formulas(self) -> list[str]:
        """Cells of its CSV files, all rows of which are as long, that a spreadsheet would compute."""
        cells: list[str] = []
        for file in (self.folder / "tables").glob("*.csv"):
            with file.open(newline="", encoding="utf-8") as stream:
                rows = list(csv.reader(stream))
            assert len({len(row) for row in rows}) == 1, file
            cells += [cell for row in rows for cell in row]
        assert cells
        return [cell for cell in cells if re.match(r"[=+@\t\r]|-(?!\d+(\.\d+)?(e[-+]?\d+)?$)", cell)]


Archetypes = Callable[[str], Page]  # Name of an archetype → its report


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as a report's CSV file holds it."""
    output.csv(frame, stream := io.StringIO(newline=""))
    return stream.getvalue()


def read_page(folder: Path) -> Page:
    page = Page(folder)
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = parser.parse((folder / "report.md").read_text(encoding="utf-8"))
    above: list[str] = []
    rows: list[list[str]] = []
    for before, token in zip([tokens[0], *tokens], tokens, strict=False):
        if token.type == "html_block":
            page.html.append(token.content.strip())
        elif token.type in ("fence", "code_block"):
            page.code.append(token.content.strip())
        elif token.type == "inline":
            text = _text(token, page)
            page.text += text + "\n"
            if before.type == "heading_open":
                level = int(before.tag[1])
                above = [*above[: level - 1], text] if len(above) >= level - 1 else [*above, text]
                page.headings.append(text)
            elif before.type in ("th_open", "td_open"):
                rows[-1].append(text)
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "table_open":
            rows = []
        elif token.type == "table_close":
            header, *body = rows
            assert all(len(row) == len(header) for row in body)
            assert "" not in [cell for row in body for cell in row], header
            page.tables.append((list(above), [dict(zip(header, row, strict=True)) for row in body]))
    return page


def _text(token: Token, page: Page) -> str:
    text = ""
    for child in token.children or []:
        if child.type == "image":
            page.pictures.append(str(child.attrs["src"]))
        elif child.type == "link_open":
            page.links.add(str(child.attrs["href"]))
        elif child.type == "html_inline":
            page.html.append(child.content)
        elif child.type not in KNOWN:
            page.strange.add(child.type)
        text += child.content if child.type in ("text", "code_inline") else " " if child.type == "softbreak" else ""
    return text
