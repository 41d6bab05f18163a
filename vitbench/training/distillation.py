"""Distillation: a convolutional teacher is trained first, and its predictions are targets beside the labels.

Source: Touvron et al. 2021, Training data-efficient image transformers, arXiv 2012.12877, §4; Hinton et al. 2015, arXiv
1503.02531, for soft answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.config.recipe import TrainSpec
from vitbench.data.batches import Batch
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops
from vitbench.model.vit import VisionTransformer
from vitbench.streams import derive
from vitbench.training import stage
from vitbench.training.ensemble import Run
from vitbench.training.stepper import Objective


class Student(nn.Module):
    """A model that is taught: in training it gives both answers, (B, 2, classes), else its logits (B, classes)."""

    def __init__(self, model: VisionTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, C, height, width) → see above."""
        return self.model.both(images) if self.training else self.model(images)


@dataclass(frozen=True)
class Teacher(stage.Done):
    """A network that has been trained."""

    model: nn.Module  # it, in evaluation mode; its weights no longer move
    flops: int  # of its training, and of its answers to the student


def recipe_of(recipe: TrainSpec) -> TrainSpec:
    """How a teacher is trained: by AdamW without warm-up, on crops and mirrored images.

    Batch size, weight decay, schedule and precision are its student's, so that an axis over one of these is one over
    the teacher's training, too.
    """
    return TrainSpec(
        epochs=recipe.teacher_epochs, batch_size=recipe.batch_size, learning_rate=recipe.teacher_learning_rate,
        weight_decay=recipe.weight_decay, schedule=recipe.schedule, crop_padding=recipe.crop_padding, flip=recipe.flip,
        precision=recipe.precision, compile=recipe.compile, cuda_graphs=recipe.cuda_graphs,
    )  # fmt: skip


def teach(where: stage.StageSetting) -> Teacher:
    """Train the teacher of a trial.

    Raises:
        Diverged, Interrupted: as :func:`vitbench.training.loop.train`.
    """
    trial, recipe = where.trial, recipe_of(where.trial.train)
    spec = trial.model.teacher(trial.train.teacher)
    model = build_model(spec, derive(trial.seed, "teacher")).to(where.device)
    done = stage.run("teacher", model, recipe, where, words="teacher")
    images = len(where.data.train)
    of_student = trial.train.images or images * trial.train.epochs
    flops = forward_flops(spec) * (3 * images * recipe.epochs + of_student)
    return Teacher(**vars(done), model=model.eval().requires_grad_(requires_grad=False), flops=flops)


def taught(teacher: nn.Module, recipe: TrainSpec) -> Objective:
    """The objective of a :class:`Student`: its share of the labels' loss and of the teacher's.

    The teacher sees the images as the student does, mixed ones too.
    """
    distance, share = DISTANCES[recipe.distillation], recipe.distillation_share

    def objective(module: nn.Module, run: Run, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        (batch,) = batches
        images = batch.images()
        with torch.no_grad():
            answer = teacher(images).float()
        to_labels, to_teacher = run(images).unbind(dim=1)
        loss = (1.0 - share) * batch.loss(to_labels, recipe.label_smoothing)
        loss = loss + share * distance(to_teacher, answer, recipe.distillation_temperature)
        right = ((to_labels + to_teacher).detach().argmax(dim=-1) == batch.labels).sum()
        return loss.unsqueeze(0), right.unsqueeze(0)

    return objective


def soft(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Divergence of the student's probabilities from the teacher's, both flattened by the temperature T, times T².

    Logits are (B, classes). Source: arXiv 2012.12877, eq. 2.
    """
    predicted, target = ((logits.float() / temperature).log_softmax(dim=-1) for logits in (student, teacher))
    return temperature**2 * F.kl_div(predicted, target, reduction="batchmean", log_target=True)


def hard(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Cross-entropy with the teacher's first choices. Source: arXiv 2012.12877, eq. 3."""
    return F.cross_entropy(student, teacher.argmax(dim=-1))


DISTANCES: Mapping[str, Callable[[Tensor, Tensor, float], Tensor]] = {"soft": soft, "hard": hard}
"""Kind → loss of a student's logits against a teacher's."""
