"""Trials that take under a second, and the records of such trials."""

from datetime import UTC, datetime

from vitbench.config import DataSpec, ModelSpec, TimeSpec, TimeTrial, TrainSpec, TrainTrial
from vitbench.data.catalog import identity
from vitbench.store import Record

MODEL = ModelSpec(image_size=16, patch_size=4, dim=32, depth=1, heads=2)
DATA = DataSpec(name="synthetic", resize=16, train_images=200, test_images=60, validation_images=40)
TRAIN = TrainSpec(epochs=1, batch_size=50)

SUITE = """
[suite]
name = "small"
question = "Does it run?"
[model]
image_size = 16
patch_size = 4
dim = 32
depth = 1
heads = 2
[data]
name = "synthetic"
resize = 16
train_images = 200
test_images = 60
validation_images = 40
[train]
epochs = 1
batch_size = 50
"""


TRAIN_VALUES = {
    "epochs": (), "test_loss": 1.0, "test_accuracy_pct": 50.0, "train_images": 1, "validation_images": 0,
    "test_images": 1, "parameters": 1, "forward_flops": 1, "steps": 1, "step_ms_p50": 1.0, "first_step_ms": 1.0,
    "train_images_per_s": 1.0, "train_seconds": 1.0, "seconds": 1.0, "peak_memory_mib": 1.0,
    "batches_digest": "x", "data_checksum": "x",
}  # fmt: skip
TIME_VALUES = {
    "latency_ms_p50": 1.0, "latency_ms_p25": None, "latency_ms_p75": None, "process_ms_min": 1.0,
    "process_ms_max": 1.0, "images_per_s": 8000.0, "first_ms": 1.0, "peak_memory_mib": 1.0, "parameters": 1,
    "forward_flops": 1, "processes": ({"latencies_ms": (1.0,), "first_ms": 1.0},),
}  # fmt: skip


def recipe_with(**changes: object) -> TrainSpec:
    """TRAIN with some fields replaced, checked as a suite's is."""
    return TrainSpec.model_validate({**TRAIN.model_dump(), **changes})


def train_trial(
    *, model: ModelSpec = MODEL, data: DataSpec = DATA, train: TrainSpec = TRAIN, seed: int = 0
) -> TrainTrial:
    return TrainTrial(
        kind="train", model=model, data=data, train=train, seed=seed, device="cpu", data_identity=identity(data)
    )


def time_trial(model: ModelSpec = MODEL, *, mode: str = "inference", protocol: TimeSpec | None = None) -> TimeTrial:
    return TimeTrial.model_validate(
        {
            "kind": "time", "model": model, "protocol": protocol or TimeSpec(rounds=1, warmup=1, iterations=5),
            "device": "cpu", "dtype": "float32", "batch_size": 8, "mode": mode,
        }
    )  # fmt: skip


def record(trial: TrainTrial | TimeTrial, state: str = "failed", attempt: int = 1) -> Record:
    return Record.model_validate(
        {
            "trial_id": trial.id, "attempt": attempt, "state": state, "reason": "a test", "trial": trial,
            "started_at": datetime(2026, 1, 1, tzinfo=UTC), "seconds": 1.0,
            "values": (TRAIN_VALUES if trial.kind == "train" else TIME_VALUES) if state == "ok" else None,
        }
    )  # fmt: skip
