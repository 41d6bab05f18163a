"""Outlook: the smallest effect that a suite can show with its seeds. Imports neither numpy nor pandas nor torch."""

import itertools
import math
from collections.abc import Mapping, Sequence

from vitbench import registry
from vitbench.analysis.design import images, task_axes
from vitbench.analysis.looks import able, levels
from vitbench.analysis.multiplicity import ALPHA, seeds_for, weight
from vitbench.analysis.power import POWER, seeds_needed, smallest_effect, smallest_margin
from vitbench.config.base import by_identity
from vitbench.config.suite import ExpandedSuite, Value, as_text

AT = 2.0  # The effect, in standard deviations of the difference of two runs, that a plan is asked to show
EQUALITY = "claims of equality"
ONE = {"claims": "claim", EQUALITY: "claim of equality", "effects of axes": "effect of an axis",
       "interactions": "interaction", "cells against the first": "cell against the first"}  # fmt: skip


def outlook(suite: ExpandedSuite) -> list[str]:
    """A sentence on the comparisons that the report will judge, as one family; none where nothing is trained.

    The unit is the standard deviation of the difference of two runs, which nobody knows before them. On CIFAR-10 the
    standard deviation between runs is 0.07 to 0.2 points with all of its images (Brokttv/Vit-on-small-data); that of
    differences is √2 times as much.
    """
    seeds = min((len(cell.seeds) for cell in suite.cells if cell.train is not None), default=0)
    looks = next((cell.train.looks for cell in suite.cells if cell.train is not None), ())
    counts = families(suite)
    return [_sentence(suite, counts, seeds, looks)] if seeds and counts else []


def families(suite: ExpandedSuite) -> dict[str, int]:
    """Kind of comparison → how many of them the report judges; what is a hypothesis as well counts as that."""
    counts = dict.fromkeys(ONE, 0)
    grid = [cell for cell in suite.cells if cell.axes.keys() == suite.axes.keys()]
    identity = by_identity(images)
    given = task_axes((cell.axes, identity(cell.data, cell.model.num_classes)) for cell in grid)
    axes = planned_axes(suite)
    under_study = {axis: values for axis, values in compared(suite, axes).items() if axis not in given}
    expected_of: dict[tuple[object, ...], str] = {}
    for hypothesis in suite.facts:
        expected_of.setdefault(
            (hypothesis.axis, frozenset((hypothesis.value, hypothesis.against)), *hypothesis.where.items()),
            hypothesis.expected,
        )
    counts[EQUALITY] = sum(expected == "equal" for expected in expected_of.values())
    counts["claims"] = len(expected_of) - counts[EQUALITY]
    counts["effects of axes"] = sum(
        (axis, frozenset((as_text(value), as_text(axes[axis][0])))) not in expected_of
        for axis, values in under_study.items()
        for value in values
    )
    crossed = {axis: under_study.get(axis, values[1:]) for axis, values in axes.items()}
    for one, other in itertools.combinations(axes, 2):
        planned = {(cell.axes[one], cell.axes[other]) for cell in grid}
        counts["interactions"] += not {one, other} <= given and sum(
            {(a, b), (axes[one][0], b), (a, axes[other][0]), (axes[one][0], axes[other][0])} <= planned
            for a in crossed[one]
            for b in crossed[other]
        )
    first, outside = suite.cells[0], [c for c in suite.cells if not suite.axes or c.axes.keys() != suite.axes.keys()]
    counts["cells against the first"] = sum(
        cell is not first and (None, frozenset((cell.label, first.label))) not in expected_of for cell in outside
    )
    return {name: count for name, count in counts.items() if count}


EXPECTED = {"claims": "higher", EQUALITY: "equal"}


def equality_burden(counts: Mapping[str, int]) -> float:
    """All weights of being shown to be equal, over that of a claim of equality."""
    weights = {name: weight(EXPECTED.get(name), equality=True) for name in counts}
    return sum(count * weights[name] for name, count in counts.items()) / weights[EQUALITY]


