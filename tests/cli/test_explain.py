"""``vitbench explain``: a kept file becomes a page that agrees with its record; mistakes are one line."""

import shutil
import subprocess
import sys
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.bad_input import files_of
from tests.conftest import copy_some
from tests.report.builders import render
from tests.small import MODEL, TRAIN, train_trial
from tests.training.stages import CPU, silent
from vitbench.cli.main import main
from vitbench.config.recipe import DataSpec
from vitbench.config.suite import Info
from vitbench.config.trial import TrainTrial
from vitbench.model.build import build_model
from vitbench.model.weights import save_weights
from vitbench.store import PlannedTrial, Record, StudyFolder, StudyInfo, TrainValues, Trials
from vitbench.store.explanation import read_explanation
from vitbench.training.loop import train

EPOCHS = 2
Trained = tuple[StudyFolder, Path, TrainValues]


def planned_study(folder: Path, trial: TrainTrial) -> tuple[StudyFolder, Path]:
    """A study of one trial, and where its weights are to be."""
    planned = PlannedTrial(id=trial.id, cell="a [small] model", axes={}, exact={}, trial=trial)
    info = StudyInfo(suite=Info(name="looks", question="What?"), suite_file="looks.toml", axes={}, data_name="images",
                     data_identity=trial.data_identity, trials=Trials.of([planned]))  # fmt: skip
    study = StudyFolder.start(folder, info)
    (study.path / "weights").mkdir()
    return study, study.path / "weights" / f"{trial.id}.safetensors"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, lossless: Path) -> Trained:
    """A study of one trial, really trained on real images, as a run leaves it; its weights; what was recorded."""
    data = DataSpec(
        name="image_folder", path=str(lossless), resize=16, train_images=300, test_images=60, validation_images=40
    )
    trial = train_trial(data=data, train=TRAIN.model_copy(update={"epochs": EPOCHS}),
                        model=MODEL.model_copy(update={"depth": 2}))  # fmt: skip
    study, file = planned_study(tmp_path_factory.mktemp("last_layer") / "study", trial)
    values = train(trial, CPU, silent, weights=study.path / "weights")
    study.write(Record(trial_id=trial.id, attempt=1, state="ok", trial=trial, values=values,
                       started_at=datetime(2026, 1, 1, tzinfo=UTC), seconds=1.0))  # fmt: skip
    return study, file, values


