"""Reports of whole studies: pure, complete, honest about what is missing, safe against hostile names."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input import files_of
from tests.report.builders import (
    COMPONENTS,
    CPU,
    GPU,
    CellPlan,
    Plan,
    blank,
    build,
    factorial,
    no_triton,
    page_of,
    render,
    written,
)
from tests.report.markdown import read_page
from vitbench.config.suite import Published
from vitbench.report.document import Table
from vitbench.report.output import Files, ReportError
from vitbench.report.sections import accuracy
from vitbench.report.sections.caveats import stated
from vitbench.report.view import View
from vitbench.store import StudyFolder
from vitbench.store.record import STATES

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a|b|c", "back\\slash `code`", "$x$ and $y$",
    "$\\frac$ and $_$",  # wrong as a formula
    "**bold** _em_ ~~gone~~", "[link](javascript:alert(1))", "![picture](https://example.org/x.png)",
    "=cmd|' /C calc'!A0", "+1", "-rf", "@SUM(A1)", "1. one", "# heading", "&lt;b&gt;", "{{7*7}} {% raw %}",
    "\N{SNOWMAN} \N{PILE OF POO} 漢字", "x" * 80, "x" * 79 + "y",
]  # fmt: skip
SMALL = {"norm": ("pre", "post"), "positions": ("learned", "none")}


def test_rendering_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    build(tmp_path / "study", factorial(SMALL, seeds=(0, 1)))
    for name in ("first", "second"):
        render(StudyFolder.read(tmp_path / "study"), tmp_path / name)
    assert files_of(tmp_path / "first") == files_of(tmp_path / "second")
    suffixes = {file.suffix for file in (tmp_path / "first").rglob("*") if file.is_file()}
    assert suffixes == {".html", ".md", ".png", ".svg", ".csv"}


@pytest.mark.slow
def test_rendering_is_the_same_in_a_process_of_its_own_with_another_style(tmp_path: Path) -> None:
    build(tmp_path / "study", factorial(SMALL))
    render(StudyFolder.read(tmp_path / "study"), tmp_path / "here")
    code = (
        "import sys, matplotlib; from pathlib import Path\n"
        "matplotlib.rcParams['font.size'] = 20; matplotlib.rcParams['figure.dpi'] = 30\n"
        "from vitbench.report.study_report import render; from vitbench.report.view import View\n"
        "from vitbench.store import StudyFolder\n"
        f"render(View(StudyFolder.read(Path({str(tmp_path / 'study')!r}))), Path({str(tmp_path / 'there')!r}))\n"
        "assert matplotlib.rcParams['font.size'] == 20, 'the caller keeps its own style'\n"
        "assert 'torch' not in sys.modules and 'triton' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env={"PYTHONHASHSEED": "7"}, timeout=120)
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


def test_a_later_rendering_leaves_nothing_of_an_earlier_one_and_touches_no_other_file(tmp_path: Path) -> None:
    out = tmp_path / "report"
    study = build(tmp_path / "study", factorial(SMALL))
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "mine.png").write_bytes(b"drawn by hand")
    written(study, out)
    assert (out / "figures" / "mine.png").exists()  # the folder held no report of ours yet
    (out / "figures" / "stale.png").write_bytes(b"")
    (out / "figures" / "stale.csv").write_bytes(b"")
    (out / "tables" / "stale.csv").write_bytes(b"")
    (out / "tables" / "notes.txt").write_text("kept")
    written(study, out)
    left = set(files_of(out))
    assert not left & {"figures/stale.png", "figures/stale.csv", "tables/stale.csv"}
    assert {"tables/notes.txt", "report.md", "index.html"} <= left
    assert not [name for name in left if name.endswith(".tmp")]
    mine = {"figures/numbers.csv": "1,2", "latex/paper.tex": "mine"}
    for name, text in mine.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(text)
    written(study, out)
    assert all((out / name).read_text() == text for name, text in mine.items())


def test_a_page_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial(SMALL))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<!doctype html><title>mine</title>")
    with pytest.raises(ReportError, match="no report of vitbench's"):
        written(study, tmp_path / "site")
    assert files_of(tmp_path / "site") == {"index.html": b"<!doctype html><title>mine</title>"}


def test_the_components_suite_accounts_for_every_cell(tmp_path: Path) -> None:
    page = page_of(tmp_path, factorial(COMPONENTS, state=no_triton, epochs=2))
    cells = {
        values
        for row in page.table("test accuracy (%)", "Accuracy")
        for values in itertools.product(*(row[axis].split(" | ") for axis in COMPONENTS))
    }
    states = {tuple(row[axis] for axis in COMPONENTS): row["state"] for row in page.csv("accuracy")}
    assert len(states) == 48 and cells == {values for values, state in states.items() if state == "ok"}
    assert {values[1] for values in states.keys() - cells} == {"triton"} and len(cells) == 36
    assert "unsupported: 12 cells." in page.text
    for mode in ("inference", "training step"):
        timing = page.table("latency p50 (ms)", section=f"cpu, float32, batch size 64, {mode}")
        assert len(timing) == 48
        assert sum(row["latency p50 (ms)"] == "unsupported" for row in timing) == 12
    (failed,) = page.table("reason")
    assert failed["cells"] == "all 12 cells with attention = triton"
    assert failed["reason"] == 'attention "triton" runs on cuda, not on cpu'


def test_all_states_at_once(tmp_path: Path) -> None:
    cells = [CellPlan(f"the {state} one", {"depth": depth}) for depth, state in enumerate([*STATES, "pending"], 1)]

    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        word = cell.label.split()[1]
        return word, "" if word in ("ok", "pending") else f"because {word}"

    page = page_of(tmp_path, Plan(cells=cells, state=state))
    words = [*STATES, "pending"]
    assert {row["cell"]: row["state"] for row in page.csv("accuracy")} == {f"the {word} one": word for word in words}
    assert [row["cell"] for row in page.table("test accuracy (%)", "Accuracy")] == ["the ok one"]
    shown = {row["cell"]: row["latency p50 (ms)"] for row in page.table("latency p50 (ms)")}
    for word in words:
        assert shown[f"the {word} one"] == word if word != "ok" else shown["the ok one"][0].isdigit()
    reasons = {row["state"]: row["reason"] for row in page.table("reason")}
    assert reasons.pop("pending") == "no record yet"
    assert reasons == {word: f"because {word}" for word in STATES if word != "ok"}
    counts = page.table("planned")[0]
    assert all(counts[word] == "1" for word in words)


@pytest.mark.parametrize("state", ["pending", "failed", "nothing planned"])
def test_f25_a_study_without_any_result_is_reported(tmp_path: Path, state: str) -> None:
    plan = factorial(SMALL, state=lambda cell, kind, seed: (state, "it broke"))
    page = page_of(tmp_path, Plan(cells=[]) if state == "nothing planned" else plan)
    assert page.pictures == [] and "Effects" not in page.headings
    assert "nan" not in page.text.lower().replace("inan", "")
    if state == "nothing planned":
        assert "The plan holds no trial." in page.text
    else:
        assert {row["state"] for row in page.csv("accuracy")} == {state} and f"{state}: 4 cells." in page.text


def test_a_mean_over_survivors_is_marked(tmp_path: Path) -> None:
    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        return ("diverged", "loss is nan") if seed == 1 and cell.axes["norm"] == "post" else ("ok", "")

    page = page_of(tmp_path, factorial(SMALL, seeds=(0, 1, 2), state=state))
    states = {row["cell"]: row["state"] for row in page.csv("accuracy")}
    for row in page.table("test accuracy (%)", "Accuracy"):
        broken = row["norm"] == "post"
        assert states[f"{row['norm']} · {row['positions']}"] == ("2 ok, 1 diverged" if broken else "ok")
        assert row["seeds"] == ("2 of 3" if broken else "3")
        assert row["test accuracy (%)"].endswith("†") == broken


def test_hostile_names_are_no_heading_link_or_command(tmp_path: Path) -> None:
    """In timings, reasons, questions, rules and a suite's file name."""
    cells = [CellPlan(name, {"depth": i}) for i, name in enumerate(HOSTILE, 1)]

    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        return ("ok", "") if cell.axes["depth"] % 3 else ("failed", f"{cell.label}\n| {cell.label} |\n\n# {cell.label}")

    command = ("run", "ablations/a`b```c; rm -rf $HOME.toml", "--device", "cpu")
    page = page_of(tmp_path, Plan(cells=cells, state=state, question="\n# ".join(HOSTILE), commands=(command,),
                                  excluded=tuple((name, name) for name in HOSTILE)))  # fmt: skip
    for column, shown in (("latency p50 (ms)", "cell"), ("rule", "rule")):
        assert sorted(row[shown] for row in page.table(column)) == sorted(HOSTILE)
    assert page.links <= files_of(page.folder).keys()
    assert page.code == ["vitbench run 'ablations/a`b```c; rm -rf $HOME.toml' --device cpu"]
    assert page.strange == set() and len(page.html) == 1
    assert not [heading for heading in page.headings if any(name in heading for name in HOSTILE)]


