"""The page over several studies: a row for each, links that lead somewhere, the same bytes twice."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from tests.bad_input import files_of
from tests.report.builders import CPU, blank, build, factorial
from tests.report.markdown import Page, read_page
from tests.test_security import HOSTILE
from vitbench.cli.main import cli
from vitbench.report.study_report import render_all, studies_in

AXES = {"norm": ("pre", "post")}
NAME = "b" + "".join(text for text in HOSTILE if text.isprintable() and "/" not in text)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    first = factorial(AXES, question="Where | is the norm?", seeds=tuple(range(8)), margin=1.0)
    first.accuracy = lambda cell, seed: 40.0 + seed % 2 + 9 * (cell.axes["norm"] == "post")
    build(folder / "a", first)
    build(folder / NAME, factorial(AXES, train=False, environment=lambda *_: CPU))
    build(folder / "c", factorial(AXES, state=lambda *_: ("pending", "")))
    (folder / "no study").mkdir()
    return folder


def rendered(studies: Path, out: Path) -> Page:
    *_, (index, _) = render_all(studies_in(studies), out, draw=blank)
    assert index == out / "index.html"
    return read_page(out)


def test_each_study_has_a_row_and_its_link_leads_to_its_page(studies: Path, tmp_path: Path) -> None:
    page = rendered(studies, tmp_path)
    rows = page.table("study")
    assert [row["study"] for row in rows] == ["a", NAME, "c"]
    assert rows[0]["question"] == "Where | is the norm?" and rows[0]["answer"].startswith("post better (+9.00 points")
    assert "baseline" in rows[1]["answer"] or "faster" in rows[1]["answer"]
    assert len(page.links) == 3 and all((tmp_path / unquote(link)).is_file() for link in page.links)
    assert len(page.html) == 1 and page.strange == set()
    assert "result" in rows[2]["answer"] and rows[2]["device"] == rows[2]["date"] == "n/a"


def test_rendered_again_it_is_the_same_bytes(studies: Path, tmp_path: Path) -> None:
    rendered(studies, tmp_path / "one")
    rendered(studies, tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_the_command_names_every_page_it_wrote(tmp_path: Path) -> None:
    for name in "ab":
        build(tmp_path / "studies" / name, factorial(AXES, train=False, modes=("inference",)))
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "studies"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    pages = [tmp_path / "out" / name / "index.html" for name in ("a", "b", "")]
    assert done.output.splitlines() == [str(page) for page in pages] and all(page.is_file() for page in pages)
