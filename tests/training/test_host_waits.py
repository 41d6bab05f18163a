"""No step of training waits for the device: nothing in it hands a value from there to Python.

On the CPU each operation is looked at, and each method by which a tensor is read; on a GPU torch itself raises where
the host would have to wait.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.small import DATA, MODEL, recipe_with
from tests.training.stages import CPU
from vitbench.config import TrainSpec
from vitbench.data.batches import Batch, Batches
from vitbench.data.load import splits
from vitbench.model.build import build_model
from vitbench.training.distillation import Student, taught
from vitbench.training.ensemble import Ensemble
from vitbench.training.probe import Probe
from vitbench.training.stepper import Stepper

READ = frozenset({"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "argwhere",
                  "unique_dim", "unique_consecutive", "bincount"})  # fmt: skip
"""Operations whose result, or its shape, Python needs at once."""
METHODS = ("tolist", "numpy", "cpu", "item", "__array__")
"""Methods of a tensor that read it, some of them without an operation."""

OPTIONS: list[dict[str, Any]] = [
    {}, {"optimizer": "adam"}, {"optimizer": "muon"}, {"ema": 0.9, "clip_norm": 1.0, "label_smoothing": 0.1},
    {"crop_padding": 4, "flip": True, "repeats": 2}, {"augment": "randaugment"}, {"augment": "trivialaugment"},
    {"cutout": 4, "erasing": 0.5}, {"mixup": 0.8, "cutmix": 1.0}, {"precision": "bfloat16"}, {"frozen": True},
    {"ensemble_seeds": True, "clip_norm": 1.0, "ema": 0.9}, {"distillation": "soft"}, {"distillation": "hard"},
]  # fmt: skip


class Watched(TorchDispatchMode):
    """Raises where a value is read."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masked = name in ("index", "index_put", "index_put_") and any(
            each is not None and each.dtype == torch.bool for each in args[1]
        )
        assert name not in READ and not masked, f"{name} waits for the device"
        return func(*args, **(kwargs or {}))


def refused(name: str) -> Callable[..., Any]:
    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError(f"{name} waits for the device")

    return read


@contextmanager
def watched(device: torch.device) -> Iterator[None]:
    if device.type == "cpu":
        with Watched(), pytest.MonkeyPatch.context() as patch:
            for name in METHODS:
                patch.setattr(torch.Tensor, name, refused(name))
            yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def training(recipe: TrainSpec, device: torch.device) -> tuple[Stepper, Iterator[Sequence[Batch]]]:
    """A stepper, and the batches of its first epoch."""
    seeds = range(3 if recipe.ensemble_seeds else 1)
    spec = MODEL.model_copy(update={"pooling": "distilled" if recipe.has_teacher else "cls"})
    data = [splits(DATA, spec, seed).to(device) for seed in seeds]
    models = [build_model(spec, seed).to(device) for seed in seeds]
    model: torch.nn.Module = Ensemble(models) if recipe.ensemble_seeds else models[0]
    objective = None
    if recipe.frozen:
        model = Probe(models[0])
    elif recipe.has_teacher:
        teacher = build_model(spec.teacher("cnn"), 0).to(device).eval()
        model, objective = Student(models[0]), taught(teacher, recipe)
    batches = [Batches(each, recipe, seed) for each, seed in zip(data, seeds, strict=True)]
    stepper = Stepper(model, recipe, images=10**6, device=device, per_epoch=len(batches[0]), objective=objective)
    return stepper, zip(*(each.epoch(0) for each in batches), strict=True)


def steps(recipe: TrainSpec, device: torch.device, more: Callable[[], object] = lambda: None) -> None:
    """Two steps to begin with, in which the optimiser makes its state, and one that is watched."""
    stepper, stream = training(recipe, device)
    stepper.model.train()
    for batch in itertools.islice(stream, 2):
        stepper.step(batch)
    with watched(device):
        losses, _, norms = stepper.step(next(stream))
        if device.type != "cpu":  # on a CPU there is nothing to wait for
            stepper.glance(losses, norms)
        more()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_a_step_reads_nothing_back(option: dict[str, Any], device: str) -> None:
    steps(recipe_with(batch_size=32, **option), torch.device(device))


@pytest.mark.parametrize(
    "read",
    [
        lambda: torch.ones(3).sum().item(),
        lambda: torch.arange(3)[torch.arange(3) > 1],
        lambda: torch.ones(3).nonzero(),
        lambda: float(torch.ones(1)) if torch.ones(1) else 0,
        lambda: torch.ones(3).tolist(),
        lambda: torch.ones(3).cpu().numpy(),
    ],
    ids=["item", "mask", "nonzero", "branch", "tolist", "numpy"],
)
def test_a_read_is_seen(read: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="waits for the device"):
        steps(recipe_with(batch_size=32), CPU, read)
