"""Each function is trained once a seed: all implementations with the first, and one of them with the others."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.report.markdown import Page, read_page
from tests.runner.runs import Runs, here, planned, sets
from tests.small import SUITE
from vitbench.analysis.factorial import one_at_a_time, runs_of
from vitbench.config import SpecError, TrainTrial
from vitbench.report.view import View
from vitbench.store import StudyFolder, StudyInfo, TrainValues

pytestmark = pytest.mark.xdist_group("once")  # what its fixtures run is run once

GRID = f"""{SUITE.replace("epochs = 1", "epochs = 6")}
learning_rate = 2e-3
seeds = 3
[axes]
norm = ["pre", "post"]
attention = ["per_head", "batched", "sdpa"]
"""
ALL = ("--set", "train.implementations=all")

# Passes the check before its training, and scales its input by what the parameter says in each training step.
DRIFTS = '''
from vitbench import component
from vitbench.components.attention.sdpa import SDPA

@component(slot="attention", name="drifts", exact=True, source="test")
class Drifts(SDPA):
    """Another function in batches of more than eight images."""
    def attend(self, q, k, v):
        return super().attend(q, k, v) * (0.2 if len(q) > 8 else 1.0)
'''


def seeds_of(info: StudyInfo) -> dict[str, list[int]]:
    seeds: dict[str, list[int]] = {}
    for each in info.trials:
        if isinstance(each.trial, TrainTrial):
            seeds.setdefault(each.cell, []).append(each.trial.seed)
    return seeds


def page_of(runs: Runs) -> Page:
    runs.report()
    return read_page(runs.folder / "report")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A grid of two functions, three implementations each, in three seeds."""
    runs = Runs(tmp_path_factory.mktemp("once") / "grid", GRID)
    runs.complete()
    return runs


def test_further_seeds_are_planned_for_one_of_each_class(tmp_path: Path) -> None:
    info = planned(tmp_path, GRID)
    seeds = seeds_of(info)
    assert len(info.trials) == 6 + 2 * 2
    assert Counter(map(tuple, seeds.values())) == {(0, 1, 2): 2, (0,): 4}
    assert [cell for cell, its in seeds.items() if len(its) == 3] == ["pre · per_head", "post · per_head"]
    every = planned(tmp_path, GRID, "train.implementations=all")
    assert len(every.trials) == 18 and {p.id for p in info.trials} < {p.id for p in every.trials}, "ids are the same"
    assert len(planned(tmp_path, GRID, "train.ensemble_seeds=true").trials) == 10


def test_what_does_not_run_on_the_device_stands_for_nobody(tmp_path: Path) -> None:
    seeds = seeds_of(planned(tmp_path, GRID, 'axes.attention=["triton", "sdpa", "batched"]'))
    assert [cell for cell, its in seeds.items() if len(its) == 3] == ["pre · sdpa", "post · sdpa"]
    assert seeds["pre · triton"] == [0]
    on_gpu = seeds_of(planned(tmp_path, GRID, 'axes.attention=["triton", "sdpa", "batched"]', device="cuda"))
    assert [cell for cell, its in on_gpu.items() if len(its) == 3] == ["pre · triton", "post · triton"]


def test_other_functions_data_and_recipes_are_no_class(tmp_path: Path) -> None:
    def trials(axes: str) -> int:
        return len(planned(tmp_path, f"{SUITE}\nseeds = 3\n[axes]\n{axes}").trials)

    assert trials('norm = ["pre", "post"]\npositions = ["learned", "none"]') == 4 * 3
    assert trials('train.epochs = [1, 2]\nattention = ["sdpa", "mha"]') == 4 + 2 * 2
    assert trials('data.pixel_noise = [0.1, 0.2]\nattention = ["sdpa", "mha"]') == 4 + 2 * 2
    assert trials('attention = ["sdpa", "mha", "none"]') == 3 + 2 + 2
    with pytest.raises(SpecError, match=r"all cells of a study have the same train\.implementations"):
        trials('train.implementations = ["one", "all"]')


def test_a_grid_is_trained_once_a_seed(grid: Runs) -> None:
    study = StudyFolder.read(grid.study)
    assert study.info.implementations == "one" and not study.info.split
    assert grid.states() == {"ok": 10} and len(study.info.trials) == 10
    sentence = (
        "6 cells are 2 functions: equivalent implementations are all trained with the first seed, and one of them "
        'with the others: 10 trainings, where train.implementations = "all" has 18'
    )
    asked = here("plan", str(grid.suite), "--results", str(grid.study), "--device", "cpu").stdout
    assert sentence in " ".join(asked.split()) and "0 left to run" in asked
    assert sentence in " ".join(here("status", str(grid.study)).stdout.split())
    again = grid.run_here()
    assert "10 trials, 10 of them finished before" in again.stdout and grid.states() == {"ok": 10}


@pytest.fixture(scope="module")
def disagreeing(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("split") / "split", GRID)
    (runs.folder / "drifts.py").write_text(DRIFTS)
    changes = sets('axes.norm=["pre"]', 'axes.attention=["sdpa", "mha", "drifts"]')
    printed = runs.complete("--plugin", str(runs.folder / "drifts.py"), *changes)
    assert "these implementations disagree with the first seed, and are trained with every one" in printed
    return runs


