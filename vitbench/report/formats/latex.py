"""LaTeX: the tables of a report for a paper, in booktabs form."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Sequence

from vitbench.report.document import Document, Table
from vitbench.report.inline import Md, Span, spans
from vitbench.report.inline import plain as shown

SUFFIX = ".tex"
TEX_MARK = "% Rendered by vitbench from a study's records; rendered again it is overwritten."
"""First line of every file."""

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}", "-": "{-}",
}  # fmt: skip
"""What LaTeX would obey, or join to another letter → how it is written."""

SIGNS = {
    "\N{MINUS SIGN}": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$",
    "√": r"$\surd$", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "…": r"\dots{}",
    "²": r"\textsuperscript{2}", "→": r"$\to$", "–": "--", "—": "---", "’": "'", "\u00a0": "~",
}  # fmt: skip
"""Signs of reports that not every LaTeX has → how all of them write them."""


NEEDS = (
    r"% Needs \usepackage{booktabs,graphicx,array}, and \usepackage[T1]{fontenc} and {textcomp} for quotation marks."
)
"""Second line of every file."""

LONG, COLUMN = 32, 28
"""Characters of a cell from which its column is broken into lines, and of a line there."""


def exported(document: Document) -> dict[str, str]:
    """Name of a file → a LaTeX table.

    Each says in its second line which packages it needs. Letters beyond Latin ones, which only names could bring in,
    are left as they are: XeLaTeX and LuaLaTeX set them.
    """
    found: dict[str, str] = {}
    for above, table in document.tables():
        name = re.sub(r"[^a-z0-9]+", "-", " ".join(above).lower()).strip("-") or "table"
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        unique = next(each for each in itertools.chain([name], numbered) if f"{each}{SUFFIX}" not in found)
        found[f"{unique}{SUFFIX}"] = whole(table, ": ".join(above))
    return found


def whole(table: Table, title: str) -> str:
    """A table as a file: a float with a caption, without the columns that a page hides at first."""
    columns = [number for number, name in enumerate(table.columns) if name not in table.optional]
    # What is too wide is made smaller as a whole; what fits stays as it is.
    fitted = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
    lines = [r"\begin{table}", r"\centering\footnotesize", rf"\caption{{{escape(title)}}}", fitted]
    return "\n".join([TEX_MARK, NEEDS, *lines, *_tabular(table, columns), "}", r"\end{table}", ""])


def _of_cells(table: Table, number: int) -> int:
    longest = max((len(shown(row[number])) for row in table.rows), default=0)
    return COLUMN if longest > LONG else longest


def _head(table: Table, number: int) -> list[str]:
    """The lines of a column's head: as few as leave it no wider than its cells, but for a word that is."""
    words = table.columns[number].split(" ")
    return textwrap.wrap(table.columns[number], max(_of_cells(table, number), *map(len, words))) or [""]


def _heads(table: Table, columns: Sequence[int]) -> str:
    """The first row of a part."""
    found = []
    for number in columns:
        lines = [escape(line) for line in _head(table, number)]
        place = "r" if table.right[number] else "l"
        stacked = r" \\ ".join(lines)
        found.append(lines[0] if len(lines) == 1 else rf"\shortstack[{place}]{{{stacked}}}")
    return " & ".join(found) + r" \\"


def _tabular(table: Table, columns: Sequence[int]) -> list[str]:
    """Some columns of a table."""
    align = "".join("r" if table.right[n] else "l" if not _is_long(table, n) else LINES for n in columns)
    rows = [" & ".join(_cell(row[n]) for n in columns) + r" \\" for row in table.rows]
    return [
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        _heads(table, columns),
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]


LINES = rf">{{\raggedright\arraybackslash}}p{{{COLUMN / 2:g}em}}"
"""A column whose cells are broken into lines; a letter is half an em wide."""


def _is_long(table: Table, number: int) -> bool:
    return any(len(shown(row[number])) > LONG for row in table.rows)


def escape(text: str) -> str:
    """Any text as LaTeX that shows just this text."""
    return "".join(SPECIAL.get(c) or SIGNS.get(c) or c for c in text)


def _cell(cell: Md) -> str:
    line = "".join(map(_span, spans(cell)))
    # A bracket after the end of a row would be an argument of it.
    return f"{{{line}}}" if line.startswith(("[", "*")) else line


def _span(span: Span) -> str:
    return rf"\textbf{{{escape(span.text)}}}" if "strong" in span.styles else escape(span.text)
