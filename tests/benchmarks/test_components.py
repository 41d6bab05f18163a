"""Each slot's components side by side, and the whole training step. `pytest tests/benchmarks --benchmark-only`.

What is timed is built, and checked afterwards, by the engine of `vitbench time`; pytest-benchmark calls it and prints.
"""

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from vitbench import registry
from vitbench.config import TimeSpec, TimeTrial
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import Device, Level, Mode
from vitbench.config.trial import SLOT, relevant
from vitbench.devices import synchronise, unsupported
from vitbench.model.contract import fitted
from vitbench.timing.subject import Subject

KIND: Device = "cuda" if torch.cuda.is_available() else "cpu"
DEVICE = torch.device(KIND)
SPEC = ModelSpec(dim=64, depth=2, heads=4)
BATCH = 64
MODES: tuple[Mode, ...] = ("inference", "train")
PARTS = [(level, name) for level, slot in SLOT.items() for name in registry.names(slot)]
WHOLE = [(slot, name) for slot in ("patching", "attention", "norm") for name in registry.names(slot)]


def timed(benchmark: BenchmarkFixture, slot: str, name: str, level: Level, mode: Mode) -> None:
    """One iteration of a component in its place: pytest-benchmark's rounds, each until the device is done.

    A GPU is given work and asked later: without waiting for it only the launch would be timed.
    """
    spec = fitted(SPEC, slot, name)
    if level in SLOT and spec.leaves_out(slot):
        pytest.skip("an empty sublayer takes no time: the block goes without it")
    trial = TimeTrial(
        kind="time", level=level, model=relevant(spec, level), protocol=TimeSpec(), device=KIND,
        dtype="float32", batch_size=BATCH, mode=mode,
    )  # fmt: skip
    training = mode == "train"
    if reason := trial.unsupported(DEVICE.type) or unsupported(trial.model, DEVICE, "float32", training=training):
        pytest.skip(reason)
    subject = Subject(trial, DEVICE)

    def iterate() -> None:
        subject.iterate()
        synchronise(DEVICE)

    benchmark.group = f"{level}, {mode}, {DEVICE.type}, batch {BATCH}"
    for _ in range(3):
        iterate()
    benchmark(iterate)
    subject.verify()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("level", "name"), PARTS)
def test_component(benchmark: BenchmarkFixture, level: Level, name: str, mode: Mode) -> None:
    timed(benchmark, SLOT[level], name, level, mode)


@pytest.mark.parametrize(("slot", "name"), WHOLE)
def test_training_step(benchmark: BenchmarkFixture, slot: str, name: str) -> None:
    timed(benchmark, slot, name, "model", "train")