def test_a_class_that_disagrees_with_the_first_seed_is_trained_with_all(disagreeing: Runs) -> None:
    study = StudyFolder.read(disagreeing.study)
    assert disagreeing.states() == {"ok": 9} and len(study.info.trials) == 9
    (split,) = study.info.split
    assert split.cells == ("pre · sdpa", "pre · mha", "pre · drifts")
    assert split.reason.startswith("training loss of the first epoch of pre · sdpa and pre · drifts: ")


def test_one_that_cannot_be_trained_gives_way(tmp_path: Path) -> None:
    """The first of the class fails with the first seed: the next stands for the class."""
    runs = Runs(tmp_path, GRID)
    fails = DRIFTS.replace("drifts", "fails").replace("0.2 if len(q) > 8 else 1.0", "1 // (len(q) <= 8)")
    (runs.folder / "fails.py").write_text(fails)
    changes = sets('axes.norm=["pre"]', 'axes.attention=["fails", "sdpa", "mha"]', "suite.max_attempts=1")
    assert runs.run_here("--plugin", str(runs.folder / "fails.py"), *changes).returncode == 1
    ok = {
        (r.trial.model.attention, getattr(r.trial, "seed", None))
        for r in runs.records()
        if isinstance(r.values, TrainValues)
    }
    assert ok == {("sdpa", 0), ("sdpa", 1), ("sdpa", 2), ("mha", 0)}


def test_ensembles_of_one_implementation_stand_for_the_others(tmp_path: Path) -> None:
    runs = Runs(tmp_path, GRID)
    runs.complete(*sets("train.ensemble_seeds=true", 'axes.norm=["pre"]', 'axes.attention=["sdpa", "batched"]'))
    ensemble = {(r.trial.model.attention, getattr(r.trial, "seed", None)): r.values.ensemble_size
               for r in runs.records() if isinstance(r.values, TrainValues)}  # fmt: skip
    assert ensemble == {("sdpa", 0): 3, ("sdpa", 1): 3, ("sdpa", 2): 3, ("batched", 0): 1}


def test_the_effect_is_that_of_the_full_grid_and_a_function_has_one_row(grid: Runs, tmp_path: Path) -> None:
    """Implementations end equal on a CPU, so that the numbers are, too."""
    full = Runs(tmp_path, GRID)
    shutil.copytree(grid.study, full.study)
    assert "18 trials, 10 of them finished before" in full.run_here(*ALL).stdout
    pages = {name: page_of(runs) for name, runs in (("once", grid), ("full", full))}
    effects = {name: page.table("difference (points)") for name, page in pages.items()}
    assert effects["once"] and effects["once"] == effects["full"]
    assert effects["once"][-1]["difference (points)"] != "0.00", "a difference of nothing would prove nothing"
    views = {name: View(StudyFolder.read(runs.study)) for name, runs in (("once", grid), ("full", full))}
    (one,), (other,) = (view.conclusions for view in views.values())
    assert one.judged and [j.comparison for j in one.judged] == [j.comparison for j in other.judged]
    mean = "test_accuracy_pct_mean"
    assert list(views["once"].by_cell[mean]) == pytest.approx(list(views["full"].by_cell[mean]), abs=1e-9)
    assert set(views["once"].by_cell["n"]) == {3} and sorted(views["once"].cost_by_cell["n"]) == [1, 1, 1, 1, 3, 3]
    assert views["once"].noise and views["once"].noise.runs == 6, "a run is not its own equivalent"
    rows = {name: page.table("test accuracy (%)") for name, page in pages.items()}
    assert [row["attention"] for row in rows["once"]] == ["per_head | batched | sdpa"] * 2
    assert [row["test accuracy (%)"] for row in rows["once"]] == [row["test accuracy (%)"] for row in rows["full"]]
    assert "4 of the cells were trained with the first seed alone" in pages["once"].text


def test_the_report_says_where_implementations_disagree(disagreeing: Runs) -> None:
    text = page_of(disagreeing).text
    assert "Implementations that disagree: pre · sdpa, pre · mha, pre · drifts should compute one function" in text


def test_nobody_is_compared_with_its_own_run(grid: Runs) -> None:
    """Two implementations, of which one stands for the other, differ in the seed that both are trained with alone."""
    (runs,) = runs_of(View(StudyFolder.read(grid.study)).judged, ["norm", "attention"])
    (pair,) = one_at_a_time(runs, ["pre · per_head", "pre · sdpa"])
    assert pair.seeds == (0,) and pair.equivalent
    (other,) = one_at_a_time(runs, ["pre · batched", "post · sdpa"])
    assert other.seeds == (0, 1, 2)


def test_what_is_unsupported_is_said_once_and_the_time_left_with_each_trial(tmp_path: Path) -> None:
    runs = Runs(tmp_path, GRID.replace('"per_head", "batched", "sdpa"', '"sdpa", "triton"'))
    asked = here("plan", str(runs.suite), "--results", str(runs.study), "--device", "cpu").stdout
    reason = 'attention "triton" runs on cuda, not on cpu'
    assert asked.count("triton") == 1 and f"unsupported: 2 train: {reason}" in asked
    done = runs.run_here()
    assert done.returncode == 0 and runs.states() == {"ok": 6, "unsupported": 2}
    first, *lines = done.stdout.splitlines()
    assert first.endswith("device cpu") and lines[0].startswith("cost of what is left: ")
    assert sum(reason in line for line in lines) == 2, "when it is met, and in the counts at the end"
    ended = [line for line in lines if ": ok, test" in line]
    assert len(ended) == 6 and all(line.endswith(" left") for line in ended[:-1]) and not ended[-1].endswith(" left")
