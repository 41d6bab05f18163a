"""Where the time of training goes: the step, the epoch with its data, the whole trial, and seeds as one program.

``pytest --benchmark-only tests/benchmarks/test_training_parts.py -s`` prints images per second of each, the share of
the device's peak, and by profiler what augmentation costs and how long a GPU waits for the host.
"""

import statistics
import time
from collections.abc import Iterator, Sequence

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch.profiler import ProfilerActivity, profile, record_function

from vitbench.ceilings import measure_products
from vitbench.config import DataSpec, ModelSpec, TrainSpec, TrainTrial
from vitbench.config.recipe import Device
from vitbench.data.batches import Batch, Batches
from vitbench.data.catalog import identity
from vitbench.data.images import Splits
from vitbench.data.load import splits
from vitbench.devices import synchronise
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops
from vitbench.training.ensemble import Ensemble
from vitbench.training.loop import train
from vitbench.training.stepper import Stepper, TrainState

KIND: Device = "cuda" if torch.cuda.is_available() else "cpu"
DEVICE = torch.device(KIND)
MODEL = ModelSpec(dim=64, depth=3, heads=2) if DEVICE.type == "cpu" else ModelSpec()
DATA = DataSpec(name="synthetic", train_images=1024, test_images=64, validation_images=64)
RECIPE = TrainSpec(
    epochs=1, batch_size=64, crop_padding=4, flip=True, augment="randaugment", erasing=0.25, mixup=0.8, cutmix=1.0
)
PLAIN = TrainSpec(epochs=1, batch_size=64)
SIZES = (1, 2, 4, 8, 16)
ROUNDS = 5


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}", end="")  # noqa: T201 - a benchmark's figures are for who runs it


def stepper(recipe: TrainSpec, seeds: Sequence[int]) -> tuple[Stepper, list[Batches]]:
    data = [splits(DATA, MODEL, seed).to(DEVICE) for seed in seeds]
    batches = [Batches(each, recipe, seed) for each, seed in zip(data, seeds, strict=True)]
    models = [build_model(MODEL, seed).to(DEVICE) for seed in seeds]
    model = models[0] if len(models) == 1 else Ensemble(models)
    return Stepper(model, recipe, images=10**9, device=DEVICE, per_epoch=len(batches[0])), batches


def epoch_seconds(one: Stepper, batches: Sequence[Batches]) -> float:
    began = time.perf_counter()
    one.epoch(batches, TrainState(DEVICE, len(batches)))
    synchronise(DEVICE)
    return time.perf_counter() - began


def step_seconds(one: Stepper, batch: Sequence[Batch], steps: int) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        one.step(batch)
    synchronise(DEVICE)
    return (time.perf_counter() - began) / steps


def test_step_epoch_and_trial(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> None:
    peak = measure_products(DEVICE, torch.float32)
    one, batches = stepper(RECIPE, [0])
    (first, *_) = zip(*(each.epoch(0) for each in batches), strict=True)
    images = len(batches[0].images)
    epoch_seconds(one, batches)
    steps, epochs, trials = [], [], []
    trial = TrainTrial(
        kind="train", model=MODEL, data=DATA, train=RECIPE, seed=0, device=KIND, data_identity=identity(DATA)
    )

    def one_round() -> None:
        steps.append(step_seconds(one, first, len(batches[0])))
        epochs.append(epoch_seconds(one, batches))
        began = time.perf_counter()
        train(trial, DEVICE, lambda _: None)
        trials.append(time.perf_counter() - began)

    benchmark.pedantic(one_round, rounds=ROUNDS)
    rates = {
        "step": RECIPE.batch_size / statistics.median(steps),
        "epoch with its data": images / statistics.median(epochs),
        "whole trial": images / statistics.median(trials),
    }
    for name, rate in rates.items():
        share = 100 * rate * 3 * forward_flops(MODEL, training=True) / peak
        say(capsys, f"{name}: {rate:,.0f} images/s, {share:.1f} % of the device's peak")
        benchmark.extra_info[name] = rate


@pytest.mark.parametrize("size", SIZES)
def test_seeds_as_one_program(benchmark: BenchmarkFixture, size: int, capsys: pytest.CaptureFixture[str]) -> None:
    alone, together = stepper(PLAIN, [0]), stepper(PLAIN, range(size))
    epoch_seconds(*alone), epoch_seconds(*together)
    ratios = []

    def one_round() -> None:
        ratios.append(size * epoch_seconds(*alone) / epoch_seconds(*together))

    benchmark.pedantic(one_round, rounds=ROUNDS)
    spread = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    say(capsys, f"{size} seeds as one program: {statistics.median(ratios):.2f}x one by one (rounds: {spread})")
    benchmark.extra_info["speed"] = statistics.median(ratios)


PARTS = {
    "products of the linear layers": ("aten::mm", "aten::addmm", "aten::bmm"),
    "attention": ("attention",),
    "GELU": ("gelu",),
    "norms": ("layer_norm",),
    "optimiser": ("adam", "optimizer"),
    "copies and views": ("aten::copy_", "aten::cat", "aten::contiguous", "aten::clone"),
}
"""Part of a step → words in the names of its operations, forward and backward."""


class Marked(Batches):
    """Batches whose making is named in a profile."""

    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        made = super().epoch(number, first)
        while True:
            with record_function("making a batch"):
                batch = next(made, None)
            if batch is None:
                return
            yield batch


def test_parts_by_profiler(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> None:
    one, batches = stepper(RECIPE, [0])
    data: Splits = batches[0].data
    marked = [Marked(data, RECIPE, 0)]
    epoch_seconds(one, marked)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if DEVICE.type == "cuda" else [])]

    def profiled() -> None:
        with profile(activities=activities) as seen:
            seconds = epoch_seconds(one, marked)
        parts = {event.key: event for event in seen.key_averages()}
        making = parts["making a batch"].cpu_time_total / 1e6
        spent = {key: max(event.self_device_time_total, event.self_cpu_time_total) for key, event in parts.items()}
        whole = sum(spent.values())
        for name, words in PARTS.items():
            part = sum(time for key, time in spent.items() if any(word in key.lower() for word in words))
            say(capsys, f"{name}: {100 * part / whole:.1f} % of the operations' own time")
        say(capsys, f"augmentation, on the host's clock: {100 * making / seconds:.1f} % of the epoch")
        if DEVICE.type == "cuda":
            busy = sum(event.self_device_time_total for event in parts.values()) / 1e6
            say(capsys, f"the GPU waits for the host: {100 * (1 - busy / seconds):.1f} % of the epoch")
        benchmark.extra_info["augmentation"] = making / seconds

    benchmark.pedantic(profiled, rounds=1)