def test_published_numbers_stand_beside_measured_ones(tmp_path: Path) -> None:
    known = Published(test_accuracy=26.5, source="a blog")
    cells = [
        CellPlan("none", {"attention": "none"}),
        CellPlan("one head", {"heads": 1}, known),
        CellPlan("four heads", {"heads": 4}, Published(test_accuracy=33.9, source="a blog")),
    ]
    plan = Plan(cells=cells, time=False, state=lambda c, k, s: ("oom", "") if c.label == "four heads" else ("ok", ""))
    page = page_of(tmp_path, plan)
    rows = {row["cell"]: row for row in page.table("published (%)")}
    assert set(rows) == {"one head", "four heads"}
    measured = float(next(r for r in page.csv("accuracy") if r["cell"] == "one head")["test_accuracy_pct_mean"])
    assert rows["one head"]["published (%)"] == "26.5"
    assert rows["one head"]["measured (%)"] == f"{measured:.1f}"
    assert rows["one head"]["difference (points)"] == f"{measured - 26.5:+.1f}"
    assert rows["four heads"]["measured (%)"] == "oom"


def test_a_fallback_is_said_first_and_its_numbers_are_not_compared(tmp_path: Path) -> None:
    cells = [CellPlan("a", {}, Published(test_accuracy=50, source="paper"))]
    why = "cifar10 is not on disk and cannot be downloaded"
    page = page_of(tmp_path, Plan(cells=cells, fallback=why, notices=(why, "clocks were throttled")))
    top = page.text[: page.text.index("Summary")]
    assert top.count(why) == top.count("clocks were throttled") == 1
    assert page.table("published (%)")[0]["difference (points)"] == "other data"


