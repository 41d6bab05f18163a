"""HTML: the report's text as one page that loads nothing from anywhere.

The text is Markdown that this package made, every name in it escaped; so the page says just what ``report.md`` says.
Raw HTML in it would be shown as text. Pictures stand in the page as shapes, tables can be sorted and filtered.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import jinja2
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from vitbench.report.figures.charts import OWN
from vitbench.report.files import TEMPLATES, Shown
from vitbench.report.pages import page_tables
from vitbench.report.pages.blocks import PARSER, Block, parse, plain
from vitbench.report.pages.styles import Styles

NO_BREAK = "\u00a0"
_BOUND = re.compile(
    r"(?<=\d) (?=%)|(?<=\d) (?=±)|(?<=\d ±) (?=\d)|(?<=\(×) (?=\w)|(?<=\bp) (?=\()|(?<=\bn) (?== \d)|(?<=\bn =) (?=\d)"
)
"""Spaces within a quantity: 3 %, 27.2 ± 1.2, (× baseline), p (Holm), n = 3."""

BESIDE = '<div class="beside">'
"""Begins pictures that stand side by side; quotes in a text are entities."""

WIDTH = re.compile(r"<svg [^>]*max-width: (\d+)px")
"""Width of a picture."""
NARROW = 440
"""Pixels of a picture, up to which two of them stand side by side."""
NARROW_FIGURE = '<figure style="flex-basis: '
"""Begins the element of one."""

Pictures = Mapping[str, Callable[[], Shown]]


@dataclass
class Section:
    """What stands under one heading of the second level; the first section has none.

    Attributes:
        anchor: by which the page's contents lead to it.
        title: plain text.
        body: HTML.
    """

    anchor: str = ""
    title: str = ""
    body: str = ""
    parts: list[tuple[str, str]] = field(default_factory=list)
    """Anchor and title of each heading of the third level."""
    is_deep: bool = False
    """Whether there are headings below those, so that it takes a list of its parts to find one's way."""


@dataclass
class _Reader:
    """Turns blocks into sections."""

    pictures: Pictures
    renderer: RendererHTML = field(default_factory=RendererHTML)
    title: str = ""
    sections: list[Section] = field(default_factory=lambda: [Section()])
    anchors: set[str] = field(default_factory=lambda: {"content"})
    above: tuple[str, ...] = ()
    """The headings under which the reader is."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Of pictures, for ids in them: these stand at every mark, and the picture's own name would be long."""
    styles: Styles = field(default_factory=Styles)
    names: Counter[str] = field(default_factory=Counter)
    """Name of what can be rolled sideways → how many have it so far."""

    def read(self, blocks: Sequence[Block]) -> None:
        captions = {i + 1 for i, block in enumerate(blocks[:-1]) if _picture(block) and _caption(blocks[i + 1])}
        beside = list[str]()
        for number, block in enumerate(blocks):
            if number in captions:
                continue  # said within the figure
            path = _picture(block)
            said = _caption(blocks[number + 1]) if number + 1 in captions else None
            figure = self.figure(path, said) if path else ""
            if figure.startswith(NARROW_FIGURE):
                beside.append(figure)
                continue
            self.hang(beside)
            if path:
                self.add(figure)
            elif block[0].type == "heading_open":
                self.head(block)
            elif block[0].type == "table_open":
                self.add(self.table(block))
            elif block[0].type == "fence":
                self.add(self.code(block))
            else:
                self.add(self.rendered(block))
        self.hang(beside)

    def hang(self, figures: list[str]) -> None:
        """Narrow pictures that follow one another stand side by side where there is room."""
        if figures:
            self.add(f"{BESIDE}\n{''.join(figures)}</div>\n" if len(figures) > 1 else figures[0])
            figures.clear()

    def add(self, html: str) -> None:
        self.sections[-1].body += html

    def rendered(self, tokens: Sequence[Token]) -> str:
        return str(self.renderer.render(list(tokens), PARSER.options, {}))

    def head(self, block: Sequence[Token]) -> None:
        heading, level = plain(block[1]), int(block[0].tag[1])
        self.above = (*self.above[: level - 1], heading)
        anchor = self.anchor(heading)
        if level == 1:
            self.title = heading
            return
        if level == 2:
            self.sections.append(Section(anchor, heading))
        elif level == 3:
            self.sections[-1].parts.append((anchor, heading))
        else:
            self.sections[-1].is_deep = True
        block[0].attrSet("id", anchor)
        self.add(self.rendered(block))

    def anchor(self, title: str) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        numbered = (f"{slug}-{n}" for n in itertools.count(2))
        anchor = next(a for a in itertools.chain([slug], numbered) if a not in self.anchors)
        self.anchors.add(anchor)
        return anchor

    def table(self, block: Sequence[Token]) -> str:
        return page_tables.rendered(block, self.name(), self.renderer)

    def code(self, block: Sequence[Token]) -> str:
        return f'<div class="code">{page_tables.scrolled(f"Code: {self.name()}", self.rendered(block))}</div>\n'

    def name(self) -> str:
        """What tells a table or a block of code from the others, to who has the page read out."""
        name = ", ".join(self.above[1:]) or self.title
        self.names[name] += 1
        return f"{name} ({self.names[name]})" if self.names[name] > 1 else name

    def figure(self, path: str, caption: Sequence[Token] | None) -> str:
        shown = self.pictures[path]()
        anchor = self.anchor(Path(path).stem)
        links = " · ".join(f'<a href="{escape(file)}">{kind}</a>' for kind, file in shown.files.items())
        said = f"<span>{self.rendered_inline(caption)}</span> " if caption else ""
        element = _named(self.styles.shared(shown.element.replace(OWN, f"p{next(self.numbers)}-")), shown.alt)
        width = WIDTH.match(shown.element)
        opened = f'{NARROW_FIGURE}{width[1]}px" ' if width and int(width[1]) <= NARROW else "<figure "
        box = page_tables.scrolled(f"Picture: {shown.alt}", element)
        return (
            f'{opened}id="{anchor}">{box}<figcaption>{said}<span class="files">{links}</span></figcaption></figure>\n'
        )

    def rendered_inline(self, tokens: Sequence[Token]) -> str:
        return str(self.renderer.renderInline(list(tokens), PARSER.options, {}))


