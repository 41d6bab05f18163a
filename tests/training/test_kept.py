"""Weights that a study keeps are those by which its test accuracy was read."""

from pathlib import Path
from typing import Any

import pytest
import torch

import vitbench
from tests.runner.runs import Runs
from tests.small import MODEL, TRAIN, train_trial
from tests.training.stages import CPU, silent
from vitbench.config import ModelSpec
from vitbench.config.trial import TrainTrial, mismatches
from vitbench.data.load import splits
from vitbench.model.timm_weights import to_timm
from vitbench.model.weights import SUFFIX, read_about
from vitbench.store import TrainValues
from vitbench.training.loop import train, train_ensemble

OPTIONS: list[dict[str, Any]] = [
    {}, {"ema": 0.9}, {"frozen": True}, {"distillation": "soft", "teacher_epochs": 1}, {"pretrain_epochs": 1},
]  # fmt: skip


def loss_of(trial: TrainTrial, folder: Path) -> float:
    """On the test images, of the model in the file, in one batch."""
    test = splits(trial.data, trial.model, trial.seed)
    model = vitbench.load_model(folder / f"{trial.id}{SUFFIX}")
    with torch.no_grad():
        logits = model(test.normalise(test.test.pixels))
    return float(torch.nn.functional.cross_entropy(logits, test.test.labels))


@pytest.mark.parametrize("option", OPTIONS, ids=str)
@pytest.mark.parametrize("model", [MODEL, ModelSpec(architecture="cnn", image_size=16)], ids=["vit", "cnn"])
def test_a_file_gives_the_loss_that_was_recorded(model: ModelSpec, option: dict[str, Any], tmp_path: Path) -> None:
    trial = train_trial(model=model, train=TRAIN.model_copy(update={**option, "epochs": 2}))
    if mismatches(trial.model, trial.train):
        pytest.skip("an architecture that cannot be trained so")
    values = train(trial, CPU, silent, weights=tmp_path)
    assert loss_of(trial, tmp_path) == pytest.approx(values.test_loss, rel=1e-5)
    about = read_about(tmp_path / f"{trial.id}{SUFFIX}")
    assert about["trial"] == trial.id and len(about["mean"]) == len(about["std"]) == 3
    assert about["classes"] == list(splits(trial.data, trial.model, 0).class_names)


def test_a_folder_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("a file where the folder should be")
    lines: list[str] = []
    values = train(train_trial(), CPU, lines.append, weights=tmp_path / "weights")
    assert values.test_loss > 0 and "its weights are not kept" in lines[-1] and values.notices == (lines[-1],)


@pytest.mark.parametrize("changes", [{}, {"attention": "batched", "norm_layer": "rmsnorm", "positions": "rope_2d"}])
def test_each_member_of_an_ensemble_has_its_own(changes: dict[str, str], tmp_path: Path) -> None:
    spec = MODEL.model_copy(update=changes)
    recipe = TRAIN.model_copy(update={"epochs": 2, "ema": 0.5, "ensemble_seeds": True})
    trials = [train_trial(model=spec, train=recipe, seed=seed) for seed in range(3)]
    for trial, values in zip(trials, train_ensemble(trials, CPU, silent, tmp_path), strict=True):
        assert isinstance(values, TrainValues)
        assert loss_of(trial, tmp_path) == pytest.approx(values.test_loss, rel=1e-4)


def test_a_run_keeps_them_when_asked_and_says_what_it_lacks(runs: Runs) -> None:
    runs.complete()
    assert not (runs.study / "weights").exists()
    printed = runs.complete("--keep-weights", "--set", "train.seeds=[0, 1]")
    assert "1 trained before have no weights" in printed and "1 finished without weights" in printed
    (file,) = (runs.study / "weights").iterdir()
    record = next(r for r in runs.records() if r.trial_id == file.stem)
    assert isinstance(record.trial, TrainTrial) and record.trial.seed == 1
    assert len(to_timm(vitbench.load_model(file))) > 10
