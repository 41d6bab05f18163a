"""LaTeX: the tables of a report for a paper, in booktabs form."""

import textwrap

from vitbench.report.document import Document, Table
from vitbench.report.text import Md, Span, plain, slug, spans

SUFFIX = ".tex"
TEX_MARK = "% Rendered by vitbench from a study's records; rendered again it is overwritten."
"""First line of every file."""

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}", "-": "{-}",
}  # fmt: skip
"""Letters that LaTeX would obey, or join to another letter → how they are written."""

SIGNS = {
    "\N{MINUS SIGN}": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$",
    "√": r"$\surd$", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "…": r"\dots{}",
    "²": r"\textsuperscript{2}", "→": r"$\to$", "–": "--", "—": "---", "’": "'", "\u00a0": "~",
}  # fmt: skip
"""Signs of reports that not every LaTeX has → how all of them write them."""

NEEDS = (
    r"% Needs \usepackage{booktabs,graphicx,array}, and \usepackage[T1]{fontenc} and {textcomp} for quotation marks; "
    "names in other letters than Latin ones, XeLaTeX or LuaLaTeX."
)
"""Second line of every file."""

LONG, COLUMN, HEAD = 32, 28, 12
"""Characters of a cell from which its column is broken into lines, of a line there, and of a line of a head."""
LINES = rf">{{\raggedright\arraybackslash}}p{{{COLUMN / 2:g}em}}"
"""A column whose cells are broken into lines; a letter is half an em wide."""


def exported(document: Document) -> dict[str, str]:
    """Name of a file → a LaTeX table.

    Each says in its second line which packages it needs. Letters beyond Latin ones, which only names could bring in,
    are left as they are: XeLaTeX and LuaLaTeX set them.
    """
    files: dict[str, str] = {}
    for above, table in document.tables():
        files[slug(" ".join(above), "table", files)] = whole(table, ": ".join(above))
    return {f"{name}{SUFFIX}": content for name, content in files.items()}


def whole(table: Table, title: str) -> str:
    """A table as a file: a float with a caption, without the columns that a page hides at first."""
    columns = [number for number, name in enumerate(table.columns) if name not in table.optional]
    long = {number for number in columns if any(len(plain(row[number])) > LONG for row in table.rows)}
    align = "".join("r" if table.right[n] else LINES if n in long else "l" for n in columns)
    rows = [[_head(table.columns[n], right=table.right[n]) for n in columns]]
    rows += [[_cell(row[n]) for n in columns] for row in table.rows]
    heads, *body = (" & ".join(row) + r" \\" for row in rows)
    # What is too wide is made smaller as a whole; what fits stays as it is.
    fitted = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
    return "\n".join([
        TEX_MARK, NEEDS, r"\begin{table}", r"\centering\footnotesize", rf"\caption{{{escape(title)}}}", fitted,
        rf"\begin{{tabular}}{{{align}}}", r"\toprule", heads, r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
        "}", r"\end{table}", "",
    ])  # fmt: skip


def _head(name: str, *, right: bool) -> str:
    lines = [escape(line) for line in textwrap.wrap(name, HEAD, break_long_words=False, break_on_hyphens=False)] or [""]
    stacked = r" \\ ".join(lines)
    return stacked if len(lines) == 1 else rf"\shortstack[{'r' if right else 'l'}]{{{stacked}}}"


def escape(text: str) -> str:
    """Any text as LaTeX that shows just this text."""
    return "".join(SPECIAL.get(c) or SIGNS.get(c) or c for c in text)


def _cell(cell: Md) -> str:
    line = "".join(map(_span, spans(cell)))
    # A bracket after the end of a row would be an argument of it.
    return f"{{{line}}}" if line.startswith(("[", "*")) else line


def _span(span: Span) -> str:
    return rf"\textbf{{{escape(span.text)}}}" if "strong" in span.styles else escape(span.text)