def explained(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["explain", "--device", "cpu", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_a_kept_file_becomes_a_page_and_a_section_of_its_study(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, weights, values = trained
    without = render(study, tmp_path / "before").read_text()
    assert explained(str(weights), "--out", str(tmp_path / "page")) == 0
    assert explained(str(study.path), "--cell", "a [small] model", "--seed", "0", "--out", str(tmp_path / "named")) == 0
    assert files_of(tmp_path / "named") == files_of(tmp_path / "page")
    explanation = read_explanation(study.path / "explanations" / weights.name)
    counts = explanation.confusion
    assert counts is not None and counts.sum() == values.test_images == 60
    assert 100 * counts.trace() / counts.sum() == pytest.approx(values.test_accuracy_pct)
    text = (tmp_path / "page" / "report.md").read_text()
    assert text.splitlines()[2] == "# What a model looks at: a \\[small\\] model"
    assert f"({values.test_accuracy_pct:.1f} %)" in text and "gradient norm by epoch" in text
    wanted = {"patches", "filters", "embedded", "similarity", "scores", "weights", "norms", "attention-1",
              "attention-2", "distances", "examples-right", "examples-wrong", "confusion", "training"}  # fmt: skip
    assert {file.stem for file in (tmp_path / "page" / "figures").glob("*.png")} == wanted

    for unused, arguments in (
        ("'torch'", ["--out", str(tmp_path / "one")]),
        ("'torch', 'seaborn', 'matplotlib'", ["--print"]),
    ):
        code = "import sys\nfrom vitbench.cli.main import main\n"
        code += f"try:\n    main()\nfinally:\n    assert not {{{unused}}} & set(sys.modules)\n"
        command = [sys.executable, "-c", code, "report", str(study.path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    render(study, tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    page = (tmp_path / "one" / "index.html").read_text()
    assert "What the models look at" in page and "What the models look at" not in without
    report = (tmp_path / "one" / "report.md").read_text()
    assert "heads" in report[report.index("## Summary") : report.index("## Accuracy")], "the first screen says it, too"
    assert "a [small] model, seed 0" in page and page.count(' class="pixels"') == 11

    kept = (study.path / "explanations" / weights.name).read_bytes()
    images = tmp_path / "private"
    images.mkdir()
    Image.new("RGB", (16, 16), "red").save(images / "secret.png")
    for others in (["--images", str(images)], ["--split", "validation"]):
        capsys.readouterr()
        assert explained(str(weights), *others, "--out", str(tmp_path / "others")) == 0
        assert "not kept with the study" in " ".join(capsys.readouterr().out.split())
        assert (study.path / "explanations" / weights.name).read_bytes() == kept, (
            "it is that of the trial's test images"
        )

    (study.path / "explanations" / weights.name).write_bytes(b"damaged")
    assert "explanation cannot be read" in render(study, tmp_path / "after").with_name("report.md").read_text()


def test_images_of_ones_own(trained: Trained, tmp_path: Path, lossless: Path) -> None:
    weights = trained[1]
    alone = tmp_path / "elsewhere.safetensors"
    shutil.copy(weights, alone)
    classed, plain = tmp_path / "classed", tmp_path / "plain"
    copy_some(lossless / "test", classed, 5)
    plain.mkdir()
    Image.new("RGB", (50, 30), "red").save(plain / "red.png")
    assert explained(str(alone), "--images", str(classed), "--out", str(tmp_path / "a")) == 0
    text = (tmp_path / "a" / "report.md").read_text()
    assert "10 images in classed, at the model's 16 × 16 pixels" in text and "## Confusion matrix" in text
    assert explained(str(alone), "--images", str(plain), "--out", str(tmp_path / "b")) == 0
    text = (tmp_path / "b" / "report.md").read_text()
    assert "Confusion matrix: of 0 of 1 images the class is known" in text and "red.png" in text
    with chdir(tmp_path):
        assert explained(str(alone), "--images", str(plain / "red.png")) == 0
    text = (tmp_path / "reports" / "explained" / "elsewhere-red.png" / "report.md").read_text()
    assert "the image red.png, at the model's" in text and "What is not shown, and why" in text
    assert "first folder that an image lies in: airplane, automobile, bird, cat, deer or one of 5 others" in text
    assert not (tmp_path / "explanations").exists()


def test_mistakes_are_one_line(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = trained[1]
    alone, foreign, text = tmp_path / "alone.safetensors", tmp_path / "foreign.safetensors", tmp_path / "t.safetensors"
    shutil.copy(weights, alone)
    save_file({"w": torch.zeros(2)}, foreign)
    text.write_text("no weights")
    (tmp_path / "empty").mkdir()
    grey = save_weights(build_model(MODEL.model_copy(update={"channels": 1}), seed=0), tmp_path / "grey.safetensors",
                        {"mean": [0.5] * 3, "std": [0.5] * 3})  # fmt: skip
    (tmp_path / "colour").mkdir()
    Image.new("RGB", (16, 16), "red").save(tmp_path / "colour" / "red.png")
    cases = {
        (str(tmp_path / "missing.safetensors"),): "No such file",
        (str(tmp_path / "missing"),): "No such file",
        (str(weights), "--seed", "0"): "--cell and --seed choose a file in a study's folder",
        (str(foreign),): "no file of vitbench's. `vitbench run --keep-weights` writes files that do",
        (str(weights.parents[1]),): f"is a folder, and CHECKPOINT is a file of weights: give {weights}",
        (str(tmp_path / "empty"),): "it holds none",
        (str(weights.parents[1]), "--cell", "a small model"): 'trains no cell "a small model"; did you mean "a [small]',
        (str(weights.parents[1]), "--cell", "no such"): 'trains no cell "no such"; known: "a [small] model"',
        (str(weights.parents[1]), "--cell", "a [small] model", "--seed", "7"): "holds no weights of cell a [small] mod",
        (str(grey), "--images", str(tmp_path / "colour")): "images of 1 channel, and images are read in 3",
        (str(alone), "--images", str(tmp_path / "colour"), "--split", "test"): "--images gives others",
        (str(alone), "--images", str(text)): "cannot identify image file",
        (str(alone),): "give images with --images",
        (str(alone), "--images", str(tmp_path / "empty")): "holds no images",
    }
    for arguments, message in cases.items():
        assert explained(*arguments, "--out", str(tmp_path / "out")) == 2, arguments
        error = capsys.readouterr().err
        assert message in " ".join(error.split()) and "Traceback" not in error, error
        lines = [line for line in error.strip().splitlines() if line and "vitbench explain" not in line]
        assert len(lines) <= 2, error
    assert not (tmp_path / "out").exists()


def test_other_images_in_the_trials_folder_are_no_test_images(
    tmp_path: Path, lossless: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    for part in ("train", "test"):
        copy_some(lossless / part, folder / part, 200)
    data = DataSpec(name="image_folder", path=str(folder), resize=16, train_images=200, test_images=40)
    trial = train_trial(data=data, model=MODEL.model_copy(update={"num_classes": 2}))
    _, file = planned_study(tmp_path / "study", trial)
    train(trial, CPU, silent, weights=file.parent)
    weights = str(file)
    assert explained(weights, "--split", "validation", "--out", str(tmp_path / "out")) == 2
    assert "the trial has no validation images" in capsys.readouterr().err
    next((folder / "test" / "cat").iterdir()).unlink()
    assert explained(weights, "--out", str(tmp_path / "out")) == 2
    assert "bring them back, or give others with --images" in capsys.readouterr().err
