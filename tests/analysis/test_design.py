"""Axes that change what is classified change the task: no verdict compares accuracies of different images."""

from pathlib import Path

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, factorial, page_of
from vitbench.analysis.design import images, task_axes
from vitbench.analysis.outlook import families
from vitbench.config import read_suite
from vitbench.report.view import View
from vitbench.store import StudyFolder


def task_axes_of(name: str) -> set[str]:
    suite = read_suite(REPOSITORY / "ablations" / f"{name}.toml")
    return task_axes((cell.axes, images(cell.data, cell.model.num_classes)) for cell in suite.cells)


def test_classes_change_the_task_and_components_and_recipes_do_not() -> None:
    assert task_axes_of("planted") == {"task"}
    assert task_axes_of("components") == task_axes_of("norm-placement") == set()
    assert families(read_suite(REPOSITORY / "ablations" / "planted.toml"))["effects of axes"] == 3


def test_a_report_compares_components_in_each_task_and_no_tasks(tmp_path: Path) -> None:
    def accuracy(cell: CellPlan, seed: int) -> float:
        few = cell.axes["num_classes"] == 4
        return 50.0 + 30.0 * few + seed % 2 - (20.0 if cell.axes["positions"] == "none" and few else 0.0)

    axes = {"num_classes": (4, 10), "positions": ("learned", "none")}
    page = page_of(tmp_path, factorial(axes, seeds=tuple(range(8)), time=False, accuracy=accuracy, margin=1.0))
    view = View(StudyFolder.read(tmp_path / "study"))
    assert (view.task_axes, view.under_study, view.equivalent_axes) == (["num_classes"], ["positions"], [])
    assert [r["axis"] for r in page.effects()] == ["positions"]
    (interaction,) = page.table("interaction", "Interactions")
    assert (interaction["difference (points)"], interaction["verdict"]) == ("+20.00", "better together")
