"""Once: all equivalent implementations are trained with the first seed, and one of them with the other seeds for all.

Training with one seed again, by another implementation, differs by rounding alone, which grows from step to step. So
the end of a run says little of whether two functions are one, and the first epoch says nearly all. Mean training loss
of an epoch, relative differences between equivalent implementations on a CPU:

- suite components, float32: 2e-7 in each of two epochs.
- suite planted, float32, a high learning rate: in the first epoch 1e-6 in the median, 5e-4 in most classes at the most
  and 1e-2 in one; in the last 0.1 to 0.5, as between two seeds.
- suite components, bfloat16: 2e-3 in the first of six epochs, 4e-2 in the fourth, and 1.9 points of test accuracy.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from vitbench.config.recipe import DType
from vitbench.store import Disagreement, PlannedTrial, Record, StudyFolder, StudyInfo, TrainValues, Trials
from vitbench.store.attempts import finished, standing
from vitbench.store.classes import classes

FIRST_EPOCH: Mapping[DType, float] = {"float32": 0.0001, "bfloat16": 0.01}
"""Relative difference of the mean training loss of the first epoch up to which it is rounding. One that is larger may
be rounding, too: then each implementation has a course of its own, and is trained."""

DISAGREE = "these implementations disagree with the first seed, and are trained with every one"

ERRORS = 3.0
"""Standard errors by which test accuracies may differ: a function that was rounded otherwise for a whole run has other
errors on the test images, and as many."""


def decisive(study: StudyFolder) -> dict[str, list[Record]]:
    """Trial id → records of the runs of a study on which its plan depends: of tuning, and of classes' first seed."""
    firsts = {planned.id for members in classes(study.info.trials) for planned in members}
    return study.records(lambda attempt: attempt.kind == "tune" or attempt.trial_id in firsts)


def once(
    trials: Trials, records: Mapping[str, list[Record]], max_attempts: int
) -> tuple[Trials, tuple[Disagreement, ...]]:
    """The plan without the further seeds of all but one of each class, and the classes that are left whole.

    The one is the first in the plan's order that runs on the device, as far as is known. A class of which two disagree
    with the first seed is no class.
    """
    split, spared = list[Disagreement](), set[str]()
    for members in classes(trials):
        if reason := _disagreement(members, records):
            split.append(Disagreement(cells=tuple(p.cell for p in members), reason=reason))
        else:
            chosen = next((p for p in members if _able(p, records.get(p.id, []), max_attempts)), members[0])
            spared |= {planned.id for planned in members if planned is not chosen}
    pairs = zip(trials.ids(), trials.firsts, strict=True)
    further = {trial_id for trial_id, first in pairs if first.id in spared and first.id != trial_id}
    return trials.where(lambda trial_id, _: trial_id not in further), tuple(split)


def in_words(info: StudyInfo) -> list[str]:
    """Trainings that a plan spares, and why it does not where implementations disagree."""
    if info.implementations != "one":
        return []
    trials = info.trials
    runs = Counter(planned.id for planned in trials.firsts)
    able = {p.id for p in trials.up_to_seed if p.trial.kind == "train" and p.id not in trials.unsupported}
    apart = {cell for each in info.split for cell in each.cells}
    alike = [
        [runs[p.id] for p in members if p.id in able]
        for members in classes(trials)
        if not apart.intersection(p.cell for p in members)
    ]
    alike = [each for each in alike if len(each) > 1]
    sentences, trained = [], sum(runs[trial_id] for trial_id in able)
    if spared := sum(max(each) * len(each) - sum(each) for each in alike):
        sentences.append(
            f"{sum(map(len, alike))} cells are {len(alike)} function{'s' * (len(alike) > 1)}: equivalent "
            f"implementations are all trained with the first seed, and one of them with the others: {trained} "
            f'trainings, where train.implementations = "all" has {trained + spared}'
        )
    return [*sentences, *(f"{', '.join(each.cells)}: {DISAGREE}: {each.reason}" for each in info.split)]


def _able(planned: PlannedTrial, attempts: Sequence[Record], max_attempts: int) -> bool:
    """Whether nothing is known against a trial's implementation on its device."""
    failed = finished(attempts, max_attempts) and standing(attempts).state != "ok"
    return not failed and planned.trial.unsupported(planned.trial.device) is None


def _disagreement(members: Sequence[PlannedTrial], records: Mapping[str, list[Record]]) -> str:
    """Difference between implementations of one function that rounding cannot explain; empty if there is none."""
    ended = [(p.cell, standing(records[p.id]).values) for p in members if p.id in records]
    trained = [(cell, values) for cell, values in ended if isinstance(values, TrainValues)]
    if not trained:
        return ""
    first, reference = trained[0]
    tolerance = FIRST_EPOCH[members[0].trial.dtype]
    for cell, values in trained[1:]:
        which = f"of {first} and {cell}"
        losses = [(each.pretraining or each.epochs)[0].train_loss for each in (reference, values)]
        if not math.isclose(*losses, rel_tol=tolerance, abs_tol=tolerance * tolerance):
            return f"training loss of the first epoch {which}: {losses[0]:.6g} and {losses[1]:.6g}"
        accuracies = [each.test_accuracy_pct / 100 for each in (reference, values)]
        mean = sum(accuracies) / 2
        error = math.sqrt(2 * mean * (1 - mean) / max(values.test_images, 1))
        if abs(accuracies[0] - accuracies[1]) > ERRORS * error:
            return f"test accuracy {which}: {100 * accuracies[0]:.2f} % and {100 * accuracies[1]:.2f} %"
    return ""
