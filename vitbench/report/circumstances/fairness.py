"""Fairness: what cells were given alike or not, and how far they differ where they ought not to, in sentences."""

from __future__ import annotations

from vitbench.analysis.same_batches import unlike
from vitbench.report.circumstances import settings, spent
from vitbench.report.markdown import Md, escape, listed
from vitbench.report.numbers import fixed, plural
from vitbench.report.view import View
from vitbench.spec.effects import dead
from vitbench.spec.suite import as_text
from vitbench.spec.trial import TrainTrial

NUISANCES = ("learning_rate", "weight_decay", "warmup_epochs", "schedule", "optimizer", "batch_size", "epochs")
"""Fields of the recipe on whose tuning a comparison may hang."""

MOST_NAMED = 3
"""Seeds, and cells of one, whose batches are not those of the others."""


def caveats(view: View) -> list[Md]:
    """Batches, recipe, budget and noise floor, a sentence each."""
    return [*_batches(view), *_recipe(view), *_budget(view), *_noise_floor(view)]


def _batches(view: View) -> list[Md]:
    """Cells that ought to have been shown the same images in the same order, and were not."""
    found = unlike(view.train, view.planned)
    said = [
        Md(f"**Other batches**: with seed {each.seed}, {listed(each.cells, MOST_NAMED)} saw other batches than "
           f"{escape(each.most)}, though data, seed and recipe ask for the same. What differs between them may come "
           "of that.")
        for each in found[:MOST_NAMED]
    ]  # fmt: skip
    more = len(found) - MOST_NAMED
    return [*said, Md(f"**Other batches**: the same with {plural(more, 'more seed')}.")] if more > 0 else said


def _recipe(view: View) -> list[Md]:
    """What was tuned for each cell, what all have alike, and what is set for some."""
    said, tuned = [], list(view.study.info.tuned)
    if tuned:
        said.append(Md(f"Tuned for each cell on validation, with as many runs for each: {listed(tuned, 8)}."))
    recipes = [p.trial.train for p in view.planned if isinstance(p.trial, TrainTrial)]
    left = [name for name in NUISANCES if f"train.{name}" not in tuned and not dead(name, recipes)]
    alike = [name for name in left if len({getattr(recipe, name) for recipe in recipes}) == 1]
    if alike:
        values = ", ".join(f"{_called(name)} {escape(as_text(getattr(recipes[0], name)))}" for name in alike)
        said.append(Md(f"Fixed for all cells and not tuned for each, which may favour some: {values}."))
    apart = {name: words for name in left if name not in alike and (words := settings.in_words(view, name))}
    if apart:
        values = "; ".join(f"{_called(name)} {words}" for name, words in apart.items())
        said.append(Md(f"**Set differently for some cells**, and not tuned: {values}. What differs between these "
                       "cells may come of that."))  # fmt: skip
    return said


def _budget(view: View) -> list[Md]:
    differing = spent.differing(view)
    return [differing] if differing else []


def _noise_floor(view: View) -> list[Md]:
    floor = view.noise
    if floor is None:
        return []
    twins = "exact twins, which compute the same function from the same weights and seed,"
    over = f"{plural(floor.runs, 'run')} in {plural(floor.groups, 'group')} of twins"
    if floor.largest:
        return [Md(f"**Noise floor**: {twins} differ by up to {fixed(floor.largest, 2)} points of accuracy "
                   f"(standard deviation {fixed(floor.std, 2)} points; {over}). Effects below it are marked; "
                   "whether a mean over many blocks is real all the same takes a test to tell.")]  # fmt: skip
    return [Md(f"**Noise floor**: none was seen. {twins.capitalize()} agree in test accuracy to the last "
               f"digit here ({over}); the noise between seeds is another matter.")]  # fmt: skip


def _called(field: str) -> str:
    return field.replace("_", " ")
