"""Tables for a paper: LaTeX that compiles, with the numbers of the page and names as text."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import not_there
from tests.report.builders import COMPONENTS, blank, build, factorial, no_triton, written
from tests.report.markdown import tables
from tests.test_security import hostile_study
from vitbench.report.formats.latex import SPECIAL, escape, exported
from vitbench.report.output import Files
from vitbench.report.study_report import compose
from vitbench.report.view import View
from vitbench.store import StudyFolder

PLAIN = {written: sign for sign, written in SPECIAL.items()}


@pytest.fixture(params=["grid", "hostile"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> StudyFolder:
    if request.param == "hostile":
        return hostile_study(tmp_path / "study")
    return build(tmp_path / "study", factorial(COMPONENTS, state=no_triton, seeds=(0, 1)))


def parts_of(tex: str) -> list[tuple[str, list[str], list[str]]]:
    """(alignment, heads, rows) of each part of a table."""
    parts = re.findall(
        r"\\begin\{tabular\}\{([^\n]*)\}\n\\toprule\n([^\n]*) \\\\\n\\midrule\n(.*?)\\bottomrule", tex, re.DOTALL
    )
    return [(align, [joined(head) for head in cells(heads)], rows.splitlines()) for align, heads, rows in parts]


def joined(head: str) -> str:
    """A head of several lines as one."""
    lines = re.fullmatch(r"\\shortstack\[[lr]\]\{(.*)\}", head)
    return lines[1].replace(" \\\\ ", " ") if lines else head


def cells(line: str) -> list[str]:
    return re.split(r"(?<!\\) & ", line)


def test_every_table_of_the_page_is_there_row_by_row(study: StudyFolder, tmp_path: Path) -> None:
    out = written(study, tmp_path / "out", exports=["latex"]).parent
    files = {file.name: file.read_text(encoding="utf-8") for file in (out / "latex").iterdir()}
    document = compose(View(study), Files(blank))
    expected = exported(document)
    assert files == expected and len(files) > 3
    for tex, table in zip(expected.values(), tables(document), strict=True):
        ((align, heads, rows),) = parts_of(tex)
        assert len(rows) == len(table.rows)
        columns = len(re.sub(r">\{[^}]*\}p\{\d+em\}", "l", align))
        assert heads == [escape(name) for name in table.columns if name not in table.table.optional]
        for row in rows:
            assert len(re.findall(r"(?<!\\)&", row)) == columns - 1 == len(heads) - 1 and row.endswith(r" \\")
        assert tex.count("{") - tex.count(r"\{") == tex.count("}") - tex.count(r"\}")


def test_best_values_are_bold_and_signs_are_those_of_latex(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial(COMPONENTS, state=no_triton, seeds=(0, 1)))
    tex = exported(compose(View(study), Files(blank)))
    assert re.search(r"\\textbf\{\d+\.\d \$\\pm\$ \d\.\d\}", tex["accuracy.tex"])
    heads = {head for _, of_part, _ in parts_of(tex["accuracy.tex"]) for head in of_part}
    assert "test accuracy (\\%)" in heads and "per\\_head" in tex["accuracy.tex"]
    assert not [c for text in tex.values() for c in text if not c.isascii()]


@pytest.mark.parametrize("text", ["a_b & 5 % of $x^2$ #1 {y} ~ \\z < > |", "\\input{/etc/passwd}", "\\write18{ls}"])
def test_nothing_in_a_name_is_obeyed(text: str) -> None:
    latex = escape(text)
    for spelled, sign in sorted(PLAIN.items(), key=lambda pair: -len(pair[0])):
        latex = latex.replace(spelled, f"\0{ord(sign)}\0")
    assert "\\" not in latex, "no command is left but those that stand for a sign"
    assert re.sub("\0(\\d+)\0", lambda m: chr(int(m[1])), latex) == text


def test_it_compiles(study: StudyFolder, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        not_there("pdflatex is not installed: make latex")
    out = written(study, tmp_path / "out", exports=["latex"]).parent
    names = sorted(file.stem for file in (out / "latex").iterdir())
    body = "\n".join(f"\\input{{latex/{name}}}\\clearpage" for name in names)
    head = "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{textcomp,booktabs,graphicx,array}"
    (out / "all.tex").write_text(f"{head}\\begin{{document}}{body}\\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    if "script" not in study.info.suite.question:  # a word of such a name may be longer than a line
        assert "Overfull \\hbox" not in done.stdout, "every table is as wide as the text at most"
