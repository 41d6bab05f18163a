"""Studies too large to run: their plans, and records as their runs would leave them."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.bad_input import suite_file
from tests.report.builders import CPU
from tests.small import SUITE
from vitbench.config import ExpandedSuite, TrainTrial, read_suite
from vitbench.environment import Environment
from vitbench.runner.plan import plan
from vitbench.store import Epoch, PlannedTrial, Record, StudyFolder, TrainValues

SEEDS = """
[axes]
norm = ["pre", "post"]
positions = ["learned", "sinusoidal", "none", "sinusoidal_2d", "rope_2d"]
depth = [1, 2, 3, 4, 5]
mlp = ["gelu", "relu"]
pooling = ["cls", "mean"]
"""
"""200 cells."""
RATES = "train.learning_rate = [1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4, 7e-4, 8e-4, 9e-4, 1e-3]"
"""An axis that makes them 2,000."""

CELLS = """
[axes]
norm = ["pre", "post"]
positions = ["learned", "sinusoidal", "none", "sinusoidal_2d", "rope_2d"]
pooling = ["cls", "mean"]
depth = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
train.learning_rate = [1e-5, 2e-5, 3e-5, 4e-5, 5e-5, 6e-5, 7e-5, 8e-5, 9e-5, 1e-4]
train.weight_decay = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09]
train.batch_size = [10, 20, 30, 40, 50]
"""
"""100,000 cells."""


def suite_of_seeds(folder: Path, trials: int) -> ExpandedSuite:
    """200 cells, as many seeds as give so many trials; 2,000 cells where a suite may not have as many seeds."""
    cells, axes = (200, SEEDS) if trials <= 100_000 else (2000, f"{SEEDS}{RATES}\n")
    return _read(folder, SUITE.replace("[train]", f"[train]\nseeds = {trials // cells}") + axes)


def suite_of_cells(folder: Path) -> ExpandedSuite:
    """100,000 cells with one seed each."""
    return _read(folder, SUITE + CELLS)


def _read(folder: Path, text: str) -> ExpandedSuite:
    return read_suite(folder / suite_file(folder, name="large.toml", base=text), max_trials=10**6)


def study_of(folder: Path, suite: ExpandedSuite, *, finished: float = 1.0, failing: int = 100) -> StudyFolder:
    """A study of which a part has been run; one trial of so many of it failed."""
    study = StudyFolder.start(folder, plan(suite, "cpu"))
    count = int(len(study.info.trials) * finished)
    for number, planned in enumerate(study.info.trials[:count]):
        record = record_of(planned, number, "failed" if number % failing == failing - 1 else "ok", CPU)
        # Not StudyFolder.write: flushing each of them to the disk takes an hour.
        (study.path / "records" / f"{record.trial_id}-1.json").write_text(record.to_json())
    return study


def record_of(planned: PlannedTrial, number: int, state: str, environment: Environment) -> Record:
    """One attempt; its numbers are drawn, and depend on the number alone."""
    assert isinstance(planned.trial, TrainTrial)
    draw = random.Random(number)
    accuracy = 60 + 5 * planned.trial.model.depth**0.5 + draw.gauss(0, 1)
    return Record.model_validate(
        {
            "trial_id": planned.id, "attempt": 1, "state": state, "reason": "" if state == "ok" else "ValueError: no",
            "trial": planned.trial, "seconds": 3.0,
            "environment": environment.model_copy(update={"load_average": round(draw.uniform(0, 4), 2)}),
            "values": _values(accuracy, draw) if state == "ok" else None,
            "started_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        }
    )  # fmt: skip


def _values(accuracy: float, draw: random.Random) -> TrainValues:
    epochs = tuple(
        Epoch(epoch=e, train_loss=1 / (e + 1), train_accuracy_pct=accuracy, validation_loss=1.2 / (e + 1),
              validation_accuracy_pct=accuracy - 1, learning_rate=1e-3, seconds=0.5)
        for e in range(1, 4)
    )  # fmt: skip
    return TrainValues(
        epochs=epochs, test_loss=0.5, test_accuracy_pct=accuracy, train_images=160, validation_images=40,
        test_images=60, parameters=12_345, forward_flops=1_234_567, steps=12, step_ms_p50=draw.uniform(1, 2),
        first_step_ms=20.0, train_images_per_s=draw.uniform(1000, 2000), train_seconds=2.0, seconds=2.5,
        peak_memory_mib=100.0, batches_digest="0" * 16, data_checksum="1" * 64,
    )  # fmt: skip
