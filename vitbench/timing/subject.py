"""Subject: one trial's model or part of a model, its inputs, and an iteration that can be timed and checked."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench import registry
from vitbench.components.contracts import SelfAttention
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import Level, TrainSpec
from vitbench.config.trial import SLOT, TimeTrial
from vitbench.devices import DTYPES, synchronise
from vitbench.model.build import build_model, network
from vitbench.model.encoder import Block, chosen
from vitbench.model.exactness import FACTOR, FLOOR_EPS, Incorrect, input_shape
from vitbench.model.initial import initialise
from vitbench.model.optimiser import make_optimiser
from vitbench.streams import derive

LOOSER = 4.0
"""The check after timing allows so many times what the gate does. The gate has applied the rule to many values of small
inputs; this one looks for results that have gone wrong since, or that are wrong at the timed batch size."""

CHECKED_IMAGES = 8  # Images of a batch whose results are compared with float64: the first, the last, and some between
DRAWN = 2**20 + 7
"""Random numbers of an input, which repeats them: a CPU draws 30 million a second, and inputs that fill a GPU have 80
million. A prime, so that no two images and no two tokens are alike."""


class Core(nn.Module):
    """An attention component without its projections: no parameters are left but those of its scores."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.width = attention.qkv.out_features
        del attention.qkv, attention.proj, attention.gate
        self.attention = attention

    def forward(self, qkv: Tensor) -> Tensor:
        """Queries, keys and values beside each other, (B, N, 3HK) where each has H heads → (B, N, HK)."""
        return self.attention.core(qkv)


def _component(slot: str, spec: ModelSpec) -> nn.Module:
    module: nn.Module = chosen(slot, spec)(spec)
    return module


UNITS: Mapping[Level, Callable[[ModelSpec], nn.Module]] = {
    **{level: functools.partial(_component, slot) for level, slot in SLOT.items()},
    "model": network,
    "block": lambda spec: Block(spec, drop_path=0.0),
    "attention_core": lambda spec: Core(chosen("attention", spec)(spec)),
}
"""Level → how the module that is timed is made."""


def input_of(unit: nn.Module, spec: ModelSpec, level: Level, images: int) -> tuple[int, ...]:
    """Shape of what a part is given for so many images; an attention's core is given what is projected."""
    shape = input_shape(spec, level, images)
    return (*shape[:-1], unit.width) if isinstance(unit, Core) else shape


