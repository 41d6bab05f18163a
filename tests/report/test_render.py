"""Reports of whole studies: pure, complete, honest about what is missing, safe against hostile names; their index."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from tests import test_security
from tests.bad_input import files_of
from tests.report.builders import (
    COMPONENTS,
    CPU,
    SMALL,
    CellPlan,
    Plan,
    blank,
    build,
    factorial,
    page_of,
    render,
    written,
)
from tests.report.markdown import HOSTILE, Archetypes, Page, read_page
from tests.runner.runs import until
from tools.archetypes import STUDIES
from vitbench.cli.main import cli
from vitbench.config.suite import Goal, Published
from vitbench.report.document import Table
from vitbench.report.output import Files, ReportError
from vitbench.report.sections import accuracy
from vitbench.report.sections.caveats import stated
from vitbench.report.study_report import render_all, studies_in
from vitbench.report.view import View
from vitbench.store import StudyFolder
from vitbench.store.record import STATES


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
    suffixes = {file.suffix for file in (tmp_path / "here").rglob("*") if file.is_file()}
    assert suffixes == {".html", ".md", ".png", ".svg", ".csv"}


def test_a_later_rendering_leaves_nothing_of_an_earlier_one_and_touches_no_other_file(tmp_path: Path) -> None:
    out = tmp_path / "report"
    study = build(tmp_path / "study", factorial(SMALL))
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "mine.png").write_bytes(b"drawn by hand")
    written(study, out)
    assert (out / "figures" / "mine.png").exists()  # the folder held no report of ours yet
    stale = {"figures/stale.png", "figures/stale.csv", "tables/stale.csv"}
    for name in stale:
        (out / name).write_bytes(b"")
    (out / "tables" / "notes.txt").write_text("kept")
    written(study, out)
    left = set(files_of(out))
    assert not left & stale
    assert {"tables/notes.txt", "report.md", "index.html"} <= left
    assert not [name for name in left if name.endswith(".tmp")]
    foreign = {"figures/numbers.csv": "1,2", "latex/paper.tex": "mine"}
    for name, text in foreign.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(text)
    written(study, out)
    assert all((out / name).read_text() == text for name, text in foreign.items())


@pytest.mark.parametrize("name", ["index.html", "report.md"])
def test_a_page_of_somebody_else_is_not_overwritten(tmp_path: Path, name: str) -> None:
    study = build(tmp_path / "study", factorial(SMALL))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / name).write_text("<!doctype html><title>mine</title>")
    with pytest.raises(ReportError, match=f"its {name} is no report of vitbench's"):
        written(study, tmp_path / "site")
    assert files_of(tmp_path / "site") == {name: b"<!doctype html><title>mine</title>"}


def test_the_components_suite_accounts_for_every_cell(archetypes: Archetypes) -> None:
    page = archetypes("grid")
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


def test_all_states_at_once(archetypes: Archetypes) -> None:
    page, words = archetypes("all-states"), [*STATES, "pending"]
    assert {row["cell"]: row["state"] for row in page.csv("accuracy")} == {f"the cell {word}": word for word in words}
    assert [row["cell"] for row in page.table("test accuracy (%)", "Accuracy")] == ["the cell ok"]
    latencies = {row["cell"]: row["latency p50 (ms)"] for row in page.table("latency p50 (ms)")}
    for word in words:
        assert latencies[f"the cell {word}"] == word if word != "ok" else latencies["the cell ok"][0].isdigit()
    reasons = {row["state"]: row["reason"] for row in page.table("reason")}
    assert reasons.pop("pending") == "no record yet"
    assert reasons == {word: f"because {word}" for word in STATES if word != "ok"}
    counts = page.table("planned")[0]
    assert all(counts[word] == "1" for word in words)


@pytest.mark.parametrize("name", ["nothing-ok-pending", "nothing-ok-failed", "nothing-planned"])
def test_f25_a_study_without_any_result_is_reported(archetypes: Archetypes, name: str) -> None:
    page, state = archetypes(name), name.rpartition("-")[2]
    assert page.pictures == [] and "Effects" not in page.headings
    assert "nan" not in page.text.lower().replace("inan", "")
    if state == "planned":
        assert "The plan holds no trial." in page.text
    else:
        assert {row["state"] for row in page.csv("accuracy")} == {state} and f"{state}: 48 cells." in page.text


def test_a_mean_over_survivors_is_marked(archetypes: Archetypes) -> None:
    page = archetypes("survivors")
    states = {row["cell"]: row["state"] for row in page.csv("accuracy")}
    for row in page.table("test accuracy (%)", "Accuracy"):
        broken = row["norm"] == "post"
        assert states[f"{row['norm']} · {row['positions']}"] == ("2 ok, 1 diverged" if broken else "ok")
        assert row["seeds"] == ("2 of 3" if broken else "3")
        assert row["test accuracy (%)"].endswith("†") == broken


def test_hostile_names_are_no_heading_link_or_command(archetypes: Archetypes) -> None:
    """Names stand in timings, reasons, questions, rules and a suite's file name."""
    page = archetypes("hostile-names")
    for column, name_column in (("latency p50 (ms)", "cell"), ("rule", "rule")):
        assert sorted(row[name_column] for row in page.table(column)) == sorted(HOSTILE)
    assert page.links <= files_of(page.folder).keys()
    assert page.code == ["vitbench run 'ablations/a`b```c; rm -rf $HOME.toml' --device cpu"]
    assert page.strange == set() and len(page.html) == 1
    assert not [heading for heading in page.headings if any(name in heading for name in HOSTILE)]


