"""HTML: a document as one page that loads nothing from anywhere. Tables can be sorted and filtered."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from vitbench.report.document import Block, Document, Figure, Forest, tone
from vitbench.report.figures.charts import OWN
from vitbench.report.formats import bars
from vitbench.report.formats.styles import Styles
from vitbench.report.formats.table_cells import cells
from vitbench.report.inline import Md, Span, printable, spans
from vitbench.report.text import slug

TEMPLATES = Path(__file__).parents[1] / "templates"
NO_BREAK = "\u00a0"
_BOUND = re.compile(
    r"(?<=\d) (?=%)|(?<=\d) (?=±)|(?<=\d ±) (?=\d)|(?<=\(×) (?=\w)|(?<=\bp) (?=\()|(?<=\bn) (?== \d)|(?<=\bn =) (?=\d)"
)
"""Spaces within a quantity: 3 %, 27.2 ± 1.2, (× baseline), p (Holm), n = 3."""

WIDTH = re.compile(r"<svg [^>]*max-width: (\d+px)")
"""Width of a picture."""


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
        named = element.replace(" ", f' {attribute}="{escape(figure.alt)}" ', 1)
        width = WIDTH.match(drawn)
        return Markup(named), width[1] if width else ""

    def anchor(self, title: str) -> str:
        """A name for links to a title, another one for each."""
        anchor = slug(title, "section", self.anchors)
        self.anchors.add(anchor)
        return anchor

    def name(self, above: Sequence[str]) -> str:
        """What distinguishes a table or a block of code from the others, to who has the page read out."""
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
    filters: dict[str, Callable[..., Any]] = {
        "anchor": made.anchor, "cells": cells, "element": made.element, "forest_bars": _forest_bars,
        "grouped": _grouped, "json": _json, "name": made.name, "printable": printable, "tone": tone,
        "typeset": _typeset,
    }  # fmt: skip
    environment.filters |= filters
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


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _typeset(text: Md) -> list[Span]:
    """A line taken apart, not broken within a quantity: between a number and what belongs to it."""
    line = spans(text)
    return [span if "code" in span.styles else span._replace(text=_BOUND.sub(NO_BREAK, span.text)) for span in line]
