"""Each slot's components side by side, and the whole training step. `pytest tests/benchmarks --benchmark-only`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from vitbench import registry
from vitbench.devices import synchronise, unsupported
from vitbench.model.encoder import chosen
from vitbench.model.initial import initialise
from vitbench.model.vit import build_model
from vitbench.spec.base import pair
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import TrainSpec
from vitbench.training.optimiser import make_optimiser

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SPEC = ModelSpec(dim=64, depth=2, heads=4)
BATCH = 64
ALONE = ("patching", "attention", "mlp", "norm_layer", "positions", "pooling")
"""Slots whose components are functions of one tensor; a norm placement is timed as a whole model."""

CASES = [(slot, name) for slot in registry.slots() for name in registry.names(slot)]


def spec_for(slot: str, name: str, *, training: bool) -> ModelSpec:
    spec = SPEC.model_copy(update={slot: name})
    if reason := unsupported(spec, DEVICE, "float32", training=training):
        pytest.skip(reason)
    return spec


def timed(benchmark: BenchmarkFixture, work: Callable[[], object], group: str) -> None:
    """A GPU is given work and asked later: without waiting for it, only the launch would be timed."""

    def finish() -> None:
        work()
        synchronise(DEVICE)

    benchmark.group = f"{group}, {DEVICE.type}, batch {BATCH}"
    for _ in range(3):
        finish()
    benchmark(finish)


@pytest.mark.parametrize(("slot", "name"), [c for c in CASES if c[0] in ALONE], ids=lambda v: v)
@pytest.mark.parametrize("mode", ["forward", "forward + backward"])
def test_component(benchmark: BenchmarkFixture, slot: str, name: str, mode: str) -> None:
    spec = spec_for(slot, name, training=mode != "forward")
    cls = chosen(slot, spec)
    if registry.facts(slot, name).empty:
        pytest.skip("an empty sublayer takes no time: the block goes without it")
    module = cls(spec).to(DEVICE)
    initialise(module, 0.02, seed=0)
    tokens = (BATCH, spec.tokens, spec.dim)
    shape = (BATCH, spec.channels, *pair(spec.image_size)) if slot == "patching" else tokens
    x = torch.randn(shape, device=DEVICE, requires_grad=mode != "forward")
    module.train(mode != "forward")

    def forward() -> None:
        with torch.no_grad():
            module(x)

    def both() -> None:
        module(x).sum().backward()

    timed(benchmark, forward if mode == "forward" else both, f"{slot}, {mode}")


@pytest.mark.parametrize(
    ("slot", "name"), [c for c in CASES if c[0] in ("patching", "attention", "norm")], ids=lambda v: v
)
def test_training_step(benchmark: BenchmarkFixture, slot: str, name: str) -> None:
    spec = spec_for(slot, name, training=True)
    model = build_model(spec, seed=0).to(DEVICE)
    optimiser = make_optimiser(model, TrainSpec(learning_rate=1e-6), DEVICE)
    images = torch.randn(BATCH, 3, 32, 32, device=DEVICE)
    labels = torch.randint(10, (BATCH,), device=DEVICE)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()

    timed(benchmark, step, f"training step, {slot}")
