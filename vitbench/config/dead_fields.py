"""Fields of a recipe without effect, because what they configure is switched off."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from vitbench.config.recipe import TrainSpec, TrainTable


class Requirement(NamedTuple):
    """A condition under which a field has an effect."""

    holds: Callable[[TrainSpec], bool]
    words: str


PRETRAINED = Requirement(lambda recipe: recipe.pretrain_epochs > 0, "pretrain_epochs is 0")
TAUGHT = Requirement(lambda recipe: recipe.has_teacher, 'distillation is "none"')
SOFT = Requirement(lambda recipe: recipe.distillation == "soft", 'distillation is not "soft"')
RANDAUGMENT = Requirement(lambda recipe: recipe.augment == "randaugment", 'augment is not "randaugment"')
ENSEMBLE = Requirement(lambda recipe: recipe.ensemble_seeds, "ensemble_seeds is false")

CONDITIONS: Mapping[str, Requirement] = {
    **dict.fromkeys(("pretrain_learning_rate", "mask_ratio", "decoder_dim", "decoder_depth"), PRETRAINED),
    **dict.fromkeys(("teacher", "teacher_epochs", "teacher_learning_rate", "distillation_share"), TAUGHT),
    "distillation_temperature": SOFT,
    **dict.fromkeys(("randaugment_operations", "randaugment_level", "randaugment_scale"), RANDAUGMENT),
    "ensemble_at_most": ENSEMBLE,
}
"""Field of TrainSpec → what gives it an effect."""

IN_SUITES: Mapping[str, Callable[[TrainSpec], bool]] = {"epochs": lambda recipe: recipe.images is None}
"""Field that a suite cannot set without its effect, since budgets exclude one another → what gives it an effect."""


def _of_epochs(recipe: TrainSpec) -> bool:
    """Whether the budget is in epochs, and neither in images nor in what becomes images in the plan."""
    counted = isinstance(recipe, TrainTable) and (recipe.flops is not None or recipe.match == "flops")
    return recipe.images is None and not counted


def dead(field: str, recipes: Sequence[TrainSpec]) -> bool:
    """Whether a field has no effect in any of some recipes, whatever its value."""
    holds = IN_SUITES.get(field) or (CONDITIONS[field].holds if field in CONDITIONS else None)
    return holds is not None and bool(recipes) and not any(map(holds, recipes))


def dead_letters(recipes: Iterable[TrainSpec]) -> list[str]:
    """A sentence for each field that is set without effect in all recipes of a suite, or whose value is never reached.

    It is enough that one recipe uses it: a base table says for all cells what those on one side of an axis need.
    """
    distinct = list({id(recipe): recipe for recipe in recipes}.values())
    sentences = []
    for field, condition in CONDITIONS.items():
        neutral = TrainSpec.model_fields[field].default
        given = [recipe for recipe in distinct if getattr(recipe, field) != neutral]
        if given and not any(condition.holds(recipe) for recipe in given):
            sentences.append(f"train.{field} has no effect: {condition.words} in every cell that sets it")
    short = {(recipe.warmup_epochs, recipe.epochs) for recipe in distinct if _of_epochs(recipe)}
    sentences += [
        f"train.learning_rate is never reached: epochs is {epochs}, and warmup_epochs is {warmup:g}"
        for warmup, epochs in sorted(short)
        if warmup >= epochs
    ]
    return sentences
