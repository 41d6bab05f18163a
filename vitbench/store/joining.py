"""Joining: a changed plan, merged with the plan that a study had."""

from vitbench.config.base import digest
from vitbench.config.trial import Trial
from vitbench.store.asked import asked
from vitbench.store.info import StudyInfo
from vitbench.store.plan_tables import PlannedTrial
from vitbench.store.trials import Trials

OF_TRAINING = (
    "data_name", "data_identity", "fallback", "class_names", "facts", "goals", "tuned", "untuned", "implementations",
    "split", "looks", "excluded", "options",
)  # fmt: skip
"""Fields of StudyInfo that a plan which only times leaves as they are."""


def joined(known: StudyInfo, info: StudyInfo, run: set[str]) -> StudyInfo:
    """The new plan, and behind it what stays of the old one: the ids in ``run``, which have records or are at work."""
    if not info.data_identity:
        info = info.model_copy(update={name: getattr(known, name) for name in OF_TRAINING})
    planned, old = set(info.trials.ids()), known.trials
    left = [old[i] for i, trial_id in enumerate(old.ids()) if trial_id in run and trial_id not in planned]
    if not left:
        same = bool(known.commands) and planned == set(old.ids()) and asked(known) == asked(info)
        return info.model_copy(update={"commands": known.commands}) if same else info
    of_cell: dict[tuple[str, str], set[str]] = {}
    for p in info.trials:
        of_cell.setdefault((p.trial.kind, p.cell), set()).add(_recipe(p.trial))
    recipes = {(kind, recipe) for (kind, _), digests in of_cell.items() for recipe in digests}
    models, kinds = {p.cell: p.trial.model for p in info.trials}, {kind for kind, _ in of_cell}
    timed_on = {p.trial.device for p in info.trials if p.trial.kind == "time"}

    def comparable(p: PlannedTrial) -> bool:
        """Whether it may stand in one table with the new ones: a run under another recipe is no further seed."""
        recipe, tuned = _recipe(p.trial), of_cell.get((p.trial.kind, p.cell))  # tuned cells have recipes of their own
        known_recipe = recipe in tuned if tuned else (p.trial.kind, recipe) in recipes
        elsewhere = p.trial.kind == "time" and p.trial.device not in timed_on  # with the protocol of its own device
        alike = known_recipe or elsewhere or p.trial.kind not in kinds
        return alike and models.get(p.cell, p.trial.model) == p.trial.model

    kept = [p for p in left if comparable(p)]
    if not kept:
        return info
    whole = info.model_copy(update={"trials": Trials.of([*info.trials, *kept])})
    adds = not planned <= set(old.ids()) or asked(known) != asked(whole)  # trials, or another question
    latest = info.commands if adds and known.commands else ()  # of a plan with none a part would pass for all
    earlier = (command for command in known.commands if command not in latest)
    return whole.model_copy(update={"commands": (*earlier, *latest)})


def _recipe(trial: Trial) -> str:
    """Digest of what two trials of one kind must share to be compared, beside the model, the seed and the device."""
    body = trial.canonical()
    return digest([body.get(key) for key in ("data", "train", "protocol")])
