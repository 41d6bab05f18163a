"""Counterparts: the arm of the first study that each other arm is compared with.

A GPU's timing is compared with the GPU's of the first study, and that of a second machine with the second machine's:
else a slow device of the first study would count as a regression, and a regression on a fast one as none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from vitbench.analysis.arms import Arm
from vitbench.analysis.sides import HARDWARE

T = TypeVar("T")


def counterparts(arms: Sequence[Arm]) -> list[tuple[int, ...]]:
    """Of each arm the numbers of those that it may be compared with, the likest first.

    These are the first study's arms on the same type of device: of the same conditions, then of the same machine,
    then the others. Where there is none, and for the first study's own other arms, it is the first arm of all; for
    that one it is none.
    """
    first = [number for number, arm in enumerate(arms) if arm.place == 0]
    found: list[tuple[int, ...]] = [()]
    for arm in arms[1:]:
        same = [number for number in first if arms[number].device == arm.device] if arm.place else []
        apart = {number: _distance(arms[number], arm) for number in same}
        found.append(tuple(sorted(same, key=apart.__getitem__)) or (0,))
    return found


def counterpart(of_arms: Sequence[T | None], candidates: Sequence[int], ok: Callable[[T], bool]) -> int | None:
    """The first candidate that has a result of something, else the first that plans it; None without any."""
    having = {number: each for number in candidates if (each := of_arms[number]) is not None}
    return next((number for number, each in having.items() if ok(each)), next(iter(having), None))


def _distance(one: Arm, other: Arm) -> tuple[bool, int]:
    """How far apart the conditions of two arms are, where both are known."""
    if one.conditions is None or other.conditions is None:
        return True, len(HARDWARE) + 1
    here, there = one.conditions.machine, other.conditions.machine
    return one.conditions != other.conditions, sum(
        here.get(name) != there.get(name) for name in here.keys() | there.keys()
    )
