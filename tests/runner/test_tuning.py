"""Nuisance axes: tuned alike for each cell, on validation, before the seeds whose test accuracy counts."""

import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.report.builders import render
from tests.report.markdown import read_page
from tests.runner.runs import here, planned
from tests.small import MODEL, SUITE
from vitbench.config import SpecError, TrainTrial, TuneTrial
from vitbench.model.build import build_model
from vitbench.model.counting import parameters_of
from vitbench.model.weights import save_weights
from vitbench.runner.cost import trial_flops
from vitbench.runner.plan import NO_SETTING
from vitbench.store import StudyFolder, TrainValues, Trials, TuneValues

pytestmark = pytest.mark.xdist_group("tuning")  # what its fixtures run is run once

TUNED = f"""{SUITE}
seeds = 2
[axes]
positions = ["learned", "none"]
[tune]
seeds = 2
train.learning_rate = [1e-6, 1e-2]
"""


def run(folder: Path, text: str = TUNED, *options: str) -> subprocess.CompletedProcess[str]:
    suite = folder / "small.toml"
    suite.write_text(text)
    return here("run", str(suite), "--results", str(folder / "study"), "--device", "cpu", *options)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_cell_gets_the_same_number_of_tuning_runs_and_none_reads_the_test_images(tuned: Path) -> None:
    study = StudyFolder.read(tuned / "study")
    tuning = [p for p in study.info.trials if isinstance(p.trial, TuneTrial)]
    assert len(tuning) == 2 * 2 * 2
    for label in ("learned", "none"):
        assert sorted(p.setting["train.learning_rate"] for p in tuning if p.cell == label) == [1e-6, 1e-6, 1e-2, 1e-2]
    outcomes = study.outcomes()
    for each in tuning:
        values = outcomes[each.id].values
        assert isinstance(values, TuneValues) and not any("test" in name for name in type(values).model_fields)


def test_the_setting_with_the_best_validation_goes_on_to_all_seeds(tuned: Path) -> None:
    study = StudyFolder.read(tuned / "study")
    outcomes = study.outcomes()
    for label in ("learned", "none"):
        scores: dict[float, list[float]] = {}
        for each in study.info.trials:
            values = outcomes[each.id].values
            if each.cell == label and isinstance(values, TuneValues):
                rate = each.trial.train.learning_rate
                scores.setdefault(rate, []).append(values.validation_accuracy_pct - values.validation_loss / 1000)
        best = max(scores, key=lambda rate: sum(scores[rate]))
        runs = [p for p in study.info.trials if p.cell == label and isinstance(p.trial, TrainTrial)]
        assert [p.trial.seed for p in runs] == [0, 1]
        assert {p.trial.train.learning_rate for p in runs} == {best}
        assert all(p.setting == {"train.learning_rate": best} for p in runs)
        assert all(isinstance(outcomes[p.id].values, TrainValues) for p in runs)


def test_tuning_has_seeds_of_its_own(tuned: Path) -> None:
    trials = [p.trial for p in StudyFolder.read(tuned / "study").info.trials]
    tuning = {t.seed for t in trials if isinstance(t, TuneTrial)}
    assert not tuning & {t.seed for t in trials if isinstance(t, TrainTrial)}


def test_what_is_tuned_is_not_tuned_again(tuned: Path) -> None:
    before = {f.name: f.read_bytes() for f in (tuned / "study" / "records").iterdir()}
    again = run(tuned)
    assert again.returncode == 0 and "12 of them finished before" in again.stdout
    assert {f.name: f.read_bytes() for f in (tuned / "study" / "records").iterdir()} == before


def test_training_waits_for_tuning(tmp_path: Path) -> None:
    info = planned(tmp_path, TUNED)
    assert {p.trial.kind for p in info.trials} == {"tune"} and info.untuned == ("learned", "none")


def diverging(folder: Path, rates: str) -> tuple[int, StudyFolder]:
    text = TUNED.replace("seeds = 2", "seeds = 1").replace("[1e-6, 1e-2]", rates).replace(', "none"', "")
    done = run(folder, text, "--set", "train.schedule=constant")
    return done.returncode, StudyFolder.read(folder / "study")


def test_a_setting_that_diverges_is_not_chosen(tmp_path: Path) -> None:
    status, study = diverging(tmp_path, "[1e12, 1e-3]")
    states = {(p.trial.kind, p.setting["train.learning_rate"]): study.outcomes()[p.id].state for p in study.info.trials}
    assert states == {("tune", 1e12): "diverged", ("tune", 1e-3): "ok", ("train", 1e-3): "ok"}
    assert status == 1, "a diverged trial is no success"


