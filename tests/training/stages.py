"""Trials of several stages: what they come to, and interrupting them in one or another."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from vitbench.config.trial import TrainTrial
from vitbench.store import TrainValues
from vitbench.training.checkpoint import Checkpointing, Interrupted
from vitbench.training.loop import train
from vitbench.training.stepper import Stepper

CPU = torch.device("cpu")
TIMED = {"seconds", "train_seconds", "warm_up_seconds", "peak_memory_mib", "step_ms_p50", "first_step_ms",
         "train_images_per_s"}  # fmt: skip
"""What depends on the clock, or on the process."""


def silent(_: str) -> None:
    pass


def results(values: TrainValues) -> dict[str, Any]:
    """All that does not depend on the clock, or on the process."""
    stages = {name: {"__all__": {"seconds"}} for name in ("epochs", "pretraining", "teaching")}
    resumed = {"resumed_at", "preparation_resumed_at"}
    return values.model_dump(exclude={**dict.fromkeys({*TIMED, *resumed}, True), **stages})


def resumed(trial: TrainTrial, at: int, path: Path) -> TrainValues:
    """The values of a trial that was asked to end in a step, counted from 1 over all stages, and was taken up again."""
    plan, taken, step = Checkpointing(path, every_s=0.0), 0, Stepper.step

    def counted(self: Stepper, *rest: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken == at:
            plan.save_now.ask()
        return step(self, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "step", counted)
        with pytest.raises(Interrupted):
            train(trial, CPU, silent, plan)
    return train(trial, CPU, silent, Checkpointing(path, every_s=0.0))


def discard(path: Path) -> None:
    """Remove a trial's checkpoints, as its driver does once its result is safe."""
    for file in path.parent.glob(f"{path.stem}*{path.suffix}"):
        file.unlink()


def changes_nothing(trial: TrainTrial, steps: Iterable[int], folder: Path) -> None:
    """Assert that a trial comes to the same whichever of some steps it is interrupted in, and leaves no checkpoint."""
    whole, path = results(train(trial, CPU, silent)), folder / "trial.safetensors"
    for at in steps:
        assert results(resumed(trial, at, path)) == whole, at
        discard(path)
        assert not list(folder.iterdir())