def test_results_of_two_machines_stand_apart(tmp_path: Path) -> None:
    def where(cell: CellPlan, seed: int) -> object:
        return GPU if cell.axes["norm"] == "post" or seed == 2 else CPU

    page = page_of(tmp_path, factorial(SMALL, seeds=(0, 1, 2), environment=where))
    environments = re.findall(r"environment ([AB]): (Example ...) .*Python 3", page.text)
    assert environments == [("A", "Example CPU"), ("B", "Example GPU")]
    on_a, on_b = (page.table("test accuracy (%)", f"On cpu {letter}") for letter in "AB")
    assert [row["norm"] for row in on_a] == ["pre"] * 2 and all(row["test accuracy (%)"][-1] == "†" for row in on_a)
    assert {row["norm"]: row["seeds"] for row in on_b} == {"pre": "1 of 3", "post": "3"} and len(on_b) == 4
    assert "on B: 2 cells." in page.text
    for row in page.csv("accuracy"):
        alone = [t for t in page.csv("trials") if t["cell"] == row["cell"] and t["test_accuracy_pct"]]
        machine = "Example CPU" if row["origin"] == "A" else "Example GPU"
        values = [float(t["test_accuracy_pct"]) for t in alone if t["machine"].startswith(machine)]
        assert float(row["test_accuracy_pct_mean"]) == pytest.approx(sum(values) / len(values))


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"threads": 1}, None), ({"code": "f" * 12}, "code"), ({"commit": "f" * 40, "dirty": True}, None)],
)
def test_what_differs_between_environments_is_named(tmp_path: Path, changes: dict[str, Any], named: str | None) -> None:
    """Another commit of the same code, or another number of threads, does not."""
    other = CPU.model_copy(update=changes)
    plan = factorial(SMALL, time=False, environment=lambda c, s: other if c.axes["norm"] == "pre" else CPU)
    caveat = dict(stated(View(build(tmp_path, plan)))).get("several-environments")
    assert caveat is None if named is None else f"(different: {named})" in str(caveat)


