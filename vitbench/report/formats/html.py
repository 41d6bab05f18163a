"""HTML: a document as one page that loads nothing from anywhere. Tables can be sorted and filtered."""

import base64
import functools
import hashlib
import html
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from vitbench.report.document import Block, Document, Figure, Forest, Table, tone
from vitbench.report.figures.charts import OWN
from vitbench.report.figures.colours import Styles
from vitbench.report.formats import bars
from vitbench.report.text import NOTHING, Md, Span, escape, plain, printable, slug, spans

NAME, SENTENCE = 24, 36
"""Characters up to which a cell is not broken into lines, and from which it has room for several words in one."""
SHORT = 20  # Characters up to which what names a row is not broken into lines on a phone, either
HEAD = 12
"""Characters of a head from which its column is as wide as two or three words, so that it does not become a tower."""
TONED = frozenset({"verdict", "outcome"})  # Heads of columns whose words are coloured


class TableCell(NamedTuple):
    """A cell."""

    scope: str  # whether it is a header of its row, of its column, or of neither
    classes: str  # in the style
    text: Md  # what stands in it
    bar: Markup | str = ""  # a drawing below that; empty for none
    shade: str = ""  # how strong the colour behind it is; empty for none


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
    """The names of a row as one label; lines break only after a dot."""
    return Md("\u00a0· ".join(name for name in names if name != NOTHING) or NOTHING)


TEMPLATES = Path(__file__).parents[1] / "templates"
NO_BREAK = "\u00a0"
_BOUND = re.compile(
    r"(?<=\d) (?=%)|(?<=\d) (?=±)|(?<=\d ±) (?=\d)|(?<=\(×) (?=\w)|(?<=\bp) (?=\()|(?<=\bn) (?== \d)|(?<=\bn =) (?=\d)"
)
"""Spaces within a quantity: 3 %, 27.2 ± 1.2, (× baseline), p (Holm), n = 3."""

WIDTH = re.compile(r"<svg [^>]*max-width: (\d+px)")  # Width of a picture


class _Page:
    """A page in the making: what stands on it once, and is counted."""

    def __init__(self) -> None:
        self.styles, self.anchors, self.names = Styles(), {"content"}, Counter[str]()
        self.numbers: Iterator[int] = itertools.count()

    def element(self, figure: Figure) -> tuple[Markup, str]:
        """A picture with its accessible name, and its width where that is known."""
        drawn = figure.element()
        element = self.styles.shared(drawn.replace(OWN, f"p{next(self.numbers)}-"))
        attribute = "alt" if element.startswith("<img") else 'role="img" aria-label'
        named = element.replace(" ", f' {attribute}="{html.escape(figure.alt)}" ', 1)
        width = WIDTH.match(drawn)
        return Markup(named), width[1] if width else ""

    def anchor(self, title: str) -> str:
        """A name for links to a title, another one for each."""
        anchor = slug(title, "section", self.anchors)
        self.anchors.add(anchor)
        return anchor

    def name(self, above: Sequence[str]) -> str:
        """A name for a table or a block of code, another one for each, for who has the page read out."""
        name = ", ".join(above)
        self.names[name] += 1
        return f"{name} ({self.names[name]})" if self.names[name] > 1 else name


def page(document: Document) -> str:
    """A document as a page."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made = _Page()
    environment.filters |= {
        "anchor": made.anchor, "cells": cells, "element": made.element, "forest_bars": _forest_bars,
        "grouped": _grouped, "json": functools.partial(json.dumps, ensure_ascii=False), "name": made.name,
        "printable": printable, "tone": tone, "typeset": _typeset,
    }  # fmt: skip
    return environment.get_template("page.html.j2").render(
        document=document,
        styles=made.styles,
        style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _grouped(blocks: Sequence[Block]) -> Iterator[tuple[str, list[Block]]]:
    """Blocks by the name of their kind; figures that follow one another stand side by side where there is room."""
    for kind, some in itertools.groupby(blocks, lambda block: type(block).__name__):
        group = [*some]
        yield from [(kind, group)] if kind == "Figure" else [(kind, [block]) for block in group]


def _forest_bars(forest: Forest) -> tuple[Markup, list[Markup]]:
    """The numbers along the axis of a forest plot, and the bar of each row."""
    axis = bars.Axis([row.bar for row in forest.rows], forest.scale)
    return bars.numbers(axis), [bars.bar(row.bar, axis) for row in forest.rows]


def _typeset(text: Md) -> list[Span]:
    """A line taken apart, not broken within a quantity: between a number and what belongs to it."""
    line = spans(text)
    return [span if "code" in span.styles else span._replace(text=_BOUND.sub(NO_BREAK, span.text)) for span in line]
