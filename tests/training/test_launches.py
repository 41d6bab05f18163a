"""Launches of a training step beside those of its model: on a GPU a small model's step is bound by them.

Counted on a CPU, where each operation that computes something stands for a launch; an operation on a list of tensors,
which a GPU does in a few, for one.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.stages import CPU
from vitbench.config.reading import read_suite
from vitbench.data import batches
from vitbench.data.batches import Batches
from vitbench.data.images import Images, Splits
from vitbench.model import muon
from vitbench.model.build import build_model
from vitbench.training.stepper import Stepper, autocast

SUITES = Path(__file__).parents[2] / "ablations"
NOTHING = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "detach",
                     "lift_fresh", "alias", "_record_function_enter_new", "_record_function_exit"})  # fmt: skip
"""Operations that launch nothing, beside views."""


class Launches(TorchDispatchMode):
    """Counts operations by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if not func.is_view and name not in NOTHING:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


def random_images(count: int) -> Splits:
    chance = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), generator=chance, dtype=torch.uint8)
    images = Images(pixels, torch.randint(0, 10, (count,), generator=chance))
    half = torch.full((3, 1, 1), 0.5)
    return Splits(images, images[torch.arange(0)], images, (), half, half, "")


@pytest.mark.parametrize(
    ("suite", "cell", "most"), [("published", "ViT-Lite-7/4", 60), ("speedrun", "60 epochs, TrivialAugment", 150)]
)
def test_a_step_launches_little_beside_its_model(
    suite: str, cell: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chosen,) = [each for each in read_suite(SUITES / f"{suite}.toml").cells if each.label == cell]
    model = build_model(chosen.model, 0)
    recipe = chosen.train.model_copy(update={"compile": False, "cuda_graphs": False})
    monkeypatch.setitem(batches.CHUNK_BYTES, "cpu", batches.CHUNK_BYTES["cuda"])
    monkeypatch.setitem(muon.WORTH_OF_A_STACK, "cpu", muon.WORTH_OF_A_STACK["cuda"])
    data = random_images(1000)  # fewer than a chunk: for each operation there is some that meets it, and that is all
    stream = Batches(data, recipe, 0).epoch(0)
    with Launches() as making:
        batch = next(stream)
    chunk = Batches(data, recipe, 0).chunk
    few = batch[:2]

    stepper = Stepper(model, recipe, images=10**6, device=CPU, per_epoch=100)
    stepper.step([few])  # makes the optimiser's state
    model.train()
    with Launches() as whole:
        stepper.step([few])
    stepper.optimiser.zero_grad()
    images, gradient = few.images(), torch.ones(2, 10)
    with Launches() as models:
        with autocast(CPU, recipe.precision):
            logits = model(images)
        logits.backward(gradient.to(logits.dtype))
    of_chunk, of_step, of_model = (each.counts.total() for each in (making, whole, models))
    assert 100 < of_model < of_step
    launches = of_chunk / chunk + of_step - of_model
    assert not models.counts - whole.counts
    assert launches <= most, f"{of_chunk} for {chunk} batches, {of_step} a step, of them {of_model} of the model"
