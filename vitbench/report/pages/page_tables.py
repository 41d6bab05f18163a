"""Tables of a page: Markdown's, with what a browser needs to show them well on any width, and to read them out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from vitbench.report.markdown import NOTHING
from vitbench.report.pages.blocks import PARSER, Block, Cell, Table, plain, table

FILTERED = 11
"""Rows above which a table can be filtered: fewer are seen at once."""
NARROW = 10
"""Columns up to which a table fits on paper in letters of the usual size."""
NAME, SENTENCE = 24, 36
"""Characters up to which a cell is not broken into lines, and from which it has room for several words in one."""
SHORT = 20
"""Characters up to which what names a row is not broken into lines on a phone, either."""
HEAD = 12
"""Characters of a head from which its column is as wide as two or three words, so that it does not become a tower."""


def rendered(block: Block, name: str, renderer: RendererHTML) -> str:
    """A block that is a table, in a box that is rolled sideways where it is too wide.

    What names a row is its header, for who has it read out. Where it takes several columns to name one, a column that
    joins them stands before them; the style shows the one or the others, as far as there is room.

    Args:
        block: the table.
        name: that says which one it is, plain text.
        renderer: of its tokens.
    """
    found = table(block, ())
    tokens = _marked(block, found)
    if found.telling > 1:
        tokens = _joined(tokens, found)
    wide = " wide" if len(found.columns) > NARROW else ""
    filtered = f' data-filtered="{escape(name)}"' if len(found.rows) > FILTERED else ""
    inner = renderer.render(tokens, PARSER.options, {})
    return f'<div class="table{wide}"{filtered}>{scrolled(f"Table: {name}", inner)}</div>\n'


def scrolled(name: str, inner: str) -> str:
    """A box that is rolled sideways where what it holds is too wide.

    The keyboard reaches it, to roll it; where nothing is to be rolled the page's script lets the keyboard pass it by.
    """
    return f'<div class="scroll" role="group" tabindex="0" aria-label="{escape(name)}">{inner}</div>'


def _marked(block: Block, found: Table) -> list[Token]:
    """The tokens of a table with classes for its cells; those that name a row are its headers."""
    tokens = list(block)
    naming = 0 if found.right[0] else found.telling
    column = 0
    for token, inside in itertools.pairwise(tokens):
        if token.type == "tr_open":
            column = 0
        elif token.type in ("th_open", "td_open"):
            token.attrs = _attributes(plain(inside), is_number=found.right[column], is_head=token.type == "th_open")
            if column < naming:
                _add(token, "part" if naming > 1 else "")
                if token.type == "td_open":
                    token.tag, token.attrs["scope"] = "th", "row"
            column += 1
        elif token.type == "td_close" and column <= naming:
            token.tag = "th"
    return tokens


def _attributes(text: str, *, is_number: bool, is_head: bool) -> dict[str, str | int | float]:
    longest = max(map(len, text.split()), default=0)
    classes = [
        "number" if is_number else "",
        "" if is_number or is_head else _of_width(text),
        "phrase" if is_head and len(text) > HEAD else "",
        "long" if longest > NAME else "",
    ]
    found: dict[str, str | int | float] = {"scope": "col"} if is_head else {}
    return found | ({"class": " ".join(filter(None, classes))} if any(classes) else {})


def _of_width(text: str) -> str:
    """The class of a cell of words: a name is kept on one line, and a sentence is not broken at every word."""
    return "name" if len(text) <= NAME else "sentence" if len(text) > SENTENCE else ""


def _add(token: Token, name: str) -> None:
    if name:
        token.attrs["class"] = f"{token.attrs.get('class', '')} {name}".strip()


def _joined(tokens: Sequence[Token], found: Table) -> list[Token]:
    """The same with a first column that says in one cell what it takes several to say."""
    rows = [_label(row[: found.telling]) for row in found.rows]
    longest = max(map(len, rows))
    words = max(len(word) for row in rows for word in row.split())
    kind = " ".join(["joined", "name" if longest <= SHORT else "sentence", *(["long"] if words > NAME else [])])
    labels = iter([_label([Cell(head) for head in found.columns[: found.telling]]), *rows])
    scopes = itertools.chain(["col"], itertools.repeat("row"))
    return [
        each
        for token in tokens
        for each in ([token, *_cell(next(labels), next(scopes), kind)] if token.type == "tr_open" else [token])
    ]


def _label(cells: Sequence[Cell]) -> str:
    """What names a row, as one; broken into lines, if at all, after a dot."""
    return "\u00a0· ".join(cell.text for cell in cells if cell.text != NOTHING) or NOTHING


def _cell(text: str, scope: str, kind: str) -> list[Token]:
    inner = Token("inline", "", 0, content=text, children=[Token("text", "", 0, content=text)])
    return [Token("th_open", "th", 1, attrs={"scope": scope, "class": kind}), inner, Token("th_close", "th", -1)]
