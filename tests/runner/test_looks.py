"""Studies that look at their results on the way: what is decided stops, whoever runs the rest."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.runner.runs import Runs, here, killed, planned
from vitbench.config import SpecError, TrainTrial, read_suite
from vitbench.report.sections.caveats import stated
from vitbench.report.view import View
from vitbench.runner.look_plan import nothing_stops
from vitbench.runner.plan import plan
from vitbench.store import StudyFolder, StudyInfo

pytestmark = pytest.mark.xdist_group("looks")

SUITE = """
[suite]
name = "looks"
question = "Does it stop?"
[model]
image_size = 16
patch_size = 4
num_classes = 4
dim = 32
depth = 1
heads = 2
[data]
name = "synthetic"
resize = 16
colour_classes = 4
texture_classes = 0
position_classes = 0
train_images = 400
test_images = 100
validation_images = 0
[train]
epochs = 10
batch_size = 50
learning_rate = 4e-3
seeds = { at_most = 8, looks = [4, 6, 8] }
"""
VARIANTS = """
[[variants]]
name = "base"
[[variants]]
name = "one step"
set."train.images" = 50
[[variants]]
name = "hardly smoothed"
set."train.label_smoothing" = 1e-6
"""


def seeds_of(info: StudyInfo) -> dict[str, int]:
    return dict(Counter(p.cell for p in info.trials if isinstance(p.trial, TrainTrial)))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A large effect, which six seeds show, and a null without a margin, which goes on to the last."""
    runs = Runs(tmp_path_factory.mktemp("looks") / "study", SUITE + VARIANTS)
    runs.complete()
    return runs


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("{ at_most = 8, looks = [4, 8, 6] }", "looks: must ascend, each number of seeds once, got [4, 8, 6]"),
        ("{ at_most = 8, looks = [4, 6] }", "train.seeds.looks: must end with at_most, 8, got [4, 6]"),
        ("{ at_most = 8, looks = [2, 8] }", "train.seeds.looks: no comparison is decided by fewer than 4 seeds"),
        ("{ at_most = 8, looks = [] }", "train.seeds.looks: must be an array of 1 or more values, or left out"),
        ("{ at_most = 3 }", "train.seeds.at_most: must be >= 4, got integer 3"),
        ("{ at_most = 8, look = [4, 8] }", 'train.seeds.look: unknown key; did you mean "looks"?'),
        ("{ looks = [4, 8] }", "train.seeds.at_most: is required"),
        ('"many"', 'train.seeds: must be an array or an integer or a table, got "many"'),
        ("8\n[tune]\ntrain.weight_decay = [0.0, 0.1]", ""),
        ("{ at_most = 8 }\n[tune]\ntrain.weight_decay = [0.0, 0.1]", "train.seeds: no suite both looks and tunes"),
    ],
)  # fmt: skip
def test_looks_are_checked(tmp_path: Path, seeds: str, message: str) -> None:
    text = SUITE.replace("{ at_most = 8, looks = [4, 6, 8] }", seeds).replace("images = 0", "images = 40")
    if not message:
        assert planned(tmp_path, text).looks is None
        return
    with pytest.raises(SpecError) as error:
        planned(tmp_path, text)
    assert message in str(error.value) and len(error.value.messages) == 1


def test_looks_are_set_on_the_command_line(tmp_path: Path) -> None:
    def looks(*overrides: str, seeds: str = "3") -> tuple[tuple[int, ...], tuple[int, ...]]:
        (tmp_path / "s.toml").write_text(SUITE.replace("{ at_most = 8, looks = [4, 6, 8] }", seeds))
        cell = read_suite(tmp_path / "s.toml", overrides).cells[0]
        assert cell.train is not None
        return cell.train.looks, cell.seeds

    assert looks("train.seeds.at_most=12", "suite.seed=2") == ((4, 6, 8, 12), tuple(range(2000, 2012)))
    assert looks("train.seeds.at_most=7", seeds="{ at_most = 12, looks = [5, 12] }")[0] == (5, 7)
    assert looks("train.seeds.at_most=5", seeds="[7, 8]")[0] == (4, 5)
    assert looks("train.seeds=5", seeds="{ at_most = 12 }") == ((), tuple(range(5)))


def test_before_the_first_look_every_cell_has_its_seeds_and_ids_are_those_of_other_plans(tmp_path: Path) -> None:
    info = planned(tmp_path, SUITE + VARIANTS)
    assert seeds_of(info) == dict.fromkeys(("base", "one step", "hardly smoothed"), 4)
    assert info.looks is not None and info.looks.trainings == 24 and info.looks.seeds == tuple(range(8))
    fixed = planned(tmp_path, SUITE + VARIANTS, "train.seeds=8")
    assert fixed.looks is None and {p.id for p in info.trials} < {p.id for p in fixed.trials}
    whole = plan(read_suite(tmp_path / "suite.toml"), "cpu", wanted=nothing_stops)
    assert [p.id for p in whole.trials] == [p.id for p in fixed.trials]
    asked = here("plan", str(tmp_path / "suite.toml"), "--results", str(tmp_path / "none"), "--device", "cpu").stdout
    both = re.findall(r"cost of what is left: ([0-9.]+) GFLOP", asked)
    assert len(both) == 2 and float(both[0]) < float(both[1]) and "if nothing stops early, cost of what" in asked


