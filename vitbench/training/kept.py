"""Kept: the trained models, as they are evaluated and saved."""

import copy
import functools
from pathlib import Path

import torch
from torch import nn

from vitbench.config.model import ModelSpec
from vitbench.config.trial import TrainingTrial
from vitbench.data.images import Splits
from vitbench.model.build import Model, network
from vitbench.model.weights import save_weights
from vitbench.training.distillation import Student
from vitbench.training.ensemble import Ensemble
from vitbench.training.probe import Probe
from vitbench.training.stepper import Stepper


def final_model(stepper: Stepper, spec: ModelSpec, member: int = 0) -> Model:
    """A model of its own that gives the logits by which a member is judged: of its weights' average, if there is one.

    Args:
        stepper: at the end of a training.
        spec: of the model.
        member: its number in the ensemble; 0 of a trial that is alone.
    """
    model = network(spec)
    model.load_state_dict(_weights(stepper.modules().get("ema", stepper.module), member))
    return model.eval()


def keep(stepper: Stepper, trial: TrainingTrial, data: Splits, path: Path, member: int = 0) -> Path:
    """Write what a trial's training gave into a safetensors file.

    The file says of which trial it is, and the mean and deviation by which its images were normalised. It does not say
    where these lay: files of one training are the same wherever it was run.

    Raises:
        OSError: where it cannot be written.
    """
    about = {
        "trial": trial.id, "spec": trial.canonical(), "classes": list(data.class_names),
        "mean": data.mean.flatten().tolist(), "std": data.std.flatten().tolist(),
    }  # fmt: skip
    return save_weights(final_model(stepper, trial.model, member), path, about)


@functools.singledispatch
def _weights(module: nn.Module, member: int) -> dict[str, torch.Tensor]:
    """Names and tensors of a bare model, out of what holds it."""
    assert member == 0
    return {name: tensor.detach().cpu() for name, tensor in module.state_dict().items()}


@_weights.register
def _(module: Student, member: int) -> dict[str, torch.Tensor]:
    return _weights(module.model, member)


@_weights.register
def _(module: Probe, member: int) -> dict[str, torch.Tensor]:
    """The normalisation before the head becomes a part of the head: w (f - mean) / deviation + b is linear in f."""
    head, norm = copy.deepcopy(module.model.head).cpu(), module.norm
    assert norm.running_mean is not None and norm.running_var is not None
    mean, deviation = norm.running_mean.cpu(), (norm.running_var.cpu() + norm.eps).sqrt()
    weight = head.weight.detach() / deviation
    return {**_weights(module.model, member), "head.weight": weight, "head.bias": head.bias.detach() - weight @ mean}


@_weights.register
def _(module: Ensemble, member: int) -> dict[str, torch.Tensor]:
    stored = module.single.state_dict()  # tables that follow from the spec are in the ensemble, and in no file
    return {name: tensor[member].detach().cpu() for name, tensor in module.tensors().items() if name in stored}