def page(text: str, pictures: Pictures) -> str:
    """A report's text as a page.

    Args:
        text: Markdown, its first line a comment.
        pictures: path in the text → how the page shows it.
    """
    reader = _Reader(pictures)
    reader.read(_typeset(parse(text)))
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    opening, *sections = reader.sections
    return environment.get_template("page.html.j2").render(
        title=reader.title,
        opening=Markup(opening.body),
        sections=[
            (section.anchor, section.title, section.parts if section.is_deep else (), Markup(section.body))
            for section in sections
        ],
        style=Markup(_style(reader)),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _typeset(blocks: Sequence[Block]) -> Sequence[Block]:
    """The same blocks, whose lines are not broken within a quantity: between a number and what belongs to it."""
    for token in itertools.chain.from_iterable(blocks):
        for child in token.children or ():
            if child.type == "text":
                child.content = _BOUND.sub(NO_BREAK, child.content)
    return blocks


def _style(reader: _Reader) -> str:
    """The page's style, with the colours of its pictures, and with that of such as stand side by side, if any do."""
    bodies = [section.body for section in reader.sections]
    names = ("page", "beside")[: 1 + any(BESIDE in body for body in bodies)]
    written = "".join((TEMPLATES / f"{name}.css").read_text(encoding="utf-8") for name in names)
    return f"{written}{reader.styles.sheet()}"


def _picture(block: Sequence[Token]) -> str:
    """Path of the picture that is all of a paragraph; empty of any other block."""
    if len(block) == 3 and block[1].children and len(block[1].children) == 1:
        only = block[1].children[0]
        return str(only.attrGet("src")) if only.type == "image" else ""
    return ""


def _caption(block: Sequence[Token]) -> Sequence[Token] | None:
    """What a paragraph says that is emphasised as a whole; None of any other block."""
    inner = block[1].children if len(block) == 3 and block[0].type == "paragraph_open" else None
    if not inner or (inner[0].type, inner[-1].type) != ("em_open", "em_close"):
        return None
    return inner[1:-1] if all(token.level > 0 for token in inner[1:-1]) else None


def _named(element: str, alt: str) -> str:
    """A picture with its accessible name."""
    if element.startswith("<svg"):
        return element.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
    return element.replace("<img", f'<img alt="{escape(alt)}"', 1)