@pytest.mark.slow
def test_a_cell_of_which_no_setting_finishes_is_named_and_not_trained(tmp_path: Path) -> None:
    status, study = diverging(tmp_path, "[1e12]")
    assert study.info.excluded == (("learned", NO_SETTING),) and status == 1
    assert [p.trial.kind for p in study.info.trials] == ["tune"]


def test_a_run_takes_the_steps_of_its_budget(tmp_path: Path) -> None:
    """A budget of 400 images: two epochs of 4 steps, and 80 images of a third."""
    text = TUNED[: TUNED.index("[tune]")].replace("epochs = 1\n", "").replace("seeds = 2", "seeds = 1")
    done = run(tmp_path, text, "--set", "train.images=400")
    assert done.returncode == 0, done.stdout + done.stderr
    study = StudyFolder.read(tmp_path / "study")
    outcomes = {p.cell: study.outcomes()[p.id].values for p in study.info.trials}
    steps = {cell: values.steps for cell, values in outcomes.items() if isinstance(values, TrainValues)}
    assert steps == {"learned": 10, "none": 10}


def test_a_budget_of_operations_gives_deeper_models_fewer_images(tmp_path: Path) -> None:
    deeper = SUITE + "[axes]\ndepth = [1, 2, 4]\n"
    info = planned(tmp_path, deeper.replace("epochs = 1\n", ""), "train.flops=1e9")
    images = {p.trial.model.depth: p.trial.train.images for p in info.trials}
    assert images[1] and images[2] and images[4] and images[1] > images[2] > images[4]
    assert [trial_flops(p.trial, 160) for p in info.trials] == pytest.approx([1e9] * 3, rel=0.02)
    info = planned(tmp_path, deeper, "train.match=flops")
    matched = {p.cell: p.trial.train.images for p in info.trials}
    assert matched["depth=1"] is None, "the first cell keeps its epochs"
    flops = [trial_flops(p.trial, 160) for p in info.trials]
    assert flops == pytest.approx([flops[0]] * 3, rel=0.02)


STAGES = """
[[axes.recipe]]
name = "plain"
[[axes.recipe]]
name = "probe"
set.train.frozen = true
[[axes.recipe]]
name = "pre-trained"
set.train.pretrain_epochs = 3
[[axes.recipe]]
name = "taught"
set.train.distillation = "soft"
set.train.teacher_epochs = 1
"""


def test_a_budget_of_operations_counts_every_stage_of_training(tmp_path: Path) -> None:
    """A frozen model has no backward pass, and pre-training and a teacher are paid for."""
    text = SUITE.replace("epochs = 1\n", "epochs = 100\n") + STAGES
    for override in ("train.flops=1e11", "train.match=flops"):
        trials = {p.cell: p.trial for p in planned(tmp_path, text, override).trials}
        wanted = 1e11 if override == "train.flops=1e11" else trial_flops(trials["plain"], 160)
        assert [trial_flops(trial, 160) for trial in trials.values()] == pytest.approx([wanted] * 4, rel=0.01)
    images = {cell: trial.train.images for cell, trial in trials.items() if isinstance(trial, TrainTrial)}
    by_images = planned(tmp_path, text, "axes.data.train_images=[200, 120]", "train.match=flops").trials
    assert [trial_flops(p.trial, p.trial.data.train_images - 40) for p in by_images] == pytest.approx(
        [wanted] * 8, rel=0.01
    )
    assert images["plain"] is None and images["probe"] == 3 * 100 * 160
    with pytest.raises(SpecError, match=r"plain: a budget of 1e\+06 operations leaves no image to train on"):
        planned(tmp_path, text, "train.flops=1e6")


def test_matched_parameters_are_those_of_the_first_cell_as_nearly_as_widths_allow(tmp_path: Path) -> None:
    text = SUITE + '[axes]\nmlp = ["gelu", "swiglu", "relu"]\n'
    plain, matched = planned(tmp_path, text), planned(tmp_path, text, "train.match=parameters")
    counts = [[parameters_of(p.trial.model) for p in info.trials] for info in (plain, matched)]
    assert counts[0][0] == counts[1][0], "the first cell is as it was asked for"
    assert counts[0][1] != counts[0][0]
    dim = matched.trials[0].trial.model.dim
    step = 8 * (3 * dim + 2)  # SwiGLU's width goes in eights, of three matrices and two biases
    assert abs(counts[1][1] - counts[1][0]) <= step / 2 and counts[1][2] == counts[1][0]
    with pytest.raises(SpecError, match="has no MLP whose width could match"):
        planned(tmp_path, SUITE + '[axes]\nmlp = ["gelu", "none"]\n', "train.match=parameters")


