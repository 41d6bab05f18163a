"""Look plan: the runs that a group-sequential plan needs so far.

What a look decides is the analysis', which is above the runner and handed in; here it is a number of seeds a cell.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from vitbench.config.suite import ExpandedSuite
from vitbench.store import StudyFolder, StudyInfo, Trials
from vitbench.store.info import LookPlan

Wanted = Callable[[StudyInfo], Mapping[str, int]]
"""A plan in which nothing stops early → cell → how many of its seeds are needed; of other cells those of one look."""

Looked = Callable[[StudyFolder], Mapping[str, int]]
"""A study with such a plan → cell → how many of its seeds are needed, by its records."""


def nothing_seen(_: StudyInfo) -> Mapping[str, int]:
    """The seeds that are needed before the first look, of every cell."""
    return {}


def nothing_stops(info: StudyInfo) -> Mapping[str, int]:
    """All seeds of every cell."""
    assert info.looks is not None
    return dict.fromkeys((p.cell for p in info.trials.up_to_seed), len(info.looks.seeds))


def wanted_in(folder: Path, looked: Looked) -> Wanted:
    """The seeds that a plan needs by the records of a study's folder, which may not be there yet."""
    return (lambda info: looked(StudyFolder(folder, info))) if (folder / "study.json").exists() else nothing_seen


def plan_of_looks(suite: ExpandedSuite, looks: tuple[int, ...], trials: Trials) -> LookPlan:
    """The looks of a suite over all trials that there may be."""
    seeds = next(cell.seeds for cell in suite.cells if cell.train)
    return LookPlan(seeds=seeds, at=looks, trainings=sum(kind == "train" for _, kind in trials.kinds()))


def up_to_look(info: StudyInfo, wanted: Wanted) -> StudyInfo:
    """A plan without the seeds that cells do not need, or not yet."""
    if info.looks is None:
        return info
    trials, of_cell = info.trials, wanted(info)
    place, one_look = {seed: number for number, seed in enumerate(info.looks.seeds)}, info.looks.at[0]
    later = {
        trial_id
        for trial_id, first, seed in zip(trials.ids(), trials.firsts, trials.seeds(), strict=True)
        if seed is not None and place[seed] >= of_cell.get(first.cell, one_look)
    }
    return info.model_copy(update={"trials": trials.where(lambda trial_id, _: trial_id not in later)})


def in_words(info: StudyInfo) -> list[str]:
    """How many runs the plan has by now, and which cells have stopped; nothing where it has no looks."""
    if info.looks is None:
        return []
    plan, trials = info.looks, info.trials
    pairs, of_plan = zip(trials.firsts, trials.seeds(), strict=True), set(plan.seeds)
    runs = Counter(first.cell for first, seed in pairs if first.trial.kind == "train" and seed in of_plan)
    cells = {n: sum(seeds == n for seeds in runs.values()) for n in plan.at}
    counts = ", ".join(f"{number} with {n}" for n, number in cells.items() if number)
    return [
        f"results are looked at after {', '.join(map(str, plan.at))} seeds: {sum(runs.values())} trainings by now, at "
        f"most {plan.trainings}; cells by their seeds: {counts}"
    ]