def test_published_numbers_stand_beside_measured_ones(archetypes: Archetypes) -> None:
    page = archetypes("published")
    rows = {row["cell"]: row for row in page.table("published (%)")}
    assert set(rows) == {"one head", "four heads"}
    measured = float(next(r for r in page.csv("accuracy") if r["cell"] == "one head")["test_accuracy_pct_mean"])
    assert rows["one head"]["published (%)"] == "26.5"
    assert rows["one head"]["measured (%)"].startswith(f"{measured:.1f} ± ")
    assert rows["one head"]["difference (points)"] == f"{measured - 26.5:+.1f}"
    others = archetypes("hostile-names").table("published (%)")
    assert {row["measured (%)"] for row in others if row["seeds"] == "0"} == {"failed"}


def test_a_published_speed_stands_beside_the_measured_one(tmp_path: Path) -> None:
    """A cell may have the one number, the other, or both; what is not published is not compared."""
    numbers = (Published(test_accuracy=40, source="a"), Published(train_images_per_s=8003, source="b"))
    cells = [CellPlan(f"cell {n}", {"depth": n}, number) for n, number in enumerate(numbers, 1)]
    page = page_of(tmp_path, Plan(cells, time=False, seeds=(0, 1)))
    accuracy_alone, speed_alone = page.table("published (%)")
    assert accuracy_alone["difference (points)"] != "n/a" == speed_alone["difference (points)"]
    assert (accuracy_alone["published (images/s)"], speed_alone["published (images/s)"]) == ("n/a", "8,003")
    speeds = {row["cell"]: row["training (images/s)"] for row in page.table("training (images/s)")}
    assert speed_alone["measured (images/s)"] == speeds["cell 2"]
    with pytest.raises(ValueError, match="needs test_accuracy or train_images_per_s"):
        Published(source="c")


def test_a_fallback_is_said_first_and_its_numbers_are_not_compared(archetypes: Archetypes) -> None:
    page = archetypes("fallback")
    top = page.text[: page.text.index("Summary")]
    assert top.count("cifar10 is not on disk") == top.count("clocks were throttled") == 1
    assert page.table("published (%)")[0]["difference (points)"] == "other data"


