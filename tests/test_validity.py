"""The rules that make a comparison of accuracies trustworthy, as far as a report keeps them.

Rules 4 and 5 are kept by tests/training/test_loop.py, 7 to 10 by tests/analysis (verdicts, factorial, power), 12 by its
simulations.
Rules 13 to 22 are about timing (tests/timing, tests/runner/test_controls.py), 23 to 26 about reports (tests/report).
"""

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, Plan, build, factorial, page_of
from tests.report.markdown import Page
from vitbench.analysis.frames import trials_frame
from vitbench.analysis.grouped import noise_floor_of
from vitbench.analysis.outlook import outlook
from vitbench.config import read_suite
from vitbench.config.recipe import TrainTable

pytestmark = pytest.mark.xdist_group("validity")  # what its fixtures run is run once

AXES = {"attention": ("batched", "sdpa"), "norm": ("pre", "post"), "positions": ("learned", "none")}
SHIPPED = sorted((REPOSITORY / "ablations").glob("*.toml"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The report of a grid, trained with one seed."""
    return page_of(tmp_path_factory.mktemp("plain"), factorial(AXES, time=False))


def test_rule_1_a_row_says_which_slot_differs_from_which_baseline_and_the_design_has_its_name(tmp_path: Path) -> None:
    grid = page_of(tmp_path / "grid", factorial(AXES, seeds=(0, 1), time=False))
    assert "full factorial, attention (2) × norm (2) × positions (2): 8 cells" in grid.text
    rows = grid.effects()
    assert [(r["axis"], r["value"], r["against"]) for r in rows] == [
        ("norm", "post", "pre"),
        ("positions", "none", "learned"),
    ]
    cells = [CellPlan("plain", {}), CellPlan("post-norm", {"norm": "post"})]
    named = page_of(tmp_path / "named", Plan(cells, seeds=(0, 1), time=False))
    assert "2 named variants of one base" in named.text and len(named.table("cell", "Named cells")) == 1


def test_rule_2_what_is_neither_under_study_nor_tuned_is_printed_as_a_caveat(plain: Page, tmp_path: Path) -> None:
    text = plain.text
    sentence = text[text.index("Fixed for all cells and not tuned for each, which may favour some:") :].splitlines()[0]
    for fixed in ("learning rate 0.001", "weight decay 0", "warmup epochs 0", "schedule cosine", "optimizer adamw",
                  "batch size 64", "epochs 3"):  # fmt: skip
        assert fixed in sentence
    varied = factorial({"train.learning_rate": (1e-3, 3e-3), "norm": ("pre", "post")}, time=False)
    assert "some: weight decay" in page_of(tmp_path / "varied", varied).text


def test_rule_3_steps_operations_time_and_parameters_stand_beside_accuracy(plain: Page) -> None:
    rows = plain.table("test accuracy (%)", "Accuracy")
    same = re.search(r"^Test accuracy by cell.* Equal in every row: (.*)\.$", plain.text, re.MULTILINE)
    for name in ("steps", "TFLOP per run", "s per run", "parameters"):
        values = [row[name] for row in rows if name in row] or re.findall(rf"{name} ([\d.,]+)", same[1] if same else "")
        assert values and all(float(value.split()[0].replace(",", "")) > 0 for value in values), name


def test_rule_6_claims_of_every_suite_can_be_decided_by_its_seeds() -> None:
    for path in SHIPPED:
        suite = read_suite(path)
        if suite.facts:
            assert not [sentence for sentence in outlook(suite) if "underpowered" in sentence], path.name


def test_rule_6_full_suites_have_five_seeds() -> None:
    seeds = {path.stem: {len(cell.seeds) for cell in read_suite(path).cells if cell.train} for path in SHIPPED}
    trained = {name: counts for name, counts in seeds.items() if counts}
    assert len(trained) >= 8 and all(min(counts) >= 5 for counts in trained.values())
    assert isinstance(TrainTable().seeds, tuple), "a suite that says nothing trains one seed, and its report says so"


def test_i24_one_seed_is_allowed_and_says_so_and_infers_nothing(plain: Page) -> None:
    assert "n = 1, no inference" in plain.text
    assert not [row for row in plain.table("test accuracy (%)") if "±" in row["test accuracy (%)"]]
    assert "95 % interval of" not in plain.text and "p =" not in plain.text


def test_rule_11_the_spread_of_equivalent_implementations_is_the_noise_floor_and_marks_what_is_below_it(
    tmp_path: Path,
) -> None:
    def accuracy(cell: CellPlan, seed: int) -> float:
        shift = 0.4 * (cell.axes["attention"] == "sdpa")
        return 60.0 + seed + shift + 0.2 * (cell.axes["norm"] == "post") - 3.0 * (cell.axes["positions"] == "none")

    plan = factorial(AXES, seeds=tuple(range(8)), time=False, accuracy=accuracy)
    frame = trials_frame(build(tmp_path / "again", plan))
    noise = noise_floor_of(frame[frame["kind"] == "train"])
    assert noise is not None and noise.largest == pytest.approx(0.4)
    report = page_of(tmp_path, plan)
    assert "differ by up to 0.40 points" in report.text and "n = 1, no inference" not in report.text
    assert all("±" in row["test accuracy (%)"] for row in report.table("test accuracy (%)"))
    marked = {r["axis"]: "‡" in r["difference (points)"] for r in report.effects()}
    assert marked == {"norm": True, "positions": False}
