"""The runner's training loop against what a user would write instead, as ratios in one run.

The loops by hand have the same model and tensors; timm's model has the same shape and is fed by a torchvision
DataLoader. The goals are printed with the figures. An assertion is short of its goal by as much as processes differ.
"""

import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import pytest
import torch
from PIL import Image
from pytest_benchmark.fixture import BenchmarkFixture
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from vitbench.config import DataSpec, ModelSpec, TrainSpec
from vitbench.data.batches import Batches
from vitbench.data.images import Splits
from vitbench.data.load import splits
from vitbench.devices import synchronise
from vitbench.environment import has_bfloat16
from vitbench.memory import keep_freed_memory
from vitbench.model.build import build_model
from vitbench.runner.spinning import LONG, VARIABLE
from vitbench.training.stepper import Stepper, TrainState

Precision = Literal["float32", "bfloat16"]
Labelled = tuple[torch.Tensor, torch.Tensor]  # Images and their labels
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
MODEL = ModelSpec(dim=64, depth=2, heads=4)
BATCH = 64
IMAGES = 1500
PAIRS, ROUNDS = 4, 6
"""Processes of each, and epochs of each process: two processes of one loop differ by a few percent to their end."""


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Images in memory as PIL pictures, as torchvision's CIFAR10 gives them."""

    def __init__(self, data: Splits, transform: Callable[[object], torch.Tensor]) -> None:
        self.pictures = [Image.fromarray(p.permute(1, 2, 0).numpy()) for p in data.train.pixels.cpu()]
        self.labels = data.train.labels.tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[index]), self.labels[index]


def images(folder: str) -> Splits:
    spec = DataSpec(name="image_folder", path=folder, train_images=IMAGES)
    return splits(spec, MODEL, 0).to(DEVICE)


def autocast(precision: Precision) -> torch.autocast:
    return torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


def ours(data: Splits, precision: Precision, *, augment: bool) -> Callable[[], None]:
    recipe = TrainSpec(
        epochs=1 + ROUNDS, batch_size=BATCH, crop_padding=4 if augment else 0, flip=augment, precision=precision
    )
    batches = Batches(data, recipe, 0)
    model = build_model(MODEL, 0).to(DEVICE)
    stepper = Stepper(model, recipe, images=IMAGES, device=DEVICE, per_epoch=len(batches))
    return lambda: (stepper.epoch([batches], TrainState(DEVICE)), None)[1]


def loop(model: torch.nn.Module, precision: Precision, batches: Callable[[], Iterator[Labelled]]) -> Callable[[], None]:
    """An epoch as a user writes it."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def epoch() -> None:
        model.train()
        for images, labels in batches():
            with autocast(precision):
                loss = F.cross_entropy(model(images), labels)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()

    return epoch


def by_hand(data: Splits, precision: Precision) -> Callable[[], None]:
    def batches() -> Iterator[Labelled]:
        for index in torch.randperm(IMAGES, device=DEVICE).split(BATCH):
            yield (data.train.pixels[index].float() / 255 - data.mean) / data.std, data.train.labels[index]

    return loop(build_model(MODEL, 0).to(DEVICE), precision, batches)


def timm_and_dataloader(data: Splits, precision: Precision, workers: int = 0) -> Callable[[], None]:
    import timm
    from torchvision import transforms  # where it is used: a mismatched build fails at import

    model = timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=4, embed_dim=MODEL.dim, depth=MODEL.depth, num_heads=MODEL.heads, num_classes=10
    ).to(DEVICE)
    mean, std = data.mean.flatten().tolist(), data.std.flatten().tolist()
    augment = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(mean, std),
        ]
    )
    loader = DataLoader(
        Pictures(data, augment), BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    return loop(model, precision, lambda: ((images.to(DEVICE), labels.to(DEVICE)) for images, labels in loader))


@dataclass(frozen=True)
class Contestant:
    """A loop: who makes its epoch of the images and the precision, and whether its process is set up as a trial's."""

    make: Callable[[Splits, Precision], Callable[[], None]]
    precision: Precision = "float32"
    as_a_trial: bool = True

    def work(self, folder: str, connection: Connection) -> None:
        """A process's: seconds of one epoch, whenever it is asked for one."""
        if self.as_a_trial:
            keep_freed_memory()
        epoch = self.make(images(folder), self.precision)
        epoch()
        connection.send(None)
        while connection.recv():
            start = time.perf_counter()
            epoch()
            synchronise(DEVICE)
            connection.send(time.perf_counter() - start)