def test_results_of_two_machines_stand_apart(archetypes: Archetypes) -> None:
    page = archetypes("two-machines")
    environments = re.findall(r"environment ([AB]): (Example ...) .*Python 3", page.text)
    assert environments == [("A", "Example CPU"), ("B", "Example GPU")]
    on_a, on_b = (page.table("test accuracy (%)", f"On cpu {letter}") for letter in "AB")
    assert [row["norm"] for row in on_a] == ["pre"] * 2 and all(row["test accuracy (%)"][-1] == "†" for row in on_a)
    assert {row["norm"]: row["seeds"] for row in on_b} == {"pre": "1 of 3", "post": "3"} and len(on_b) == 4
    assert "on B: 2 cells." in page.text
    for row in page.csv("accuracy"):
        alone = [t for t in page.csv("trials") if t["cell"] == row["cell"] and t["test_accuracy_pct"]]
        machine = "Example CPU" if row["environment"] == "A" else "Example GPU"
        values = [float(t["test_accuracy_pct"]) for t in alone if t["machine"].startswith(machine)]
        assert float(row["test_accuracy_pct_mean"]) == pytest.approx(sum(values) / len(values))
    judged = [(row["environment"], row["n"]) for row in page.csv("verdicts") if row["family"] == "effects"]
    assert sorted(judged) == [("A", "0"), ("A", "2"), ("B", "1"), ("B", "3")], "by the seeds of one machine alone"


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
    info = STUDIES["damaged"](tmp_path / "study").info
    # The first reading sets the damaged file aside; the second must tell the same.
    page, again = (read_page(written(StudyFolder(tmp_path / "study", info), tmp_path / name).parent) for name in "12")
    assert page.text == again.text
    assert {row["states in order"] for row in page.table("states in order")} == {"crashed, ok"}
    assert page.table("rule")[0]["combinations"] == "2"
    assert "0-torn.json: not a record" in page.text
    assert "Records of trials outside the plan, in no table here: 1." in page.text


