"""Steps as CUDA graphs: what is captured gives, replayed, what steps give that are launched one by one.

On a CPU a capture is stood in for by the function that is captured, called again: so it is seen that a step reads all
it needs from where it was captured, and that it changes all in place.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from tests.small import DATA, MODEL, recipe_with, train_trial
from tests.training.stages import CPU, results, resumed, silent
from vitbench.config import ModelSpec, TrainTrial
from vitbench.data.batches import Batch, Batches
from vitbench.data.load import splits
from vitbench.store import TrainValues
from vitbench.training import graphs, stepper
from vitbench.training.loop import fit, train, train_ensemble

OPTIONS: list[dict[str, Any]] = [
    {}, {"clip_norm": 0.3, "weight_decay": 0.1, "warmup_epochs": 0.5}, {"optimizer": "adam", "images": 300},
    {"optimizer": "muon", "weight_decay": 0.1, "ema": 0.9},
    {"augment": "randaugment", "mixup": 0.8, "cutmix": 1.0, "erasing": 0.5, "cutout": 4, "flip": True},
    {"precision": "bfloat16"}, {"frozen": True}, {"distillation": "soft", "teacher_epochs": 1},
    {"pretrain_epochs": 1}, {"batch_size": 500},
]  # fmt: skip


def trial(seed: int = 0, model: ModelSpec = MODEL, device: str = "cpu", **changes: Any) -> TrainTrial:
    """A trial of 10 whole steps and a ragged one in each of its epochs."""
    if "distillation" in changes:
        model = model.model_copy(update={"pooling": "distilled"})
    recipe = recipe_with(**{"epochs": 3, "batch_size": 15, **changes})
    return train_trial(model=model, train=recipe, seed=seed).model_copy(update={"device": device})


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Captures that do nothing but keep the function; counts the replays of each."""
    counts: list[int] = []

    def record(step: Callable[[], None], stream: None) -> Callable[[], object]:
        assert stream is None
        counts.append(0)
        number = len(counts) - 1

        def replay() -> None:
            counts[number] += 1
            step()

        return replay

    monkeypatch.setattr(graphs, "record", record)
    # The device holds its rates as float32.
    rate = stepper.learning_rate
    monkeypatch.setattr(stepper, "learning_rate", lambda *rest: float(torch.tensor(rate(*rest))))
    yield counts


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_replays_come_to_what_single_launches_come_to(option: dict[str, Any], replayed: list[int]) -> None:
    plain = train(trial(**option), CPU, silent)
    assert not replayed
    captured = train(trial(cuda_graphs=True, **option), CPU, silent)
    assert captured.notices == ()
    if "batch_size" not in option:
        assert replayed[-1] == captured.steps // 11 * 10 + captured.steps % 11 - graphs.FIRST_STEPS - 1 * (
            "images" in option
        )
    if "ema" in option:  # the average's and Muon's formulas are others by rounding where the rate is a tensor
        assert captured.test_loss == pytest.approx(plain.test_loss, rel=1e-4)
        for one, other in zip(captured.epochs, plain.epochs, strict=True):
            assert one.train_loss == pytest.approx(other.train_loss, rel=1e-4)
    else:
        assert results(captured) == results(plain)


