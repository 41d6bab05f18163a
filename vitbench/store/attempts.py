"""Attempts at a trial: their state in brief, which attempt counts, and whether another is needed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, NamedTuple, TypeVar

from pydantic import Field

from vitbench.store.record import AGAIN, NonNegative, Record, State

SEALED = "#"
"""Sign in :attr:`Attempt.file` between a segment's name and the number of a record in it."""


Row = tuple[
    Annotated[str, Field(pattern=r"^[0-9a-f]{20}$")], Literal["tune", "train", "time"],
    Annotated[int, Field(gt=0, le=1_000_000)], State, str, datetime, NonNegative, str | None,
]  # fmt: skip
"""The fields of an :class:`Attempt` without its file, as a segment stores them."""


class Attempt(NamedTuple):
    """A record in brief: enough to decide whether its trial is finished."""

    # where the record is: the name of a file in ``records/``, or ``<segment>#<line>``, see :mod:`vitbench.store.packed`
    file: str
    trial_id: str
    kind: str
    attempt: int
    state: str
    reason: str
    started_at: datetime
    seconds: float  # that the attempt took
    code: str | None  # state of the code that made it, plug-ins included; None where no process came so far as to look

    @property
    def packed(self) -> bool:
        """Whether the record is in a segment."""
        return SEALED in self.file

    @property
    def ended(self) -> float:
        """When the attempt ended, by the clock of the machine that ran it, in seconds since 1970."""
        return self.started_at.timestamp() + self.seconds


def attempt_of(record: Record, file: str) -> Attempt:
    """A record in brief."""
    return Attempt(
        file, record.trial_id, record.trial.kind, record.attempt, record.state, record.reason, record.started_at,
        record.seconds, record.code,
    )  # fmt: skip


Of = TypeVar("Of", Attempt, Record)


def standing(attempts: Sequence[Of]) -> Of:
    """The record that stands for a trial: the last ok one, else the last. (There is a second one only where a user
    had results of other code run again.)"""
    return next((r for r in reversed(attempts) if r.state == "ok"), attempts[-1])


def last_attempt(attempts: Sequence[Attempt]) -> int:
    """Number of the last attempt; 0 where there is none. A damaged one leaves a gap."""
    return max((r.attempt for r in attempts), default=0)


def finished(attempts: Sequence[Of], max_attempts: int) -> bool:
    """Whether a trial needs no further attempt."""
    if not attempts:
        return False
    state = standing(attempts).state
    if state in AGAIN:
        return sum(r.state in AGAIN for r in attempts) >= max_attempts
    return state != "interrupted"
