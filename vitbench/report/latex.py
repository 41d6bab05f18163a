"""LaTeX: the tables of a report for a paper, in booktabs form."""

from __future__ import annotations

import itertools
import re

from vitbench.report.blocks import Cell, Table, tables
from vitbench.report.files import TEX_MARK

SUFFIX = ".tex"

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}", "-": "{-}",
}  # fmt: skip
"""What LaTeX would obey, or join to another letter → how it is written."""

SIGNS = {
    "\N{MINUS SIGN}": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$",
    "√": r"$\surd$", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "…": r"\dots{}",
    "²": r"\textsuperscript{2}", "→": r"$\to$", "–": "--", "’": "'", "\u00a0": "~",
}  # fmt: skip
"""Signs of reports that not every LaTeX has → how all of them write them."""


def exported(text: str) -> dict[str, str]:
    """Name of a file → a LaTeX table; of a report's text.

    Each needs ``\\usepackage{booktabs}``, and ``\\usepackage[T1]{fontenc}`` and ``{textcomp}`` for quotation marks.
    Letters beyond Latin ones, which only names could bring in, are left as they are: XeLaTeX and LuaLaTeX set them.
    """
    found: dict[str, str] = {}
    for table in tables(text):
        name = re.sub(r"[^a-z0-9]+", "-", " ".join(table.above[1:]).lower()).strip("-") or "table"
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        unique = next(each for each in itertools.chain([name], numbered) if f"{each}{SUFFIX}" not in found)
        found[f"{unique}{SUFFIX}"] = tabular(table)
    return found


def tabular(table: Table) -> str:
    """One table, with its caption."""
    align = "".join("r" if right else "l" for right in table.right)
    rows = [" & ".join(map(_cell, row)) + r" \\" for row in table.rows]
    caption = escape(": ".join(table.above[1:]) or "Table")
    return "\n".join(
        [
            TEX_MARK, r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\begin{{tabular}}{{{align}}}",
            r"\toprule", " & ".join(map(escape, table.columns)) + r" \\", r"\midrule", *rows, r"\bottomrule",
            r"\end{tabular}", r"\end{table}", "",
        ]
    )  # fmt: skip


def escape(text: str) -> str:
    """Any text as LaTeX that shows just this text."""
    return "".join(SPECIAL.get(c) or SIGNS.get(c) or c for c in text)


def _cell(cell: Cell) -> str:
    # A bracket after the end of a row would be an argument of it.
    shown = escape(cell.text)
    shown = f"{{{shown}}}" if shown.startswith(("[", "*")) else shown
    return rf"\textbf{{{shown}}}" if cell.bold else shown