def test_retries_exclusions_damage_and_leftovers_are_told(tmp_path: Path) -> None:
    plan = factorial(
        SMALL,
        excluded=(("rope · none", "rope needs attention"), ("rope · mean", "rope needs attention")),
        attempts=lambda c, k, s: ["crashed"] if c.axes["norm"] == "post" and k == "train" else [],
    )
    study = build(tmp_path / "study", plan)
    records = sorted((tmp_path / "study" / "records").iterdir())
    (tmp_path / "study" / "records" / "0-torn.json").write_text(records[0].read_text()[:300])
    gone = study.info.trials[0]
    info = study.info.model_copy(update={"trials": study.info.trials[1:]})
    # The first reading sets the damaged file aside; the second must tell the same.
    page, again = (read_page(written(StudyFolder(tmp_path / "study", info), tmp_path / name).parent) for name in "12")
    assert page.text == again.text and gone.cell in page.text
    assert {row["states in order"] for row in page.table("states in order")} == {"crashed, ok"}
    assert page.table("rule")[0]["combinations"] == "2"
    assert (
        "0-torn.json: not a record" in page.text
        and "Records of trials outside the plan, in no table here: 1." in page.text
    )


@pytest.mark.parametrize("seeds", [(0, 1, 2), (0,)])
def test_what_cannot_be_told_from_the_best_is_bold_like_it_and_nothing_of_single_runs(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    axes = {"attention": ("per_head", "batched", "sdpa"), **SMALL}
    view = View(build(tmp_path, factorial(axes, seeds=seeds, time=False)))
    (by_cell,) = [found for found in accuracy.section(view, Files(blank)) if isinstance(found, Table)]
    place = by_cell.columns.index("test accuracy (%)")
    bold = [row[place].startswith("**") for row in by_cell.rows]
    means = [each.mean for each in accuracy.functions(view, view.groups[0])]
    assert view.noise and means == sorted(means, reverse=True)
    assert bold == [len(seeds) > 1 and mean >= means[0] - view.noise.largest for mean in means]
    assert len(seeds) == 1 or 1 < sum(bold) < len(bold)


def test_equivalent_implementations_are_one_row_whose_seeds_are_means_over_them(tmp_path: Path) -> None:
    def accuracy(cell: CellPlan, seed: int) -> float:
        return 40.0 + 2 * (cell.axes["norm"] == "pre") + seed + (cell.label == "batched · post")

    axes = {"attention": ("per_head", "batched"), "norm": ("pre", "post")}
    page = page_of(tmp_path, factorial(axes, seeds=(0, 1), accuracy=accuracy, time=False))
    rows = page.table("test accuracy (%)", "Accuracy")
    found = [(row["attention"], row["norm"], row["test accuracy (%)"]) for row in rows]
    assert found == [("per_head | batched", "pre", "42.5 ± 0.7"), ("per_head | batched", "post", "41.0 ± 0.7")]
    assert [float(row["test_accuracy_pct_mean"]) for row in page.csv("accuracy")] == [42.5, 40.5, 42.5, 41.5]