def test_what_is_decided_stops_and_everything_says_so(study: Runs) -> None:
    read = StudyFolder.read(study.study)
    assert seeds_of(read.info) == {"base": 8, "one step": 6, "hardly smoothed": 8}
    assert study.states() == {"ok": 22}
    sentence = (
        "results are looked at after 4, 6, 8 seeds: 22 trainings by now, at most 24; "
        "cells by their seeds: 1 with 6, 2 with 8"
    )
    assert sentence in " ".join(here("status", str(study.study)).stdout.split())
    asked = here("plan", str(study.suite), "--results", str(study.study), "--device", "cpu").stdout
    assert sentence in " ".join(asked.split()) and "0 left to run" in asked and "stops early" not in asked
    (place,) = View(read).conclusions
    assert [(j.verdict, j.look) for j in place.variants] == [("worse", 6), ("undecided", 8)]
    page = study.report()
    assert "tested after 4, 6 and 8 seeds" in page
    assert "Of at most 24 trainings 22 were planned by the last look, 2 fewer" in page
    assert "95 % interval" not in page.partition("## Effects")[2].partition("## Accuracy")[0]
    assert "Seeds added after a look" not in page


@pytest.mark.slow
def test_a_study_that_was_killed_goes_on_with_the_same_plan(study: Runs, tmp_path: Path) -> None:
    runs = Runs(tmp_path / "killed", SUITE + VARIANTS)
    for finished in (3, 13, 20):
        process = runs.start("--heartbeat", "0.2")
        runs.wait_for(finished)
        killed(process)
    runs.complete("--heartbeat", "0.2")
    same_plan_and_verdicts(runs, study)


@pytest.mark.slow
def test_two_drivers_come_to_the_same_plan_as_one(study: Runs, tmp_path: Path) -> None:
    runs = Runs(tmp_path / "two", SUITE + VARIANTS)
    drivers = [runs.start(log=f"log{i}") for i in range(2)]
    assert [driver.wait(300) for driver in drivers] == [0, 0]
    runs.complete()
    same_plan_and_verdicts(runs, study)


def same_plan_and_verdicts(runs: Runs, study: Runs) -> None:
    folder, other = StudyFolder.read(runs.study), StudyFolder.read(study.study)
    assert {p.id for p in folder.info.trials} == {p.id for p in other.info.trials}
    ok = [r.trial_id for r in runs.records() if r.state == "ok"]
    assert sorted(ok) == sorted(p.id for p in folder.info.trials), "nothing is trained twice, or beside the plan"
    (one,), (two,) = View(folder).conclusions, View(other).conclusions
    assert [(j.verdict, j.look, j.mean) for j in one.judged] == [(j.verdict, j.look, j.mean) for j in two.judged]


def test_seeds_outside_the_plan_are_told(study: Runs) -> None:
    """Last, for it adds to the study's plan."""
    runs = study
    suite = read_suite(runs.suite, ["train.seeds.at_most=10"])
    assert all(cell.train is not None and cell.train.looks[-2:] == (8, 10) for cell in suite.cells), "8 was looked at"
    more = plan(suite, "cpu", wanted=nothing_stops)
    begun = StudyFolder.start(runs.study, more)
    before, after = (set(values) for values in begun.history.steps()[-1].entry.changed["seeds"])
    assert after - before == {8, 9} and len(before) == 8, "the seeds of a look that is to come are no news"
    assert "seeds 8, 9 added" in dict(stated(View(begun)))["seeds-changed"]


@pytest.mark.slow
def test_equivalent_implementations_are_trained_once_and_go_on_together(tmp_path: Path) -> None:
    runs = Runs(tmp_path, f'{SUITE}\n[axes]\nattention = ["sdpa", "batched"]\npositions = ["learned", "none"]\n')
    runs.complete("--set", "train.seeds.at_most=5", "--set", "train.ensemble_seeds=true")
    read = StudyFolder.read(runs.study)
    assert seeds_of(read.info) == {"sdpa · learned": 5, "sdpa · none": 5, "batched · learned": 1, "batched · none": 1}
    (place,) = View(read).conclusions
    assert [judged.look for judged in place.judged] == [5] and place.judged[0].n == 5
    assert place.seeds == dict.fromkeys(place.runs.function_of, 5)
