"""Tables for a paper: LaTeX that compiles, with the numbers of the page and names as text."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import not_there
from tests.report.builders import COMPONENTS, build, factorial, no_triton
from tests.test_security import hostile_study
from vitbench.report.blocks import tables
from vitbench.report.latex import SPECIAL, escape, exported
from vitbench.report.render import render, render_view
from vitbench.report.view import View
from vitbench.store import Study

PLAIN = {written: sign for sign, written in SPECIAL.items()}


@pytest.fixture(params=["grid", "hostile"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Study:
    if request.param == "hostile":
        return hostile_study(tmp_path / "study")
    return build(tmp_path / "study", factorial(COMPONENTS, state=no_triton, seeds=(0, 1)))


def rows_of(tex: str) -> list[str]:
    return tex.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()


def test_every_table_of_the_page_is_there_row_by_row(study: Study, tmp_path: Path) -> None:
    out = render_view(View(study), tmp_path / "out", exports=["latex"]).parent
    files = {file.stem: file.read_text(encoding="utf-8") for file in (out / "latex").iterdir()}
    shown = list(tables((out / "report.md").read_text(encoding="utf-8")))
    assert len(files) == len(shown) > 3
    assert sorted(len(rows_of(tex)) for tex in files.values()) == sorted(len(table.rows) for table in shown)
    for tex in files.values():
        (align,) = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", tex)
        columns = len(align)
        for row in rows_of(tex):
            assert len(re.findall(r"(?<!\\)&", row)) == columns - 1 and row.endswith(r" \\")
        assert tex.count("{") - tex.count(r"\{") == tex.count("}") - tex.count(r"\}")
    render(study, out)
    assert not list((out / "latex").iterdir()), "a rendering without them leaves none of an earlier one"


def test_best_values_are_bold_and_signs_are_those_of_latex(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial(COMPONENTS, state=no_triton, seeds=(0, 1)))
    tex = exported((render(study, tmp_path / "out").parent / "report.md").read_text(encoding="utf-8"))
    assert re.search(r"\\textbf\{\d+\.\d \$\\pm\$ \d\.\d\}", tex["accuracy.tex"])
    assert "test accuracy (\\%)" in tex["accuracy.tex"] and "per\\_head" in tex["accuracy.tex"]
    assert not [c for text in tex.values() for c in text if not c.isascii()]


@pytest.mark.parametrize("text", ["a_b & 5 % of $x^2$ #1 {y} ~ \\z < > |", "\\input{/etc/passwd}", "\\write18{ls}"])
def test_nothing_in_a_name_is_obeyed(text: str) -> None:
    shown = escape(text)
    for written, sign in sorted(PLAIN.items(), key=lambda pair: -len(pair[0])):
        shown = shown.replace(written, f"\0{ord(sign)}\0")
    assert "\\" not in shown, "no command is left but those that stand for a sign"
    assert re.sub("\0(\\d+)\0", lambda m: chr(int(m[1])), shown) == text


def test_it_compiles(study: Study, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        not_there("pdflatex is not installed: make latex")
    out = render_view(View(study), tmp_path / "out", exports=["latex"]).parent
    names = sorted(file.stem for file in (out / "latex").iterdir())
    body = "\n".join(f"\\input{{latex/{name}}}\\clearpage" for name in names)
    head = "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs}"
    document = f"{head}\\begin{{document}}{body}\\end{{document}}"
    (out / "all.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
