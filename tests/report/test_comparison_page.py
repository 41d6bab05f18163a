"""The page of several studies: what it says, and that it can be read by all, on any screen."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Browser

from tests.analysis.test_comparison import Timed, write
from tests.analysis.test_side_by_side import on_two_machines
from tests.bad_input import files_of
from tests.report.browser import WINDOWS, faults_of_page, opened
from tests.report.builders import CPU, GPU, CellPlan, Plan, blank, build, factorial
from tests.report.markdown import read_page
from tests.test_security import HOSTILE, hostile_study
from vitbench.analysis.side_by_side import side_by_side
from vitbench.report.comparisons.comparison import compose, render_comparison
from vitbench.report.comparisons.comparison_tables import timings_frame
from vitbench.report.comparisons.limits import differences, stated
from vitbench.report.comparisons.plots import ratios
from vitbench.report.document import Forest
from vitbench.report.formats import markdown
from vitbench.report.output import Files

GRID = {"attention": ("per_head", "sdpa"), "positions": ("learned", "sinusoidal", "none")}
NEWER = CPU.model_copy(update={"code": "fedcba987654", "packages": {**CPU.packages, "torch": "2.16.0"}})
NAMES = ("devices and versions", "hostile", pytest.param("nothing ok", marks=pytest.mark.slow))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name → page of a comparison."""
    folder = tmp_path_factory.mktemp("comparisons")

    grid = factorial(GRID, seeds=(0, 1, 2))
    newer = replace(grid, environment=lambda *_: NEWER, accuracy=lambda cell, seed: 41.0 + seed)
    gpu = replace(grid, seeds=(0, 1), device="cuda", epochs=4, environment=lambda *_: GPU)
    bad = factorial(GRID, state=lambda *_: ("failed", "because"))
    hostile = [hostile_study(folder / f"hostile {n}\x1b[31m <script>" / "study") for n in range(2)]
    sets = {
        "devices and versions": [
            build(folder / name, plan).path for name, plan in {"first": grid, "newer": newer, "gpu": gpu}.items()
        ],
        "hostile": [study.path for study in hostile],
        "nothing ok": [build(folder / name, bad).path for name in ("bad", "worse")],
    }
    for study in hostile:
        (study.path / "study.json").write_text(study.info.to_json(), encoding="utf-8")  # with all that is hostile
    return {name: render_comparison(side_by_side(paths), folder / "out" / name) for name, paths in sets.items()}


def test_of_what_is_not_recorded_nothing_is_said_to_be_the_same(tmp_path: Path) -> None:
    def text_of(old: Timed, new: Timed) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        paths = [write(folder / name, {"cell 1": each}) for name, each in (("old", old), ("new", new))]
        return str(differences(side_by_side(paths)))

    assert text_of(Timed(), Timed()).endswith("**Same:** machine, software, timing.")
    for unknown in (Timed(environment=None), Timed(state="pending"), Timed(state="failed", environment=None)):
        text = text_of(Timed(), unknown)
        assert "**Unknown:** machine and software of B." in text and "**Same:** timing." in text
    assert "**Unknown:** machine and software of A and B." in text_of(Timed(environment=None), Timed(environment=None))


def test_images_of_the_same_set_that_differ_are_not_called_the_same(tmp_path: Path) -> None:
    plans = {n: Plan([CellPlan("a", {"depth": 1})], time=False, validation_images=n) for n in (500, 400)}
    text = str(differences(side_by_side([build(tmp_path / str(n), plan).path for n, plan in plans.items()])))
    assert "**validation images** (500 in A; 400 in B)" in text and "data" not in text.partition("**Same:**")[2]


def test_a_study_beside_itself_is_said_to_be_one(tmp_path: Path) -> None:
    study = write(tmp_path / "one", {"cell 1": Timed()})
    comparison = side_by_side([study, study])
    assert differences(comparison) == "A and B are the same study."
    assert comparison.summaries(None) == ["1 timing: 1 identical"], "one measurement, not two"