def test_timing_leaves_the_plan_of_training_as_it_is(tuned: Path, tmp_path: Path) -> None:
    shutil.copytree(tuned / "study", tmp_path / "study")
    before = StudyFolder.read(tmp_path / "study").info
    text = TUNED + '[time]\nrounds = 1\niterations = 3\nwarmup = 1\nmodes = ["inference"]\n'
    after = StudyFolder.start(tmp_path / "study", planned(tmp_path, text, kinds=("time",))).info
    assert {p.trial.kind for p in after.trials} == {"tune", "train", "time"}
    assert after.tuned == before.tuned and after.untuned == before.untuned and after.facts == before.facts
    assert {p.id for p in before.trials} < {p.id for p in after.trials}


def test_a_cell_that_is_tuned_anew_keeps_no_run_of_its_old_setting(tuned: Path, tmp_path: Path) -> None:
    """Even where another cell goes on with that setting now."""
    shutil.copytree(tuned / "study", tmp_path / "study")
    info = StudyFolder.read(tmp_path / "study").info
    swapped = {1e-6: 1e-2, 1e-2: 1e-6}
    trials = []
    for each in info.trials:
        if isinstance(each.trial, TrainTrial) and each.cell == "learned":
            rate = swapped[each.trial.train.learning_rate]
            recipe = each.trial.train.model_copy(update={"learning_rate": rate})
            trial = each.trial.model_copy(update={"train": recipe})
            trials.append(each.model_copy(update={"trial": trial, "id": trial.id}))
        else:
            trials.append(each)
    again = StudyFolder.start(tmp_path / "study", info.model_copy(update={"trials": Trials.of(trials)})).info
    assert [p.id for p in again.trials] == [p.id for p in trials]


def test_tuning_that_is_stopped_goes_on_where_it_was(tuned: Path, tmp_path: Path) -> None:
    """A study with half of its tuning runs and none of what follows comes to the same choice and the same runs."""
    study = StudyFolder.read(tuned / "study")
    shutil.copytree(tuned / "study", tmp_path / "study")
    tuning = [p.id for p in study.info.trials if p.trial.kind == "tune"]
    for file in (tmp_path / "study" / "records").iterdir():
        if file.name.partition("-")[0] not in tuning[: len(tuning) // 2]:
            file.unlink()
    done = run(tmp_path)
    assert done.returncode == 0 and "4 of them finished before" in done.stdout, done.stdout + done.stderr
    again = StudyFolder.read(tmp_path / "study")
    assert {p.id for p in again.info.trials} == {p.id for p in study.info.trials}
    for trial_id, record in study.outcomes().items():
        if isinstance(record.values, TrainValues):
            repeated = again.outcomes()[trial_id].values
            assert isinstance(repeated, TrainValues) and repeated.test_loss == record.values.test_loss


def test_the_report_shows_every_setting_and_the_chosen_one_in_bold(tuned: Path) -> None:
    study = StudyFolder.read(tuned / "study")
    render(study, tuned / "report")
    page = read_page(tuned / "report")
    rows = page.table("learning_rate=1e-06", "Tuning")
    assert [r["cell"] for r in rows] == ["learned", "none"]
    source = (tuned / "report" / "report.md").read_text()
    tuning = source[source.index("## Tuning") : source.index("## Setup")]
    assert tuning.count("**") == 2 * 2, "one setting of each cell in bold"
    assert "Tuned for each cell on validation, with as many runs for each: train.learning_rate" in page.text
    assert "some: weight decay" in page.text, "what is not tuned is still a caveat"


def test_weights_that_change_during_the_run_end_its_trials_and_change_no_plan(tmp_path: Path) -> None:
    """A study is planned anew once its tuning is over, here by a file that is another by then."""
    weights = save_weights(build_model(MODEL, seed=1), tmp_path / "weights.safetensors")

    def change() -> None:
        while not [*(tmp_path / "study" / "records").glob("*.json")]:
            time.sleep(0.01)
        save_weights(build_model(MODEL, seed=2), weights)

    changing = threading.Thread(target=change, daemon=True)
    changing.start()
    tuned = f"{SUITE}pretrained = '{weights}'\nseeds = 1\n[tune]\ntrain.learning_rate = [1e-6, 1e-2]\n"
    done = run(tmp_path, tuned)
    changing.join(timeout=10)
    assert done.returncode == 1 and "base, seed 0: failed" in done.stdout and "it was changed since" in done.stdout
    assert "outside the plan" not in here("status", str(tmp_path / "study")).stdout
