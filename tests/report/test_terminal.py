"""A printed report: the answer and the main tables, whole words at any width, and nothing that steers the terminal."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.report.builders import COMPONENTS, CellPlan, Plan, build, factorial, no_triton, reference
from tests.report.markdown import Shown, tables
from tests.runner.runs import Runs
from tests.test_security import HOSTILE, hostile_study
from vitbench.report.document import Document, Forest
from vitbench.report.formats import markdown
from vitbench.report.formats.terminal import MOST_ROWS, SECTIONS, fitting, printed
from vitbench.report.output import Files
from vitbench.report.study_report import compose
from vitbench.report.view import View

PRINTED = ["Summary", "Effects", "Accuracy", "Speed and memory"]


def output_of(document: Document, width: int, sections: Sequence[str] = SECTIONS) -> str:
    """Sections of a report, as they stand in a terminal of so many characters."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, emoji=False, markup=False)
    chosen = [section for section in document.sections if section.title in sections]
    for part in printed(replace(document, sections=chosen), width):
        console.print(part)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 300])
def test_tables_show_whole_words_at_every_width(tmp_path: Path, width: int) -> None:
    study = build(tmp_path / "study", factorial(COMPONENTS, state=no_triton, seeds=(0, 1, 2)))
    document = compose(View(study), Files())
    text, output = markdown.text(document), output_of(document, width)
    assert max(map(len, output.splitlines())) <= width
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert [heading for heading in headings if f"\n{heading}\n" in output] == PRINTED
    forests = [block.table for section in document.sections for block in section.blocks if isinstance(block, Forest)]
    all_tables = [*tables(document), *(Shown((), table) for table in forests)]
    words = {word for table in all_tables for row in table.rows for cell in row for word in cell.split()}
    words |= {word for table in all_tables for column in table.columns for word in column.split()}
    undrawn = output.translate(dict.fromkeys(map(ord, "─░●│"), " "))
    known = {bare for word in (*words, *text.split()) for bare in (word, word.strip("()"))}
    body = [line for line in undrawn.splitlines() if "   " in line.strip()]
    assert len(body) > MOST_ROWS
    assert not {word.strip("()") for line in body for word in line.split()} - known - {"•"}
    for word in ("underpowered", "Summary", "more row", *(["more column"] if width < 300 else [])):
        assert word in output


@pytest.mark.parametrize(
    ("name", "among", "kept"),
    [
        ("attention-timing-cpu", "GFLOP/s", {"attention", "latency p50 (ms)", "speed (× baseline)"}),
        ("positions-small", "p (permutation)", {"axis", "value", "verdict", "difference (points)"}),
    ],
)
def test_a_narrow_terminal_keeps_the_columns_that_answer(name: str, among: str, kept: set[str]) -> None:
    document = compose(reference(name), Files())
    table = next(table.table for table in tables(document) if among in table.columns)
    assert kept <= {table.columns[number] for number in fitting(table, 80)} < set(table.columns)


@pytest.mark.parametrize("name", ["components-cpu", "planted", "long names"])
def test_accuracies_stay_longest_beside_the_names_of_what_has_them(name: str, tmp_path: Path) -> None:
    long = "a cell that says more than a line has room for, with_words_that_are_far_too_long_for_it"
    cells = [CellPlan(f"{long}, {depth}", {"depth": depth}) for depth in (1, 2, 3)]
    view = View(build(tmp_path, Plan(cells, time=False))) if name == "long names" else reference(name)
    document = compose(view, Files())
    table = next(t.table for t in tables(document) if t.above[0] == "Accuracy" and "test accuracy (%)" in t.columns)
    for width in range(60, 120):
        columns = [table.columns[number] for number in fitting(table, width)]
        assert {*table.columns[: table.telling], "test accuracy (%)"} <= {*columns}, width
    assert len(re.findall(r" \d\d\.\d", output_of(document, 60, ["Accuracy"]))) >= len(table.rows)


def test_a_ratio_with_its_interval_outlasts_times_and_rates() -> None:
    """Which implementation is faster is the question; milliseconds are not the answer to it."""
    ratio, time = "speed (× baseline)", "latency p50 (ms)"
    table = next(t.table for t in tables(compose(reference("components-cpu"), Files())) if ratio in t.table.columns)
    seen = [{table.columns[number] for number in fitting(table, width)} for width in range(40, 200)]
    assert all(ratio in columns for columns in seen if time in columns)
    assert any(ratio in columns and time not in columns for columns in seen)


def test_hostile_names_steer_nothing(tmp_path: Path) -> None:
    output = output_of(compose(View(hostile_study(tmp_path / "study")), Files()), 300)
    assert not [c for c in output if c != "\n" and not c.isprintable()]
    assert all(name in output for name in HOSTILE if name.isprintable() and len(name) < 30 and "  " not in name)


def test_the_command_prints_and_writes_nothing(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs")
    runs.complete()
    before = [*tmp_path.rglob("*")]
    done = runs.vitbench("report", str(runs.study), "--print")
    assert done.returncode == 0 and "images/s" in done.stdout, done.stdout + done.stderr
    assert "Does it run?" in done.stdout
    assert {p for p in tmp_path.rglob("*") if p.suffix in (".md", ".html", ".png")} == set()
    assert [p for p in before if not p.exists()] == []
    refused = runs.vitbench("report", str(runs.study), "--print", "--out", str(tmp_path / "out"))
    assert refused.returncode == 2 and "--print writes no report" in refused.stderr


def test_a_forest_plot_is_drawn_at_every_width() -> None:
    """A mean stands left of no difference or right of it as its sign says, within the ends of its interval."""
    document = compose(reference("vit5-small"), Files())
    forests = [b for section in document.sections for b in section.blocks if isinstance(b, Forest)]
    for width in (80, 120):
        lines = output_of(document, width, ["Summary"]).splitlines()
        for row in forests[0].rows:
            (line,) = (each for each in lines if each.startswith(f" {row.name} ") and f" {row.number[0]} " in each)
            mean, neutral = line.index("●"), line.index("│") if "│" in line else line.index("●")
            assert (mean - neutral > 0) == (row.bar.value > 0) or abs(row.bar.value) < 0.2
            assert line.rstrip().endswith(row.verdict)
    assert "Accuracy" not in lines
    heights = [len(output_of(document, width, ["Summary"]).splitlines()) for width in (60, 80, 100, 160)]
    rows = [row for forest in forests for row in forest.rows]
    assert heights == sorted(heights, reverse=True) and heights[-1] <= heights[1] - len(rows)
    for width in (40, 60):
        output = output_of(document, width, ["Summary"])
        assert output.count("●") == len(rows) and "…" not in output
        assert all(text in output for row in rows for text in (row.number[0], row.verdict))
