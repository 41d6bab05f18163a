"""HTML: a document as one page that loads nothing from anywhere. Tables can be sorted and filtered."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

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
    tone,
)
from vitbench.report.figures.charts import OWN
from vitbench.report.formats import bars
from vitbench.report.formats.styles import Styles
from vitbench.report.formats.table_cells import cells
from vitbench.report.inline import Span, plain, spans
from vitbench.report.inline import escape as in_line

TEMPLATES = Path(__file__).parents[1] / "templates"
NO_BREAK = "\u00a0"
_BOUND = re.compile(
    r"(?<=\d) (?=%)|(?<=\d) (?=±)|(?<=\d ±) (?=\d)|(?<=\(×) (?=\w)|(?<=\bp) (?=\()|(?<=\bn) (?== \d)|(?<=\bn =) (?=\d)"
)
"""Spaces within a quantity: 3 %, 27.2 ± 1.2, (× baseline), p (Holm), n = 3."""

FILTERED, NARROW = 11, 10
"""Rows above which a table can be filtered: fewer are seen at once; columns up to which it fits on paper in letters of
the usual size."""
WIDTH = re.compile(r"<svg [^>]*max-width: (\d+)px")
"""Width of a picture."""
TONED = frozenset({"verdict", "outcome"})
"""Heads of columns whose words are coloured."""
SLIM = 440
"""Pixels of a picture, up to which two of them stand side by side."""


@dataclass(frozen=True)
class PagePicture:
    """A picture as it stands in a page.

    Attributes:
        element: HTML, without an accessible name; ids in it begin with :data:`vitbench.report.figures.charts.OWN`.
        alt: that name; plain text.
        files: its kinds as files, such as PNG → path.
    """

    element: str
    alt: str
    files: Mapping[str, str]


Pictures = Mapping[str, Callable[[], PagePicture]]
Part = dict[str, Any]
"""What the template renders: ``kind`` names its macro."""


@dataclass
class _Section:
    """What stands under one title.

    Attributes:
        anchor: by which the page's contents lead to it.
        title: plain text.
        parts: what the template renders.
        folded: whether its title alone is seen until a reader opens it.
    """

    anchor: str
    title: str
    parts: list[Part] = field(default_factory=list)
    folded: bool = False


class _Page:
    """A page in the making: what stands on it once, and is counted."""

    def __init__(self, title: str, pictures: Pictures) -> None:
        self.pictures, self.styles = pictures, Styles()
        self.above: tuple[str, ...] = (title,)
        self.anchors = {"content"}
        self.numbers: Iterator[int] = itertools.count()
        self.names = Counter[str]()

    def section(self, title: str, blocks: Sequence[Block], *, folded: bool = False) -> _Section:
        self.above = (self.above[0], *([title] if title else []))
        found = _Section(self.anchor(title) if title else "", title, folded=folded)
        for block in blocks:
            part = self.part(block)
            if part.get("beside") and found.parts and found.parts[-1]["kind"] == "beside":
                found.parts[-1]["figures"].append(part)
            else:
                # Narrow pictures that follow one another stand side by side where there is room.
                found.parts.append({"kind": "beside", "figures": [part]} if part.get("beside") else part)
        return found

    def part(self, block: Block) -> Part:
        match block:
            case Heading():
                self.above = (*self.above[: block.level - 1], block.text)
                return {"kind": "heading", "level": block.level, "text": block.text, "anchor": self.anchor(block.text)}
            case Code():
                return {"kind": "code", "name": self.name(), "text": block.text, "language": block.language}
            case Figure():
                return self.figure(block)
            case Table() | Forest():
                return self.table(block) if isinstance(block, Table) else self.forest(block)
            case Chips():
                items = [(tone(word), word, _typeset(spans(text))) for word, text in block.items]
                return {"kind": "chips", "chips": items}
        lines = (
            block.items if isinstance(block, Bullets) else [block.text if isinstance(block, (Note, Byline)) else block]
        )
        kind = {Bullets: "bullets", Note: "note", Byline: "byline"}.get(type(block), "paragraph")
        return {"kind": kind, "lines": [_typeset(spans(line)) for line in lines]}

    def table(self, block: Table) -> Part:
        head, *body = cells(block, lambda text: _typeset(spans(text)))
        name = self.name()
        filtered = name if len(block.rows) > FILTERED else ""
        drawn = {
            (row, column): bars.bar(each, axis, bars.FLAT)
            for column, (of_rows, scale) in block.bars.items()
            for axis in [bars.Axis(of_rows, scale)]
            for row, each in enumerate(of_rows)
            if each is not None
        }
        wide = len(block.columns) - len(block.optional) > NARROW
        shades = {at: f"{100 * abs(share):.0f}%" for at, share in block.shades.items()}
        toned = {
            (row, column): tone(plain(cell))
            for row, cells_of_row in enumerate(block.rows)
            for column, cell in enumerate(cells_of_row)
            if block.columns[column] in TONED
        }
        return {"kind": "table", "name": name, "wide": wide, "filtered": filtered, "head": head, "body": body,
                "bars": drawn, "shades": shades, "positive": {at for at, share in block.shades.items() if share > 0},
                "tones": toned, "caption": _typeset(spans(block.caption)),
                "joined": len(head) - len(block.columns),
                "cells": [json.dumps(cells, ensure_ascii=False) for cells in block.cells],
                "optional": [n for n, name in enumerate(block.columns) if name in block.optional]}  # fmt: skip

    def forest(self, block: Forest) -> Part:
        axis = bars.Axis([row.bar for row in block.rows], block.scale)
        rows = [
            {"name": _printable(row.name), "context": _printable(row.context), "bar": bars.bar(row.bar, axis),
             "number": row.number[0], "span": row.number[1], "verdict": row.verdict, "tone": tone(row.verdict),
             "detail": _printable(row.detail)}
            for row in block.rows
        ]  # fmt: skip
        return {"kind": "forest", "title": block.title, "rows": rows, "axis": bars.numbers(axis), "files": block.files,
                "note": block.note}  # fmt: skip

    def figure(self, block: Figure) -> Part:
        shown = self.pictures[block.path]()
        element = self.styles.shared(shown.element.replace(OWN, f"p{next(self.numbers)}-"))
        found = WIDTH.match(shown.element)
        width = found[1] if found and int(found[1]) <= SLIM else ""
        return {
            "kind": "figure", "anchor": self.anchor(Path(block.path).stem), "alt": shown.alt,
            "element": Markup(_named(element, shown.alt)), "beside": width,
            "caption": _typeset(spans(block.caption)),
            "files": shown.files,
        }  # fmt: skip

    def anchor(self, title: str) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        numbered = (f"{slug}-{n}" for n in itertools.count(2))
        anchor = next(a for a in itertools.chain([slug], numbered) if a not in self.anchors)
        self.anchors.add(anchor)
        return anchor

    def name(self) -> str:
        """What tells a table or a block of code from the others, to who has the page read out."""
        name = ", ".join(self.above[1:]) or self.above[0]
        self.names[name] += 1
        return f"{name} ({self.names[name]})" if self.names[name] > 1 else name


def page(document: Document, pictures: Pictures) -> str:
    """A document as a page.

    Args:
        document: the report.
        pictures: path of a figure → how the page shows it.
    """
    made = _Page(document.title, pictures)
    opening = made.section("", document.opening)
    sections = [made.section(each.title, each.blocks, folded=each.folded) for each in document.sections]
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template("page.html.j2").render(
        title=document.title,
        opening=opening,
        sections=sections,
        style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8") + made.styles.sheet()),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _typeset(line: Sequence[Span]) -> list[Span]:
    """The same line, not broken within a quantity: between a number and what belongs to it."""
    return [span if "code" in span.styles else span._replace(text=_BOUND.sub(NO_BREAK, span.text)) for span in line]


def _printable(text: str) -> str:
    """Plain text on one line, without what steers a terminal or turns letters round."""
    return plain(in_line(text))


def _named(element: str, alt: str) -> str:
    """A picture with its accessible name."""
    name = escape(alt)
    if element.startswith("<svg"):
        return element.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    return element.replace("<img", f'<img alt="{name}"', 1)
