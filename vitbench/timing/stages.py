"""Stages of a model's forward pass, with shape, parameters, FLOPs and time of each."""

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.devices import synchronise
from vitbench.model.build import Baseline, Model, build_model
from vitbench.model.counting import flops_by_module, parameters
from vitbench.model.encoder import SUBLAYERS

WARMUP, ROUNDS = 3, 15
AROUND = {"_norm": "norm_layer", "": "", "_output_norm": "norm_layer", "_residual": "residual"}
"""How the parts of a block that belong to a sublayer are named after it → slot of the part; empty: the sublayer's."""


@dataclass(frozen=True)
class Stage:
    """One step of the forward pass."""

    name: str  # its place, e.g. ``"block 1: attention"``
    what: str  # the component or layer in it
    # of what it gives for one image: (N, D) of tokens, (channels, height, width) of feature maps
    shape: tuple[int, ...]
    parameters: int  # trainable values
    flops: int  # of one image, a multiply-add counts two; products only
    share: float  # of the time of a forward pass


@dataclass(frozen=True)
class Summary:
    """A model stage by stage."""

    stages: tuple[Stage, ...]  # in the order in which they are called
    parameters: int  # of the whole model; all that is in no stage included
    flops: int
    ms: float  # median of a forward pass, milliseconds
    spread: float  # interquartile range of the passes over their median


def summarise(spec: ModelSpec, device: torch.device, batch_size: int) -> Summary:
    """Build a model, run it forward some times in evaluation mode, in float32, and say what became of the time.

    Shares are medians of those in :data:`ROUNDS` passes over random images, with a synchronisation after each stage:
    they tell stages apart, and are no timing to be compared with another model's.

    Raises:
        ValueError: where the spec contradicts itself; the message says how.
        torch.OutOfMemoryError, RuntimeError: as running it does.
    """
    model = build_model(spec, 0).to(device).eval()
    images = torch.randn(batch_size, spec.channels, *pair(spec.image_size), device=device)
    flops_of = flops_by_module(spec)
    clock = _Clock(device)
    parts = list(_parts(model))
    passes = []
    with torch.no_grad(), clock.watching(parts):
        for number in range(WARMUP + ROUNDS):
            clock.begin()
            model(images)
            passes.append(clock.seconds())
            if number < WARMUP:
                passes.clear()
                clock.taken.clear()
    whole = statistics.median(passes)
    stages = tuple(
        Stage(
            part.name, part.what, clock.shapes[part.path], parameters(part.module), flops_of.get(part.path, 0),
            statistics.median(a / b for a, b in zip(clock.taken[part.path], passes, strict=True)),
        )
        for part in parts
        if part.path in clock.shapes
    )  # fmt: skip
    low, _, high = statistics.quantiles(passes)
    return Summary(stages, parameters(model), flops_of[""], 1000 * whole, (high - low) / whole)


@dataclass(frozen=True)
class _Part:
    path: str
    name: str
    what: str
    module: nn.Module


def _parts(model: Model) -> Iterator[_Part]:
    if isinstance(model, Baseline):
        for path, module in _called(model.body):
            yield _Part(f"body.{path}", path, type(module).__name__, module)
        yield _Part("head", "head", "linear", model.head)
        return
    spec = model.spec
    yield _Part("patching", "patching", spec.patching, model.patching)
    yield _Part("positions", "positions", spec.positions, model.positions)
    if model.registers is not None:
        yield _Part("registers", "registers", str(spec.registers), model.registers)
    for number, block in enumerate(model.encoder.blocks):
        if number and model.encoder.reductions:
            path, name = f"encoder.reductions.{number - 1}", f"block {number + 1}: reduction"
            yield _Part(path, name, spec.reduction, model.encoder.reductions[number - 1])
        for sublayer, (suffix, slot) in itertools.product(SUBLAYERS, AROUND.items()):
            part = f"{sublayer}{suffix}"
            module = getattr(block, part)
            if module is not None and (part == sublayer or parameters(module)):
                name = f"block {number + 1}: {part.replace('_', ' ')}"
                yield _Part(f"encoder.blocks.{number}.{part}", name, spec.components[slot or sublayer], module)
    if spec.final_norm:
        yield _Part("encoder.final_norm", "final norm", spec.norm_layer, model.encoder.final_norm)
    yield _Part("pooling", "pooling", spec.pooling, model.pooling)
    yield _Part("head", "head", spec.head, model.head)
    if model.teacher_head is not None:
        yield _Part("teacher_head", "teacher's head", "linear", model.teacher_head)


def _called(body: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a network that it calls: of a list of parts, which is not called, those in it."""
    for name, module in body.named_children():
        if isinstance(module, nn.ModuleList):
            yield from ((f"{name}.{inner}", each) for inner, each in _called(module))
        elif not isinstance(module, nn.Identity):
            yield name, module


class _Clock:
    """Hooks that note what each stage gives, and when it begins and ends."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.taken: dict[str, list[float]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.started = 0.0

    def begin(self) -> None:
        synchronise(self.device)
        self.started = time.perf_counter()

    def seconds(self) -> float:
        synchronise(self.device)
        return time.perf_counter() - self.started

    @contextmanager
    def watching(self, parts: Sequence[_Part]) -> Iterator[None]:
        hooks = []
        for part in parts:
            began: list[float] = []

            def before(_: nn.Module, __: Any, began: list[float] = began) -> None:
                synchronise(self.device)
                began.append(time.perf_counter())

            def after(_: nn.Module, __: Any, out: Any, path: str = part.path, began: list[float] = began) -> None:
                synchronise(self.device)
                self.taken.setdefault(path, []).append(time.perf_counter() - began.pop())
                self.shapes[path] = tuple((out if isinstance(out, Tensor) else out[0]).shape[1:])

            hooks += [part.module.register_forward_pre_hook(before), part.module.register_forward_hook(after)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