OURS = Contestant(partial(ours, augment=False))
AUGMENTED = Contestant(partial(ours, augment=True))
HALVED = Contestant(partial(ours, augment=False), "bfloat16")
COMPARISONS: Mapping[str, tuple[Contestant, Contestant, float]] = {
    "vitbench, the control": (OURS, OURS, 1.0),
    "a loop by hand": (OURS, Contestant(by_hand, as_a_trial=False), 1.0),
    "a loop by hand with vitbench's allocator and threads": (OURS, Contestant(by_hand), 1.0),
    "the same, both in bfloat16": (HALVED, Contestant(by_hand, "bfloat16"), 1.0),
    "timm + DataLoader": (AUGMENTED, Contestant(timm_and_dataloader, as_a_trial=False), 1.2),
    "timm + DataLoader with two workers": (
        AUGMENTED, Contestant(partial(timm_and_dataloader, workers=2), as_a_trial=False), 1.2,
    ),
    "timm + DataLoader, both in bfloat16": (
        Contestant(partial(ours, augment=True), "bfloat16"),
        Contestant(timm_and_dataloader, "bfloat16", as_a_trial=False), 1.5,
    ),
    "vitbench in float32, over bfloat16": (HALVED, OURS, 1.0),
}  # fmt: skip
"""What is timed → vitbench, the other, and the goal for the ratio of their times."""


@contextlib.contextmanager
def started(one: Contestant, folder: Path) -> Iterator[Callable[[], float]]:
    context = multiprocessing.get_context("spawn")
    our_end, their_end = context.Pipe()
    process = context.Process(target=one.work, args=(str(folder), their_end))
    with pytest.MonkeyPatch.context() as environment:
        if one.as_a_trial:
            environment.setenv(VARIABLE, LONG)
        process.start()
    their_end.close()
    our_end.recv()

    def seconds() -> float:
        our_end.send(True)
        taken: float = our_end.recv()
        return taken

    try:
        yield seconds
    finally:
        our_end.send(False)
        process.join()


@pytest.mark.parametrize("name", COMPARISONS)
def test_training_against(benchmark: BenchmarkFixture, lossless: Path, name: str) -> None:
    """The other's time over vitbench's, in turn, so that other work on the machine falls on both.

    Each is in a process of its own, as a trial of the runner and a user's script are. Which has the first turn changes
    from round to round (the second has been 3 % slower), and which is started first from pair to pair (that one has
    been 1.5 % slower): the control says what is left of both.
    """
    if "timm" in name:
        pytest.importorskip("timm")
    if "bfloat16" in name and not has_bfloat16():
        pytest.skip("this processor has no instructions for bfloat16")
    ours, other, goal = COMPARISONS[name]
    pairs = list[list[float]]()

    def one_pair() -> None:
        ours_first = len(pairs) % 2 == 0
        with contextlib.ExitStack() as processes:
            first, second = (
                processes.enter_context(started(each, lossless))
                for each in ((ours, other) if ours_first else (other, ours))
            )
            our_seconds, other_seconds = (first, second) if ours_first else (second, first)
            turns = [(our_seconds, other_seconds), (other_seconds, our_seconds)]
            times = [{each: each() for each in turns[i % 2]} for i in range(ROUNDS)]
            pairs.append([seconds[other_seconds] / seconds[our_seconds] for seconds in times])

    benchmark.group = f"a pair of processes, {ROUNDS} epochs of each"
    benchmark.pedantic(one_pair, rounds=PAIRS, iterations=1)
    medians = sorted(map(statistics.median, pairs))
    median = statistics.median(medians)
    ratios = ", ".join(f"{each:.2f}" for each in medians)
    benchmark.extra_info["ratio"] = f"{name}: {median:.3f} (pairs of processes: {ratios}; goal {goal})"
    assert median > 0.85 * goal
