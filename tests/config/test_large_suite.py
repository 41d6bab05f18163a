"""Suites of many cells: what cells share is made once, and says what it said when each was made by itself."""

import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.bad_input import suite_file
from tests.conftest import REPOSITORY
from tests.small import SUITE
from vitbench.analysis.outlook import outlook
from vitbench.cli.overview import print_plan
from vitbench.config import ExpandedSuite, read_suite
from vitbench.runner.plan import plan
from vitbench.store import StudyFolder, StudyInfo, Trials

SHIPPED = sorted((REPOSITORY / "ablations").glob("*.toml"))
MIXED = """
[time]
batch_sizes = [2, 4]
levels = ["model", "block", "attention"]
[axes]
positions = ["learned", "rope_2d"]
patch_size = [[4, 4], 8]
mlp_ratio = [2, 4.0]
train.learning_rate = [1e-3, 3e-4]
train.images = [100, 200]
[[axes.shape]]
name = "short"
set = { depth = 1, train.warmup_epochs = 0.5 }
[[axes.shape]]
name = "long"
set = { depth = 2, data.train_images = 100 }
[tune]
train.weight_decay = [0.0, 0.1]
[[variants]]
name = "by name"
set = { heads = 4, train.epochs = 3 }
published = { test_accuracy = 12.5, source = "nobody" }
"""
FREE = SUITE.replace("epochs = 1\n", "")  # Without a budget, so that an axis may give one


def read(folder: Path, text: str) -> ExpandedSuite:
    return read_suite(folder / suite_file(folder, base=text), max_trials=10**6)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_ids_are_those_of_the_trials_themselves(path: Path) -> None:
    info = plan(read_suite(path, ["data.name=synthetic"] if path.stem != "planted" else [], small=False), "cpu")
    assert info.trials and all(p.id == p.trial.id for p in info.trials)


def test_ids_are_those_of_the_trials_themselves_whatever_the_axes(tmp_path: Path) -> None:
    info = plan(read(tmp_path, FREE.replace("[train]", "[train]\nseeds = 3") + MIXED), "cpu")
    assert {p.trial.kind for p in info.trials} == {"tune", "time"}
    assert all(p.id == p.trial.id for p in info.trials) and len({p.id for p in info.trials}) == len(info.trials)


def test_a_combination_is_what_checking_it_whole_gives(tmp_path: Path) -> None:
    suite = read(tmp_path, FREE + MIXED)
    assert len(suite.cells) == 2**6 + 1
    for cell in suite.cells:
        for spec in (cell.model, cell.data, cell.train, cell.time):
            assert spec is not None and type(spec).model_validate(dict(spec)) == spec
            assert type(spec).model_validate(dict(spec)).canonical() == spec.canonical()
    assert {cell.model.patch_size for cell in suite.cells} == {4, 8}, "one spelling for one size"
    assert [cell.train.epochs for cell in suite.cells if cell.train and cell.train.images is None] == [3]


def test_two_budgets_in_one_combination_are_a_mistake_named_once(tmp_path: Path) -> None:
    axes = "[axes]\ntrain.images = [100, 200]\ntrain.epochs = [1, 2]\nheads = [1, 2, 4]\n"
    with pytest.raises(ValueError, match="are budgets of one run") as caught:
        read(tmp_path, FREE + axes)
    assert len(str(caught.value).splitlines()) == 4


def test_a_plan_is_stored_and_read_as_it_was(tmp_path: Path) -> None:
    info = plan(read(tmp_path, FREE + MIXED), "cpu")
    again = StudyInfo.model_validate_json(info.to_json())
    assert list(again.trials) == list(info.trials) == [*info.trials[:5], *info.trials[5:]]
    assert [*Trials.of(list(info.trials))] == [*info.trials], "made of the trials one by one"
    assert again.to_json() == info.to_json()


@pytest.mark.parametrize("place", [99, -1])
def test_a_plan_that_names_what_is_not_there_is_refused(tmp_path: Path, place: int) -> None:
    text = plan(read(tmp_path, SUITE), "cpu").to_json()
    start = '"rows": [\n'
    assert start in text
    with pytest.raises(ValueError, match="not there"):
        StudyInfo.model_validate_json(text.replace(start, f'{start}["x","train",{place},0,0,0,"cpu","i",0],\n'))


@pytest.mark.parametrize("axis", ["seeds", "cells"])
def test_ten_times_the_trials_cost_no_more_than_about_ten_times_as_much(tmp_path: Path, axis: str) -> None:
    """Wide enough for a busy machine; what is quadratic costs a hundred times as much."""

    def seconds(many: int) -> float:
        text = SUITE.replace("[train]", f"[train]\nseeds = {many if axis == 'seeds' else 1}")
        rates = [round(1e-5 * (1 + i), 10) for i in range(1 if axis == "seeds" else many)]
        text += f"[axes]\ntrain.learning_rate = {rates}\ndepth = {list(range(1, 21))}\n"
        start = time.process_time()
        suite = read(tmp_path, text)
        info = plan(suite, "cpu")
        assert len(info.trials) == 20 * many
        StudyFolder.start(tmp_path / f"study-{many}", info)
        print_plan(suite, "cpu", tmp_path / f"study-{many}", Console(file=StringIO()))
        outlook(suite)
        return time.process_time() - start

    seconds(10)
    few = min(seconds(50) for _ in range(2))
    assert seconds(500) < 30 * few