def test_a_gradient_is_the_latest_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs a step once, as it is captured; a replay changes memory, and not which gradient a parameter has."""

    def record(step: Callable[[], None], *_: object) -> Callable[[], object]:
        step()
        return lambda: None

    def work(batch: Sequence[Batch]) -> None:
        parameter.grad = torch.full((1,), float(len(batch[0])))

    monkeypatch.setattr(graphs, "record", record)
    parameter = torch.nn.Parameter(torch.zeros(1))
    graph = graphs.Graph(4, [parameter], CPU)
    for size in (4, 4, 4, 4, 3, 4, 4, 2, 3, 4):
        graph.step([Batch(torch.zeros(size, 3, 8, 8), torch.zeros(size), torch.Tensor.float)], work)
        assert parameter.grad is not None and float(parameter.grad) == size
    assert graph.replays == 4


def test_of_an_ensemble_too(replayed: list[int]) -> None:
    changes: dict[str, Any] = {"clip_norm": 0.3, "mixup": 0.8}
    plain = train_ensemble([trial(seed, **changes) for seed in range(3)], CPU, silent)
    captured = train_ensemble([trial(seed, cuda_graphs=True, **changes) for seed in range(3)], CPU, silent)
    assert len(replayed) == 1
    for one, other in zip(captured, plain, strict=True):
        assert isinstance(one, TrainValues) and isinstance(other, TrainValues)
        assert results(one) == results(other)


def test_a_resumed_run_is_captured_anew(tmp_path: Any, replayed: list[int]) -> None:
    one = trial(cuda_graphs=True, ema=0.9, optimizer="muon")
    whole = results(train(one, CPU, silent))
    for at in (2, 12):
        assert results(resumed(one, at, tmp_path / f"checkpoint-{at}")) == whole, at


def test_what_cannot_be_captured_is_said_and_trains_all_the_same() -> None:
    plain, asked = (train(trial(cuda_graphs=asked), CPU, silent) for asked in (False, True))
    (notice,) = asked.notices
    assert notice.startswith("CUDA graphs were asked for, and training ran without: ") and "\n" not in notice
    assert asked.test_loss == pytest.approx(plain.test_loss, rel=1e-5)


def test_memory_that_is_short_is_not_worked_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(graphs, "record", record)
    with pytest.raises(torch.OutOfMemoryError):
        train(trial(cuda_graphs=True), CPU, silent)


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize(
    "option",
    [{"optimizer": "adamw", "clip_norm": 1.0, "ema": 0.9}, {"optimizer": "muon"}, {"precision": "bfloat16"}],
    ids=str,
)
def test_on_a_gpu(option: dict[str, Any], seeds: int, compiled: bool) -> None:
    """Losses of each epoch are those of steps that are launched one by one, and the graph is what ran."""
    torch.compiler.reset()  # else the models of other tests use up the recompilations that torch allows
    device, losses = torch.device("cuda"), []
    for changes in ({}, {"cuda_graphs": True, "compile": compiled}):
        # torch 2.11 cannot compile an ensemble's sdpa on a GPU: "LSE is not correctly aligned", in its backward.
        model = MODEL.model_copy(update={"attention": "batched" if compiled and seeds > 1 else "sdpa"})
        trials = [trial(seed, model, "cuda", epochs=2, **option, **changes) for seed in range(seeds)]
        fitted = fit(trials, device, silent)
        graph = fitted.stepper.graph
        assert not fitted.notices
        assert graph is None or graph.replays == 2 * 10 - graphs.FIRST_STEPS
        losses.append([(e.train_loss, e.validation_loss, e.gradient_norm) for m in fitted.state.epochs for e in m])
    rough = "precision" in option or option["optimizer"] == "muon"
    for one, other in zip(*losses, strict=True):
        assert one == pytest.approx(other, rel=5e-2 if rough else 2e-3)


@pytest.mark.gpu
def test_on_a_gpu_each_replay_has_masks_of_its_own() -> None:
    """At a rate that moves no weight, the loss of one batch differs from replay to replay by its dropout alone."""
    device = torch.device("cuda")
    model = MODEL.model_copy(update={"dropout": 0.5})
    one = trial(model=model, device="cuda", cuda_graphs=True, learning_rate=1e-12, epochs=1)
    fitted = fit([one], device, silent)
    graph, pace, state, data = fitted.stepper.graph, fitted.stepper.pace, fitted.state, splits(DATA, model, 0)
    assert graph is not None and graph.replays and pace is not None
    batch = next(Batches(data.to(device), one.train, one.seed).epoch(0))
    losses, before = [], state.loss_sum.clone()
    pace.begin([(1e-12, 0.0)] * 4)
    for _ in range(4):
        graph.step([batch], lambda _: None)
        losses.append(float(state.loss_sum - before))
        before = state.loss_sum.clone()
    assert len({round(loss, 4) for loss in losses}) == 4, losses
    assert all(abs(a - b) < 0.5 * abs(a) for a, b in itertools.pairwise(losses))
