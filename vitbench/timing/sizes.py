"""Sizes: FLOPs and bytes of an iteration, counted from the shapes."""

import torch
from torch import Tensor, nn

from vitbench.config.trial import TimeTrial
from vitbench.devices import DTYPES
from vitbench.model.build import Baseline
from vitbench.model.counting import flops_of_call, forward_flops, parameters
from vitbench.model.encoder import SUBLAYERS, Block
from vitbench.model.vit import VisionTransformer
from vitbench.timing.subject import UNITS, input_of
from vitbench.timing.values import Sizes


def count(trial: TimeTrial) -> Sizes:
    """The sizes of a trial.

    Operations are those of the function, whatever the implementation does: products only, a multiply-add counting
    two, a backward pass twice the forward (Kaplan et al. 2020, arXiv 2001.08361, §2.1); what a kernel computes again to
    save memory does not count.
    """
    with torch.device("meta"):
        unit = UNITS[trial.level](trial.model)
        forward = _forward_flops(trial)
    return Sizes(
        parameters=parameters(unit),
        forward_flops=forward,
        flops=(3 if trial.training else 1) * forward * trial.batch_size,
        bytes=_numbers(trial) * DTYPES[trial.dtype].itemsize,
    )


def _forward_flops(trial: TimeTrial) -> int:
    if trial.level == "model":
        return forward_flops(trial.model, training=trial.training)
    reference = trial.model.reference()
    unit = UNITS[trial.level](reference).eval()
    return flops_of_call(unit, torch.empty(input_of(unit, reference, trial.level, 1)))[""]


def _numbers(trial: TimeTrial) -> int:
    """Compulsory traffic: each tensor at the edge of a part is read or written once in each pass, nothing inside it.

    Forward: input x and parameters p are read, output y is written. Backward: x, p and dy are read, dx and dp are
    written; an attention's core reads y once more (for Σ dy · y).
    """
    spec, level = trial.model.reference(), trial.level
    of_input, of_output = (3, 3 if level == "attention_core" else 2) if trial.training else (1, 1)
    numbers = list[int]()

    def see(part: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        numbers.append(of_input * (trial.batch_size * inputs[0].numel() + parameters(part)))
        numbers.append(of_output * trial.batch_size * output.numel())

    with torch.device("meta"), torch.no_grad():
        unit = UNITS[level](spec).train(trial.training and spec.patch_drop > 0)
        for part in _parts(unit):
            part.register_forward_hook(see)
        unit(torch.empty(input_of(unit, spec, level, 1)))
    if isinstance(unit, VisionTransformer):  # of its head the weights alone
        numbers.append(of_input * parameters(unit.head))
    return sum(numbers)


def _parts(unit: nn.Module) -> list[nn.Module]:
    """The parts of what is timed across which nothing is fused.

    A block is its norms, attention and MLP, a model is its patching, blocks and last norm: fusing across those would
    beat the bound, and no public ViT does. A baseline is its layers that have parameters.
    """
    if isinstance(unit, Baseline):
        return [layer for layer in unit.modules() if not list(layer.children()) and parameters(layer)]
    blocks = [block for block in unit.modules() if isinstance(block, Block)]
    names = [f"{sublayer}{part}" for sublayer in SUBLAYERS for part in ("_norm", "", "_output_norm")]
    parts = [part for block in blocks for name in names if (part := getattr(block, name)) is not None]
    if isinstance(unit, VisionTransformer):
        return [unit.patching, *parts, *([unit.encoder.final_norm] if unit.spec.final_norm else [])]
    return parts if isinstance(unit, Block) else [unit]
