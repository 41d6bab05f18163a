"""Attempts at one trial: which of them stands, and whether another is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from vitbench.store.index import Tried
from vitbench.store.record import AGAIN

Of = TypeVar("Of", bound=Tried)


def standing(attempts: Sequence[Of]) -> Of:
    """The record that stands for a trial: the last ok one, else the last. (There is a second one only where a user
    had results of other code run again.)"""
    return next((r for r in reversed(attempts) if r.state == "ok"), attempts[-1])


def last_attempt(attempts: Sequence[Tried]) -> int:
    """Number of the last attempt; 0 where there is none. A damaged one leaves a gap."""
    return max((r.attempt for r in attempts), default=0)


def finished(attempts: Sequence[Tried], max_attempts: int) -> bool:
    """Whether a trial needs no further attempt."""
    if not attempts:
        return False
    state = standing(attempts).state
    if state in AGAIN:
        return sum(r.state in AGAIN for r in attempts) >= max_attempts
    return state != "interrupted"
