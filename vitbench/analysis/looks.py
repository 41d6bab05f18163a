"""Looks: group-sequential tests. Cells that are decided stop early, at the error rate that was planned.

Of the probability α of any error, a look after the share t of the seeds may have spent α·t² (Kim and DeMets 1987,
Design and Analysis of Group Sequential Tests Based on the Type I Error Spending Rate Function). The level of each look
follows from the joint distribution of what the looks see, normal with the correlation √(t / t') of t and t' (Lan and
DeMets 1983, Discrete Sequential Boundaries for Clinical Trials), by integrating over what has not crossed before
(Armitage, McPherson and Rowe 1969). Against independent increments, α·(t² - t'²), that is half as much again.

Over the comparisons of a report Holm's procedure goes on within each look, and what it rejects leaves the family (Ye,
Li, Liu and Yao 2013, A Group Sequential Holm Procedure with Multiple Primary Endpoints). That takes levels which grow
with the share of α that a hypothesis has, as these do: which looks are able to decide is settled by the plan alone.

Imports nothing but the standard library, since `vitbench plan` prints what the last look can show.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from vitbench.analysis.multiplicity import ALPHA, reachable

STEPS, PER_DEVIATION = 64, 4
"""Steps of an integral's grid: at least so many, and so many to a standard deviation of what the next look adds."""

FARTHEST = 12.0  # Standard deviations: no boundary lies beyond
BISECTIONS = 50


@dataclass(frozen=True)
class Look:
    """One look of a plan, for the comparisons that are still open at it."""

    at: tuple[int, ...]  # numbers of seeds at which the plan looks
    number: int  # index of this look; -1 before the first, when there are no verdicts
    # whether a difference can be decided at each; a look that cannot spends nothing of α on differences
    able: tuple[bool, ...]
    family: int  # hypotheses of the report, open or not
    weight: float  # of all of them together, as differences
    weight_of_equality: float  # of all of them together, as equalities
    # weight of those that have stopped and are not rejected as equal: they stay in the family of differences
    different: float = 0.0
    equal: float = 0.0  # weight of those that have stopped and are not rejected as different by more than the margin

    @property
    def seeds(self) -> int:
        """Seeds of an arm that it looks at."""
        return self.at[max(self.number, 0)]

    @property
    def last(self) -> bool:
        """Whether no other comes after it."""
        return self.number == len(self.at) - 1

    def level(self, alpha: float = ALPHA) -> float:
        """The p up to which a difference is shown, where α may be spent on it over all looks."""
        return levels(self.at, alpha, self.able)[self.number] if self.number >= 0 else 0.0

    def level_of_equality(self, alpha: float = ALPHA) -> float:
        """The p up to which an equivalence is shown; every look can decide one, since its p has no least value."""
        return levels(self.at, alpha, (True,) * len(self.at))[self.number] if self.number >= 0 else 0.0


def able(
    looks: tuple[int, ...], comparisons: float, paired: Iterable[bool], *, permutation: bool = False
) -> tuple[bool, ...]:
    """Whether at each look Holm's first step can be passed by a comparison of some kind, paired or not.

    The smallest p of a permutation test says so before anything is run: 0.029 with four seeds.
    """
    kinds = set(paired) or {False}
    spent = [ALPHA * (n / looks[-1]) ** 2 for n in looks]
    return tuple(
        any(reachable(n, comparisons, each, paired=pairs, permutation=permutation) for pairs in kinds)
        for n, each in zip(looks, spent, strict=True)
    )


@functools.lru_cache(maxsize=4096)
def levels(looks: tuple[int, ...], alpha: float, able: tuple[bool, ...]) -> tuple[float, ...]:
    """Two-sided level of each look: P(any p is at most its look's level) is α where nothing differs; 0 where not able.

    With S the sum of what has been seen, a Brownian motion at time t = n / last n, and b the boundary of |S|: b is
    where P(|S(t)| > b, no boundary crossed before) = α·t² - what was spent before; the level is P(|S(t)| > b).
    """
    of_looks, spent, before = list[float](), 0.0, 0.0
    density = [(0.0, 1.0)]
    for number, n in enumerate(looks):
        if not able[number]:
            of_looks.append(0.0)
            continue
        time = n / looks[-1]
        left, deviation = alpha * time**2 - spent, math.sqrt(time - before)
        bound = _where_beyond_is(left, density, deviation, FARTHEST * math.sqrt(time))
        # Of the first look the level is what it may spend, to the last digit.
        of_looks.append(left if not before else math.erfc(bound / math.sqrt(2 * time)))
        following = next((m for m, can in zip(looks[number + 1 :], able[number + 1 :], strict=True) if can), None)
        if following is not None:
            density = _within(bound, density, deviation, math.sqrt((following - n) / looks[-1]))
        spent, before = alpha * time**2, time
    return tuple(of_looks)


Density = list[tuple[float, float]]  # (place, probability around it)


def _where_beyond_is(wanted: float, density: Density, deviation: float, farthest: float) -> float:
    """The boundary that a normal step from a density crosses, to either side, with a probability."""
    low, high, scale = 0.0, farthest, deviation * math.sqrt(2)
    for _ in range(BISECTIONS):
        bound = (low + high) / 2
        crossing = sum(w * (math.erfc((bound - s) / scale) + math.erfc((bound + s) / scale)) for s, w in density) / 2
        low, high = (bound, high) if crossing > wanted else (low, bound)
    return high


def _within(bound: float, density: Density, deviation: float, next_deviation: float) -> Density:
    """Density within a boundary after a normal step, by Simpson's rule."""
    steps = 2 * max(STEPS // 2, math.ceil(PER_DEVIATION * bound / next_deviation))
    width, factor = 2 * bound / steps, 1 / (deviation * math.sqrt(2 * math.pi))
    weights = [1 if i in (0, steps) else 4 if i % 2 else 2 for i in range(steps + 1)]
    points = []
    for i, weight in enumerate(weights):
        place = i * width - bound
        here = sum(w * math.exp(-(((place - s) / deviation) ** 2) / 2) for s, w in density) * factor
        points.append((place, here * width * weight / 3))
    return points
