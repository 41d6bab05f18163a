"""Sizes: FLOPs and bytes of an iteration, counted from the shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vitbench.config.model import ModelSpec
from vitbench.config.recipe import Level
from vitbench.config.trial import TimeTrial
from vitbench.devices import DTYPES
from vitbench.model.counting import forward_flops, parameters
from vitbench.model.encoder import SUBLAYERS, chosen
from vitbench.model.vit import VisionTransformer
from vitbench.timing.subject import UNITS, input_shape
from vitbench.timing.values import Sizes


def count(trial: TimeTrial) -> Sizes:
    """The sizes of a trial.

    Operations are those of the function, whatever the implementation does: products only, a multiply-add counting
    two, a backward pass twice the forward (:func:`vitbench.model.counting.training_flops`); what a kernel computes
    again to save memory does not count.
    """
    with torch.device("meta"):
        unit = UNITS[trial.level](trial.model)
        forward = _forward_flops(trial)
    return Sizes(
        parameters=parameters(unit),
        forward_flops=forward,
        flops=(3 if trial.training else 1) * forward * trial.batch_size,
        bytes=_bytes(trial),
    )


def _forward_flops(trial: TimeTrial) -> int:
    if trial.level == "model":
        return forward_flops(trial.model, training=trial.training)
    reference = trial.model.reference()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        UNITS[trial.level](reference).eval()(torch.empty(input_shape(reference, trial.level, 1)))
    return int(counter.get_total_flops())


def _bytes(trial: TimeTrial) -> int:
    """Compulsory traffic: each tensor at the edge of a part is read or written once in each pass, nothing inside it.

    Forward: input x and parameters p are read, output y is written. Backward: x, p and dy are read, dx and dp are
    written; an attention's core reads y once more (for Σ dy · y). A block is its norms, attention and MLP, a model is
    its patching, blocks, last norm and head: fusing across those would beat the bound, and no public ViT does. A
    baseline is its layers that have parameters.
    """
    if not trial.model.of_components:
        return _of_layers(trial.model, trial.batch_size, training=trial.training) * DTYPES[trial.dtype].itemsize
    parts = PARTS[trial.level](trial.model, trial.training) if trial.level in PARTS else {trial.level: Times(1, 1)}
    values = sum(_values(trial, level, times) for level, times in parts.items())
    if trial.level == "model":
        with torch.device("meta"):
            values += (3 if trial.training else 1) * parameters(chosen("head", trial.model)(trial.model))
    return round(values) * DTYPES[trial.dtype].itemsize


class Times(NamedTuple):
    """How often a part is there, and how many times all of a model's tokens it is given."""

    part: int
    tokens: float


def _of_layers(spec: ModelSpec, batch: int, *, training: bool) -> int:
    """Numbers that the layers of a baseline read and write for the whole batch."""
    numbers = []

    def see(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        read = inputs[0].numel() + parameters(layer)
        numbers.append(read + output.numel() if not training else 3 * read + 2 * output.numel())

    with torch.device("meta"), torch.no_grad():
        whole = UNITS["model"](spec).eval()
        for layer in whole.modules():
            if not list(layer.children()) and parameters(layer):
                layer.register_forward_hook(see)
        whole(torch.empty(input_shape(spec, "model", batch)))
    return sum(numbers)


def _of_block(spec: ModelSpec, training: bool) -> Mapping[Level, Times]:
    with torch.device("meta"):
        model = VisionTransformer(spec.model_copy(update={"depth": 1}))
    (block,) = model.encoder.blocks
    norms = sum(getattr(block, f"{name}_{norm}") is not None for name in SUBLAYERS for norm in ("norm", "output_norm"))
    sublayers: tuple[Level, ...] = ("attention", "mlp")
    parts: dict[Level, Times] = {s: Times(1, 1) for s in sublayers if not spec.leaves_out(s)}
    return {"norm_layer": Times(norms, norms), **parts}


def _of_model(spec: ModelSpec, training: bool) -> Mapping[Level, Times]:
    shares = [(spec.prefix + patches) / spec.tokens for patches in spec.patches_by_block(training=training)]
    parts: dict[Level, Times] = {
        level: Times(n * spec.depth, n * sum(shares)) for level, (n, _) in _of_block(spec, training).items()
    }
    norms = parts["norm_layer"]
    parts["norm_layer"] = Times(norms.part + spec.final_norm, norms.tokens + spec.final_norm * shares[-1])
    return {**parts, "patching": Times(1, 1)}


PARTS: Mapping[Level, Callable[[ModelSpec, bool], Mapping[Level, Times]]] = {"block": _of_block, "model": _of_model}
"""Level → of which parts, and how many of each, it is made, in inference or in training."""


OUTPUT_TOKENS: Mapping[Level, Callable[[ModelSpec], int]] = {
    "patching": lambda s: s.patches, "pooling": lambda s: s.pooled_width // s.dim,
}  # fmt: skip
"""Level → vectors of width D that come out for each image, where it is not N."""


def _values(trial: TimeTrial, level: Level, times: Times) -> float:
    """Numbers that one kind of part reads and writes for the whole batch."""
    spec, batch = trial.model, trial.batch_size
    with torch.device("meta"):
        weights = times.part * parameters(UNITS[level](spec))
    x = times.tokens * prod(input_shape(spec, level, batch))
    width = spec.heads_width if level == "attention_core" else spec.dim
    y = times.tokens * batch * width * (OUTPUT_TOKENS[level](spec) if level in OUTPUT_TOKENS else spec.tokens)
    if not trial.training:
        return x + weights + y
    return 3 * (x + weights) + (3 if level == "attention_core" else 2) * y
