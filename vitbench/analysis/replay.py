"""Replay: the looks of a study one after another, from its records, in whatever order these were made.

At each look all comparisons that are open are judged by the first so many seeds of their cells, and those that are
decided stop. A cell goes on as long as an open comparison uses its runs, its baseline's and those of equivalent
implementations among them. What the next look needs is what is trained next, and the verdicts are the report's.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from vitbench.analysis.factorial import Runs, cells_of
from vitbench.analysis.looks import Look, able
from vitbench.analysis.multiplicity import ALPHA
from vitbench.analysis.verdicts import Comparison, Judged, keys, pairs, weights_of
from vitbench.config.suite import Test
from vitbench.store.info import LookPlan

DECIDED = frozenset({"better", "worse", "equivalent", "invalid"})  # Verdicts with which a comparison stops


@dataclass(frozen=True)
class Looking:
    """The looks of a plan, and which of its runs have finished."""

    plan: LookPlan  # the looks
    # (device, cell) → seed → whether its run needs no further attempt, of the runs that are planned
    finished: Mapping[tuple[str, str], Mapping[int, bool]]

    @classmethod
    def of(cls, plan: LookPlan, train: pd.DataFrame, unfinished: Collection[str]) -> "Looking":
        """The looks of a plan over its training trials, some of which are unfinished, by their ids."""
        finished: dict[tuple[str, str], dict[int, bool]] = {}
        columns = [train[name] for name in ("device", "cell", "seed", "trial_id")]
        for device, cell, seed, trial_id in zip(*columns, strict=True):
            finished.setdefault((str(device), str(cell)), {})[int(seed)] = trial_id not in unfinished
        return cls(plan, finished)

    def takes_place(self, runs: Runs, seeds: Collection[int], cells: Collection[str]) -> bool:
        """Whether some cells have finished some seeds, or given them up; of one function one cell may have them all."""
        of_function: dict[str, set[int]] = {}
        for cell in cells:
            finished = self.finished.get((runs.device, cell), {})
            if not all(finished.get(seed, True) for seed in seeds):
                return False
            of_function.setdefault(runs.function_of[cell], set()).update(finished)
        return all(planned.issuperset(seeds) for planned in of_function.values())


def replay(
    runs: Runs, looking: Looking, rows_of: Callable[[Runs], list[Comparison]],
    judged_at: Callable[[Sequence[Comparison], Look], list[Judged]], test: Test | None,
) -> tuple[list[Judged], dict[str, int]]:  # fmt: skip
    """Look after look, up to the first that cannot take place yet.

    Args:
        runs: all of a device and environment.
        looking: see there.
        rows_of: runs → the comparisons of the report, as many and in the same order whatever the runs.
        judged_at: verdicts on the open ones at a look.
        test: what the suite sets in place of the rule.

    Returns:
        The comparisons, each by the look that decided it, else by the latest; cell → seeds that it is trained with, up
        to the next look.
    """
    at, planned = looking.plan.at, looking.plan.seeds
    labels, functions = list(runs.function_of), runs.functions
    going, seeds = set(labels), dict[str, int]()
    judged, stopped = dict[int, Judged](), set[int]()
    different, equal, closed = set[bytes | int](), set[bytes | int](), set[bytes | int]()
    look: Look | None = None
    for number, n in enumerate(at):
        seeds |= dict.fromkeys(going, n)
        taken = looking.takes_place(runs, planned[:n], going)
        if not taken and judged:
            break
        rows = rows_of(runs.of_seeds(planned[:n]))
        key = keys(rows)
        if look is None:
            kinds, weights = {pairs(row, test) for row in rows}, weights_of(rows)
            total, of_equality = sum(weights.values()) or 1.0, weights_of(rows, equality=True)
            parts = total / max(weights.values(), default=1.0)
            can = able(at, parts, kinds, permutation=test == "permutation")
            look = Look(at, -1, can, max(len(weights), 1), total, sum(of_equality.values()))
        left = [i for i in range(len(rows)) if i not in stopped]
        look = replace(
            look,
            number=number if taken else -1,
            different=sum(weights[each] for each in closed - different),
            equal=sum(of_equality[each] for each in closed - equal),
        )
        judged |= zip(left, judged_at([rows[i] for i in left], look), strict=True)
        if not taken:
            break
        different |= {key[i] for i in left if judged[i].p_holm <= ALPHA}
        equal |= {key[i] for i in left if judged[i].verdict == "equivalent"}
        stopped |= {i for i in left if judged[i].verdict in DECIDED or rows[i].lent}
        closed |= {key[i] for i in stopped}
        open_cells = {cell for i in left if i not in stopped for cell in cells_of(rows[i])}
        alike = {functions[cell] for cell in open_cells}
        going = {label for label, function in zip(labels, functions, strict=True) if function in alike}
        if not going:
            break
    return [judged[i] for i in range(len(judged))], seeds