def burden(counts: Mapping[str, int], *, heaviest: bool = False) -> float:
    """All weights over the lightest of what is asked, or the heaviest; as if none outside the grid were equivalent."""
    weights = {name: weight(EXPECTED.get(name)) for name in counts}
    asked = [weights[name] for name in counts if name != EQUALITY] or [weights[EQUALITY]]
    return sum(count * weights[name] for name, count in counts.items()) / (max if heaviest else min)(asked)


def planned_axes(suite: ExpandedSuite) -> dict[str, list[Value]]:
    """Axis → those of its values that a cell of the grid has, which may be a choice of its cells."""
    grid = {pair for cell in suite.cells if cell.axes.keys() == suite.axes.keys() for pair in cell.axes.items()}
    return {axis: [value for value in values if (axis, value) in grid] for axis, values in suite.axes.items()}


def compared(suite: ExpandedSuite, axes: Mapping[str, Sequence[Value]]) -> dict[str, list[Value]]:
    """Axis → those of its values that are compared with its first: none where all are equivalent implementations.

    Where one of those is trained for all, the others of them are not compared with it beside further values either.
    """
    every = any(cell.train.implementations == "all" for cell in suite.cells if cell.train)
    others: dict[str, list[Value]] = {}
    for axis, values in axes.items():
        slot = axis in registry.slots() and registry.reference(axis) is not None
        exact = {value for value in values if slot and registry.facts(axis, str(value)).exact}
        left_out = len(exact) == len(values) or (not every and values[:1] and values[0] in exact)
        others[axis] = [value for value in values[1:] if not left_out or value not in exact]
    return others


def _paired(suite: ExpandedSuite) -> bool:
    """Whether all comparisons are of paired differences: by ``test``, or as all cells start from the same weights."""
    starts = {cell.train.pretrained for cell in suite.cells if cell.train is not None}
    return suite.info.test == "paired" or (suite.info.test != "unpaired" and len(starts) == 1 and all(starts))


def _sentence(suite: ExpandedSuite, counts: dict[str, int], seeds: int, looks: tuple[int, ...]) -> str:
    comparisons, alpha, spread = burden(counts), ALPHA, suite.info.spread
    kind = {"paired": _paired(suite), "permutation": suite.info.test == "permutation"}
    if looks:  # the last look has a part of α
        can = able(looks, burden(counts, heaviest=True), [kind["paired"]], permutation=kind["permutation"])
        alpha = comparisons * levels(looks, ALPHA / comparisons, can)[-1]
    counted = ", ".join(f"{count} {name if count > 1 else ONE[name]}" for name, count in counts.items())
    several = f"{'at most ' if looks else ''}{seeds} seed{'s' * (seeds > 1)}"
    least = smallest_effect(seeds, comparisons, alpha=alpha, **kind)
    if math.isinf(least):
        fewest = seeds_for(comparisons, **kind)
        answer = f"underpowered, whatever the effect; {fewest} seeds are the fewest that can show any"
    else:
        answer = (f"the smallest effect found {POWER:.0%} of the time is {least:.2f} standard deviations of the "
                  "difference of two runs")  # fmt: skip
        if spread:  # an effect is one of means over cells, which spread less
            answer += f", at most {least * math.sqrt(2) * spread:.1f} points (a run's is {spread:g} between seeds)"
        crossed = sum(map(bool, compared(suite, planned_axes(suite)).values()))
        if "interactions" in counts and crossed == 2:  # an interaction is of four runs then, and no mean over more
            answer += f"; an interaction must be {math.sqrt(2):.1f} times as large"
        if EQUALITY in counts and suite.info.margin:
            wide = smallest_margin(seeds, equality_burden(counts), alpha, paired=kind["paired"])
            answer += (f"; equal arms are shown to be equal, within {suite.info.margin:g} points, where that deviation "
                       f"is at most {suite.info.margin / wide:.2f} points")  # fmt: skip
    needed = seeds_needed(AT, 1.0, comparisons, **kind)
    if needed and needed >= seeds:
        answer += f"; {needed + 1} seeds would find one of {AT:g} standard deviations with a run lost"
    return f"{counted}, {several}: {answer}"