def test_every_ratio_says_over_which_arm_it_is(tmp_path: Path) -> None:
    """Two machines in each study: the second machine's timings are compared with the second machine's."""
    old = write(tmp_path / "old, one", on_two_machines())
    comparison = side_by_side([old, write(tmp_path / "new", on_two_machines(2.0), seed=1)])
    text = markdown.text(compose(comparison, Files()))
    assert "# Comparison: old, one, new\n" in text.replace("\\", "")
    assert comparison.summaries(None)[1] == "D against B: 1 timing: 1 slower"
    lines = [line.strip("| ").split("|") for line in text.splitlines() if re.match(r"\| [CD]: ", line)]
    assert {(line[0][0], line[3].strip()) for line in lines} == {("C", "A"), ("D", "B")}
    frame = timings_frame(comparison)
    assert frame.loc[frame["ratio"].notna(), ["arm", "against"]].agg("".join, axis=1).tolist() == ["CA", "DB"]
    assert "other-machines" not in dict(stated(comparison)), "each machine is compared with itself"
    (plot,) = ratios(comparison, Files(blank))
    assert isinstance(plot, Forest)
    assert [row.context for row in plot.rows] == ["C/A", "D/B"], "B has no ratio to A"
    assert [row.bar.value for row in plot.rows] == pytest.approx(frame["ratio"].dropna().tolist())


def test_a_ratio_of_an_unstable_timing_is_marked_wherever_it_stands(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, {"cell 1": Timed(slower=slower, spread=0.4, processes=2), "cell 2": Timed()})
             for name, slower in (("old", 1.0), ("new", 9.0))]  # fmt: skip
    (plot,) = ratios(side_by_side(paths), Files(blank))
    assert isinstance(plot, Forest)
    assert {row.name: row.number[0].endswith(" ~") for row in plot.rows} == {"cell 1": True, "cell 2": False}


def test_what_differs_stands_before_and_what_is_the_same_after_the_results(pages: dict[str, Path]) -> None:
    page = read_page(pages["devices and versions"].parent)
    apart, alike = page.table("condition", "What is compared"), page.table("condition", "What is the same")
    assert apart[0]["condition"] == "study" and {"runs on", "torch"} <= {row["condition"] for row in apart}
    assert {"optimizer", "data"} <= {row["condition"] for row in alike} and set(alike[0]) == {"condition", "in all"}
    assert not {row["condition"] for row in apart} & {row["condition"] for row in alike}
    assert page.headings.index("What is the same") == len(page.headings) - 1


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
@pytest.mark.parametrize("name", NAMES)
def test_it_opens_without_a_word_or_a_request_and_everybody_can_read_it(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    assert faults_of_page(browser, pages[name], width=width, scheme=scheme) == []


@pytest.mark.xdist_group("browser")
def test_hostile_names_are_text(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"]) as window:
        assert window.value("document.scripts.length") == 1
        names = window.value("[...document.querySelectorAll('.forest tbody th')].map(th => th.firstChild.data.trim())")
        assert set(names) & set(HOSTILE) and all(name.isprintable() for name in names)


def test_every_number_is_in_a_table_and_the_same_as_in_the_studies(pages: dict[str, Path]) -> None:
    page = read_page(pages["devices and versions"].parent)
    timings, accuracy = (pd.read_csv(page.folder / "tables" / f"{name}.csv") for name in ("timings", "accuracy"))
    assert len(timings) == 3 * 12 and len(accuracy) == 3 * 6
    assert set(timings.loc[timings["arm"] != "A", "change"]) == {"identical"}
    newer = accuracy[accuracy["arm"] == "B"]
    assert set(newer["test_accuracy_pct"].round(6)) == {42.0} and set(newer["paired_seeds"]) == {3}
    assert set(accuracy.loc[accuracy["arm"] == "C", "paired_seeds"]) == {2}
    rows = page.table("ratio")
    assert len(rows) == 3 * 6 and {row["verdict"] for row in rows if row["arm: cell"][0] == "A"} == {"reference"}
    assert {row["verdict"].removesuffix(" ~") for row in rows if row["arm: cell"][0] in "BC"} == {"identical"}
    trained = page.table("difference (points)", "Accuracy and training")
    references = {row["arm: cell"][0]: (row["against"], row["paired seeds"]) for row in trained}
    assert references == {"A": ("n/a", "n/a"), "B": ("A", "3"), "C": ("A", "2")}


def test_rendered_again_it_is_the_same_bytes_and_leaves_nothing_of_before(tmp_path: Path) -> None:
    paths = [build(tmp_path / name, factorial(GRID, seeds=(0, 1))).path for name in "ab"]
    out = render_comparison(side_by_side(paths), tmp_path / "out").parent
    before = files_of(out)
    (out / "tables" / "old.csv").write_text("x\n")
    render_comparison(side_by_side(paths), out)
    assert files_of(out) == before


def test_names_are_text_in_markdown_and_compute_nothing(pages: dict[str, Path]) -> None:
    page = read_page(pages["hostile"].parent)
    assert len(page.html) == 1 and page.strange == set() and page.formulas() == []
