"""A study's conclusions: verdicts on what its axes do, how they interact, and the claims that it puts to the test.

Each table is a family of its own for Holm's correction. Axes whose values are all exact twins are in no table of
effects: they compute the same function, and what differs between them is noise by construction.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vitbench.analysis.factorial import Runs, effect, interactions, one_at_a_time, reference_of
from vitbench.analysis.verdicts import Judged, Verdict, judge
from vitbench.spec.suite import Fact

Outcome = Literal["reproduced", "not reproduced", "undecided"]
"""What became of a claim:

- reproduced: the verdict is the one that was claimed: better for higher, worse for lower, equivalent for equal.
- not reproduced: the verdict is another of these three.
- undecided: the runs do not tell: undecided, underpowered or invalid.
"""

CLAIMED: Mapping[str, Verdict] = {"higher": "better", "lower": "worse", "equal": "equivalent"}


@dataclass(frozen=True)
class Effect:
    """What one value of an axis does, against the axis' reference."""

    axis: str
    value: str
    against: str
    judged: Judged


@dataclass(frozen=True)
class Tested:
    """A claim, and what the runs say of it."""

    fact: Fact
    judged: Judged
    outcome: Outcome


def effects(
    runs: Runs, axes: Mapping[str, Sequence[str]], scientific: Collection[str], *, margin: float | None,
    noise_floor: float | None,
) -> list[Effect]:  # fmt: skip
    """Main effects of the scientific axes, as one family.

    Args:
        runs: of one device and origin.
        axes: axis → its values as text: all that the grid is made of.
        scientific: the axes under study; the others are exact twins or conditions.
        margin: see :func:`vitbench.analysis.verdicts.judge`.
        noise_floor: see the same.
    """
    wanted = [
        (axis, value, against)
        for axis in axes
        if axis in scientific
        for against in [reference_of(runs, axes, axis)]
        for value in axes[axis]
        if value != against
    ]
    compared = [effect(runs, axes, axis, value, against) for axis, value, against in wanted]
    judged = judge(compared, margin=margin, noise_floor=noise_floor)
    return [Effect(*names, judged=each) for names, each in zip(wanted, judged, strict=True)]


def two_way(
    runs: Runs, axes: Mapping[str, Sequence[str]], scientific: Collection[str], conditions: Collection[str], *,
    margin: float | None, noise_floor: float | None,
) -> list[Judged]:  # fmt: skip
    """Two-way interactions of the scientific axes, with one another and with the conditions, as one family.

    See :func:`interactions`, and :func:`vitbench.analysis.design.conditions`.
    """
    pairs = [
        pair
        for pair in itertools.combinations([axis for axis in axes if axis in {*scientific, *conditions}], 2)
        if not set(pair) <= set(conditions)
    ]
    found = [each for pair in pairs for each in interactions(runs, axes, pair)]
    return judge(found, margin=margin, noise_floor=noise_floor)


def against_first(runs: Runs, cells: Sequence[str], *, margin: float | None, noise_floor: float | None) -> list[Judged]:
    """Some cells against the first of them, as one family; none where there is but one."""
    return judge(one_at_a_time(runs, cells) if cells else [], margin=margin, noise_floor=noise_floor)


def claims(
    runs: Runs, axes: Mapping[str, Sequence[str]], facts: Sequence[Fact], *, margin: float | None,
    noise_floor: float | None,
) -> list[Tested]:  # fmt: skip
    """A suite's claims put to the test, as one family.

    A claim about an axis is a main effect over the matched pairs of the cells that it holds for (``where``); one about
    two cells is their difference, seed by seed.
    """
    compared = []
    for fact in facts:
        if fact.axis is None:
            compared += one_at_a_time(runs, [fact.against, fact.value])
        else:
            held = {axis: (fact.where[axis],) if axis in fact.where else values for axis, values in axes.items()}
            compared.append(effect(runs, held, fact.axis, fact.value, fact.against))
    judged = judge(compared, margin=margin, noise_floor=noise_floor)
    return [Tested(fact, each, outcome(fact, each.verdict)) for fact, each in zip(facts, judged, strict=True)]


def outcome(fact: Fact, verdict: Verdict) -> Outcome:
    """What a verdict makes of a claim: see :data:`Outcome`."""
    if verdict == CLAIMED[fact.expected]:
        return "reproduced"
    return "not reproduced" if verdict in CLAIMED.values() else "undecided"