class Subject:
    """The model, or the part of one, that a trial times.

    ``iterate()`` is one iteration, inference (without gradients) or training. For a whole model training is forward,
    cross-entropy, backward and an AdamW step at rate zero (the same work, and weights that stay comparable); for a
    part, forward and backward from a fixed gradient. Weights, inputs and labels are the same in every process and
    for every variant.
    """

    def __init__(self, trial: TimeTrial, device: torch.device) -> None:
        self.trial, self.device, self.dtype = trial, device, DTYPES[trial.dtype]
        self.module = self.build(trial.model).to(device, self.dtype)
        self.module.train(trial.training)
        self.x = self.draw("x", input_of(self.module, trial.model, trial.level, trial.batch_size))
        self.x.requires_grad_(trial.training and trial.level != "model")
        runtime = registry.chosen("runtime", trial.model.runtime)(trial.model)
        self.run: Callable[[Tensor], Tensor] = runtime.prepare(self.module, self.x)
        if trial.protocol.compile:
            self.run = cast("Callable[[Tensor], Tensor]", torch.compile(self.run))
        self.out = torch.empty(0)
        self.iterate: Callable[[], None] = self._inference
        if trial.training and trial.level == "model":
            stream = torch.Generator().manual_seed(derive(0, "inputs", "timing", "labels"))
            self.labels = torch.randint(trial.model.num_classes, (trial.batch_size,), generator=stream).to(device)
            self.optimiser = make_optimiser(self.module, TrainSpec(), device)
            for group in self.optimiser.param_groups:
                group["lr"] = 0.0
                group["capturable"] = trial.protocol.cuda_graphs
            self.iterate = self._training_step
        elif trial.training:
            with torch.no_grad():
                shape = self.run(self.x).shape
            self.gradient = self.draw("gradient", shape)
            self.iterate = self._forward_backward
        if trial.protocol.cuda_graphs:
            self.iterate = self._captured(self.iterate)

    def build(self, spec: ModelSpec) -> nn.Module:
        """The module for a spec, with the weights of seed 0: the same for equivalent implementations."""
        if self.trial.level == "model":
            return build_model(spec, seed=0)
        module = UNITS[self.trial.level](spec)
        initialise(module, spec.init_std, seed=0)
        return module

    def draw(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Random numbers, the same on every device."""
        stream = torch.Generator().manual_seed(derive(0, "inputs", "timing", name))
        drawn = torch.randn(min(math.prod(shape), DRAWN), generator=stream).to(self.device, self.dtype)
        values = torch.empty(shape, device=self.device, dtype=self.dtype)
        for part in values.view(-1).split(DRAWN):
            part.copy_(drawn[: len(part)])
        return values

    @torch.no_grad()
    def _inference(self) -> None:
        self.out = self.run(self.x)

    def _forward_backward(self) -> None:
        for tensor in (self.x, *self.module.parameters()):
            tensor.grad = None
        self.out = self.run(self.x)
        self.out.backward(self.gradient)

    def _training_step(self) -> None:
        self.optimiser.zero_grad()
        self.out = self.run(self.x)
        F.cross_entropy(self.out.float(), self.labels).backward()
        self.optimiser.step()

    def _captured(self, iterate: Callable[[], None]) -> Callable[[], None]:
        """The iteration as one CUDA graph. Source: "Accelerating PyTorch with CUDA Graphs", PyTorch blog, 2021."""
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                iterate()
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            iterate()
        return graph.replay

    def verify(self) -> float | None:
        """Raise Incorrect unless what the last timed iteration gave is right.

        Every value must be finite. Those of a few images are compared with the reference in float64, at
        :data:`LOOSER` times what the rule of :mod:`vitbench.model.exactness` allows; those of all images with the
        reference in the same dtype, at twice that (both may err by as much). A part's gradient of its input likewise.
        A runtime that is not exact is held to no rule: how far it drifts is what is asked.

        Returns:
            The drift: of these few images' output, the largest error over the largest true value; None where dropout
            leaves nothing to compare with, or the true output is zero.
        """
        synchronise(self.device)
        results = {"output": self.out.detach()}
        if self.x.grad is not None:
            results["gradient of the input"] = self.x.grad
        plain, wanted = self._reference(self.device, self.dtype, slice(None))
        for name, parameter in self.module.named_parameters():
            if parameter.grad is not None:
                results[f"gradient of {name}"] = parameter.grad
            elif name in wanted:
                raise Incorrect(f"after timing, gradient of {name}: there is none")
        for quantity, value in results.items():
            if not bool(value.isfinite().all()):
                raise Incorrect(f"after timing, {quantity}: not finite")
        spec = self.trial.model
        if self.trial.training and (spec.dropout or spec.attention_dropout or spec.patch_drop):
            return None  # what is dropped differs from call to call: there is no value to compare with
        count = self.trial.batch_size
        some = torch.linspace(0, count - 1, min(CHECKED_IMAGES, count)).round().long()
        true, _ = self._reference(torch.device("cpu"), torch.float64, some)
        largest = float(true["output"].abs().max())
        off = float((_rows(results["output"], some) - true["output"]).abs().max())
        drift = off / largest if largest else None
        if not registry.facts("runtime", spec.runtime).exact:
            return drift
        for quantity, of_all in plain.items():
            true_some = true[quantity]
            floor = FLOOR_EPS * torch.finfo(self.dtype).eps * float(true_some.abs().max())
            of_plain = float((_rows(of_all, some) - true_some).abs().max())
            allowed = LOOSER * (FACTOR * of_plain + floor)
            for error, limit in (
                (float((_rows(results[quantity], some) - true_some).abs().max()), allowed),
                (float((results[quantity].double() - of_all.double()).abs().max()), 2 * allowed),
            ):
                if not error <= limit:
                    raise Incorrect(f"after timing, {quantity}: error {error:.3g}, allowed {limit:.3g}")
        return drift

    def _reference(self, device: torch.device, dtype: torch.dtype, images: Any) -> tuple[dict[str, Tensor], set[str]]:
        """Results of the reference for some of the images: output, and for a part the gradient of the input; and the
        names of the parameters that have a gradient, which for a whole model are all of them."""
        module = self.build(self.trial.model.reference()).to(self.dtype).to(device, dtype)
        module.train(self.trial.training)
        x = self.draw("x", tuple(self.x.shape))[images].to(device, dtype)  # not self.x, which may have been written to
        part = self.trial.training and self.trial.level != "model"
        x.requires_grad_(part)
        with torch.set_grad_enabled(part):
            out: Tensor = module(x)
        results = {"output": out.detach()}
        if part:
            out.backward(self.gradient[images].to(device, dtype))
            assert x.grad is not None
            results["gradient of the input"] = x.grad
        parameters = module.named_parameters() if self.trial.training else ()
        return results, {name for name, p in parameters if not part or p.grad is not None}


def _rows(value: Tensor, images: Tensor) -> Tensor:
    return value.detach()[images.to(value.device)].to("cpu", torch.float64)