@pytest.mark.parametrize("seeds", [(0, 1, 2), (0,)])
def test_what_cannot_be_told_from_the_best_is_bold_like_it_and_nothing_of_single_runs(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    axes = {"attention": ("per_head", "batched", "sdpa"), **SMALL}
    view = View(build(tmp_path, factorial(axes, seeds=seeds, time=False)))
    (by_cell,) = [block for block in accuracy.section(view, Files(blank)) if isinstance(block, Table)]
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
    texts = [(row["attention"], row["norm"], row["test accuracy (%)"]) for row in rows]
    assert texts == [("per_head | batched", "pre", "42.5 ± 0.7"), ("per_head | batched", "post", "41.0 ± 0.7")]
    assert [float(row["test_accuracy_pct_mean"]) for row in page.csv("accuracy")] == [42.5, 40.5, 42.5, 41.5]


def test_a_twin_that_others_stand_for_has_no_effect_and_the_report_says_that_they_agree(tmp_path: Path) -> None:
    """It is trained with the first seed alone, and would be underpowered whatever came out."""
    axes = {"patching": ("conv", "einops", "einops_layernorm")}

    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        return ("pending" if seed and cell.axes["patching"] == "einops" else "ok"), ""

    plan = factorial(axes, seeds=range(6), time=False, state=state, accuracy=lambda _, seed: 40.0 + seed)
    study = build(tmp_path / "study", plan)
    there = study.records()
    once = study.info.trials.where(lambda trial_id, _: trial_id in there)
    for implementations, rows in (("one", ["einops_layernorm"]), ("all", ["einops", "einops_layernorm"])):
        info = study.info.model_copy(update={"trials": once, "implementations": implementations})
        render(StudyFolder(study.path, info), tmp_path / implementations)
        page = read_page(tmp_path / implementations)
        assert [row["value"] for row in page.table("value", "Effects")] == rows
        assert "Equivalent implementations (patching conv and einops) agree to the last digit in accuracy." in page.text


FAST, SLOW = CellPlan("fast", {"heads": 1}), CellPlan("slow", {"heads": 2})
GOALS = (Goal(cell="fast", test_accuracy=50.0), Goal(cell="slow", test_accuracy=60.0))
ACCURACY = {"fast": (49.0, 50.0, 51.0), "slow": (58.0, 59.0, 60.0)}


def rendered(tmp_path: Path, **changes: object) -> Page:
    plan = Plan(cells=[FAST, SLOW], seeds=(0, 1, 2), time=False, goals=GOALS, **changes)
    plan.accuracy = lambda cell, seed: ACCURACY[cell.label][seed]
    return page_of(tmp_path, plan)


def test_the_mean_over_all_seeds_decides_and_time_is_without_warming_up(tmp_path: Path) -> None:
    page = rendered(tmp_path)
    rows = {row["cell"]: row for row in page.table("goal (%)")}
    assert {cell: row["reached"] for cell, row in rows.items()} == {"fast": "yes", "slow": "no"}
    assert rows["fast"]["mean test accuracy (%)"] == "50.0" and rows["fast"]["seeds"] == "3"
    low, high = map(float, rows["fast"]["95 % interval (%)"].split(" to "))
    assert 46 < low < 49.5 and 50.5 < high < 54
    trials = [row for row in page.csv("trials") if row["cell"] == "fast"]
    expected = sum(float(row["train_seconds"]) - float(row["warm_up_seconds"]) for row in trials) / 3
    goal = next(row for row in page.csv("goals") if row["cell"] == "fast")
    assert float(goal["training_seconds_mean"]) == pytest.approx(expected)
    assert float(goal["warm_up_seconds_mean"]) == 0.5
    seconds = rows["fast"]["training (s)"]
    assert re.fullmatch(r"[0-9.]+ ± [0-9.]+", seconds)
    assert f"Goals: 50.0 %: yes, in {seconds} s of training (fast); 60.0 %: no (slow)." in page.text


def test_a_missing_seed_is_no_goal_reached(tmp_path: Path) -> None:
    page = rendered(tmp_path, state=lambda cell, kind, seed: ("diverged", "") if seed == 0 else ("ok", ""))
    row = next(row for row in page.table("goal (%)") if row["cell"] == "fast")
    assert (row["reached"], row["seeds"]) == ("seeds are missing", "2 of 3"), "its mean is not the cell's"
    page = rendered(tmp_path / "none", state=lambda *_: ("pending", ""))
    assert "No run of fast finished." in page.text and "Time to accuracy" in page.headings


AXES = {"norm": ("pre", "post")}
NAME = "b" + "".join(text for text in test_security.HOSTILE if text.isprintable() and "/" not in text)


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


def index_of(studies: Path, out: Path) -> Page:
    *_, (index, _) = render_all(studies_in(studies), out, draw=blank)
    assert index == out / "index.html"
    return read_page(out)


def test_each_study_has_a_row_and_its_link_leads_to_its_page(studies: Path, tmp_path: Path) -> None:
    page = index_of(studies, tmp_path)
    rows = page.table("study")
    assert rows[0]["study"] == "a Where | is the norm?"
    assert all(row["study"].startswith(f"{name} ") for row, name in zip(rows, ("a", NAME, "c"), strict=True))
    assert rows[0]["answer"].startswith("post better (+9.00 points")
    assert "too few samples" in rows[1]["answer"]
    assert len(page.links) == 3 and all((tmp_path / unquote(link)).is_file() for link in page.links)
    assert len(page.html) == 1 and page.strange == set()
    assert "result" in rows[2]["answer"] and rows[2]["device"] == rows[2]["date"] == "n/a"


def test_rendered_again_it_is_the_same_bytes(studies: Path, tmp_path: Path) -> None:
    index_of(studies, tmp_path / "one")
    index_of(studies, tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_the_command_names_every_page_it_wrote(tmp_path: Path) -> None:
    for name in "ab":
        build(tmp_path / "studies" / name, factorial(AXES, train=False, modes=("inference",)))
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "studies"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    pages = [tmp_path / "out" / name / "index.html" for name in ("a", "b", "")]
    assert done.output.splitlines() == [str(page) for page in pages] and all(page.is_file() for page in pages)


@pytest.mark.slow
def test_sigterm_leaves_no_temporary_folder_and_the_earlier_report(tmp_path: Path) -> None:
    built = build(tmp_path / "study", factorial(SMALL))
    study, earlier = built.path, files_of(written(built, tmp_path / "out").parent)
    line = [sys.executable, "-m", "vitbench", "report", str(study), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(line, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
    until(lambda: any(tmp_path.glob("vitbench-report-*/*")), "nothing was made")
    process.terminate()
    assert process.wait(timeout=60) == 143 and process.communicate()[1] == ""
    assert not [*tmp_path.glob("vitbench-report-*")] and files_of(tmp_path / "out") == earlier
