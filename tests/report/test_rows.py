"""Rows of the table of accuracy: equivalent implementations are one row, and every cell is in its CSV."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, build, factorial, written
from tests.report.markdown import read_page
from vitbench.store import Study

TWINS = {"attention": ("per_head", "batched"), "norm": ("pre", "post")}


def test_equivalent_implementations_are_one_row_whose_seeds_are_means_over_them(tmp_path: Path) -> None:
    def accuracy(cell: CellPlan, seed: int) -> float:
        return 40.0 + 2 * (cell.axes["norm"] == "pre") + seed + (cell.label == "batched · post")

    study = build(tmp_path / "study", factorial(TWINS, seeds=(0, 1), accuracy=accuracy, time=False))
    page = read_page(written(study, tmp_path / "out").parent)
    rows = page.table("test accuracy (%)", "Accuracy")
    found = [(row["attention"], row["norm"], row["test accuracy (%)"]) for row in rows]
    assert found == [("per_head | batched", "pre", "42.5 ± 0.7"), ("per_head | batched", "post", "41.0 ± 0.7")]
    assert [float(row["test_accuracy_pct_mean"]) for row in page.csv("accuracy")] == [42.5, 40.5, 42.5, 41.5]


def test_the_36_cells_of_the_reference_study_are_six_rows_and_all_are_in_the_numbers(tmp_path: Path) -> None:
    """Of its 48 cells 12 cannot run on a CPU."""
    study = Study.read(REPOSITORY / "results" / "reference" / "components-cpu")
    page = read_page(written(study, tmp_path).parent)
    rows = page.table("test accuracy (%)", "Accuracy")
    assert len({(row["norm"], row["positions"]) for row in rows}) == len(rows) == 6
    assert len({row["cell"] for row in page.csv("accuracy") if row["state"] == "ok"}) == 36
