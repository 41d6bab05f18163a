"""Distillation: losses by their definitions, a teacher that has learnt, and a student that learns from it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.small import DATA, MODEL, recipe_with, train_trial
from tests.training.stages import CPU, changes_nothing, results, silent
from vitbench.config import ModelSpec, TrainSpec
from vitbench.config.trial import TrainTrial, mismatches
from vitbench.data.batches import Batches
from vitbench.data.load import splits
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops
from vitbench.model.vit import VisionTransformer
from vitbench.training.distillation import DISTANCES, Student, hard, soft, taught
from vitbench.training.loop import train

RECIPE = recipe_with(distillation="hard", teacher_epochs=2)
TOKEN = MODEL.model_copy(update={"pooling": "distilled"})


def trial(model: ModelSpec = TOKEN, seed: int = 0, **changes: Any) -> TrainTrial:
    recipe = TrainSpec.model_validate({**RECIPE.model_dump(), **changes})
    return train_trial(model=model, train=recipe, seed=seed)


def test_hard_answers_are_labels_and_soft_ones_probabilities() -> None:
    student, teacher = torch.randn(8, 10, dtype=torch.float64), torch.randn(8, 10, dtype=torch.float64)
    chosen = teacher.argmax(dim=-1)
    assert hard(student, teacher, 3.0) == pytest.approx(F.cross_entropy(student, chosen).item())
    p, q = (F.softmax(logits / 3.0, dim=-1) for logits in (teacher, student))
    expected = 9.0 * (p * (p.log() - q.log())).sum(dim=-1).mean()
    assert soft(student, teacher, 3.0).item() == pytest.approx(expected.item(), rel=1e-5)
    assert soft(teacher, teacher, 3.0).item() == pytest.approx(0.0, abs=1e-6)


def test_the_token_is_a_second_head_and_the_answer_the_mean_of_both() -> None:
    model = build_model(TOKEN, seed=0).eval()
    assert isinstance(model, VisionTransformer)
    images = torch.randn(3, 3, 16, 16)
    both = model.both(images)
    assert both.shape == (3, 2, 10) and not torch.allclose(both[:, 0], both[:, 1])
    torch.testing.assert_close(model(images), both.mean(dim=1))
    plain = build_model(MODEL, seed=0).eval()
    assert isinstance(plain, VisionTransformer)
    assert torch.equal(*plain.both(images).unbind(dim=1)) and torch.equal(plain.both(images)[:, 0], plain(images))
    student = Student(model)
    assert student.train()(images).shape == (3, 2, 10) and student.eval()(images).shape == (3, 10)


@pytest.mark.parametrize(("kind", "model"), [*zip(DISTANCES, (MODEL, TOKEN), strict=True)])
def test_it_runs_repeats_and_is_told(kind: str, model: ModelSpec) -> None:
    lines: list[str] = []
    one, other = (
        train(trial(model, distillation=kind), CPU, lines.append),
        train(trial(model, distillation=kind), CPU, silent),
    )
    assert results(one) == results(other)
    assert [line.partition(":")[0] for line in lines] == ["teacher, epoch 1/2", "teacher, epoch 2/2", "epoch 1/1"]
    assert len(one.teaching) == 2 and all(e.validation_accuracy_pct is not None for e in one.teaching)
    of_teacher = forward_flops(model.teacher("cnn"))
    assert one.preparation_flops == of_teacher * (3 * 160 * 2 + 160)


def test_a_student_learns_what_its_teacher_says() -> None:
    """With nothing of the labels in its loss it still comes to answer them, as far as its teacher does."""
    taught = train(trial(distillation_share=1.0, teacher_epochs=8, epochs=12), CPU, silent)
    alone = train(trial(distillation_share=1.0, teacher_epochs=1, teacher_learning_rate=1e-12, epochs=12), CPU, silent)
    assert taught.epochs[-1].train_accuracy_pct is not None and alone.epochs[-1].train_accuracy_pct is not None
    assert taught.epochs[-1].train_accuracy_pct > alone.epochs[-1].train_accuracy_pct + 15


@pytest.mark.parametrize(("share", "head"), [(0.0, "head"), (1.0, "teacher_head")])
def test_each_head_learns_from_its_own(share: float, head: str) -> None:
    model = build_model(TOKEN, seed=0)
    assert isinstance(model, VisionTransformer) and model.teacher_head is not None
    student, recipe = Student(model).train(), trial(distillation_share=share).train
    (batch, *_) = Batches(splits(DATA, TOKEN, 0), recipe, 0).epoch(0)
    losses, _ = taught(build_model(TOKEN.teacher("cnn"), 0).eval(), recipe)(student, student, [batch])
    losses.sum().backward()
    moved = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert {name.partition(".")[0] for name in moved if "head" in name} == {head}


def test_a_share_of_nothing_is_training_without_a_teacher() -> None:
    """The teacher draws from streams of its own: what the student sees and starts from is as without."""
    without = train(trial(MODEL, distillation="none"), CPU, silent)
    beside = train(trial(MODEL, distillation_share=0.0), CPU, silent)
    assert beside.test_loss == pytest.approx(without.test_loss, rel=1e-5)
    assert beside.batches_digest == without.batches_digest


def test_an_interruption_in_either_stage_changes_nothing(tmp_path: Path) -> None:
    """8 steps of the teacher, then 4 of the student; steps count over both."""
    changes_nothing(trial(), (3, 10), tmp_path)


def test_what_does_not_go_together_is_said() -> None:
    assert mismatches(TOKEN, trial(distillation="none").train)[0][0] == "distillation"
    assert mismatches(TOKEN, trial(frozen=True).train)[0][0] == "frozen"
    assert mismatches(TOKEN, RECIPE) == mismatches(MODEL, RECIPE) == []
    assert "teacher" in (trial(ensemble_seeds=True).ensemble_problem() or "")
