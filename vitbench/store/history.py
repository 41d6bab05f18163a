"""History: what a study asked at each time, and which of its trials ever finished. It only grows.

Two kinds of files in one folder:

- ``<n>.json``, an immutable entry for each change of what is asked (:mod:`vitbench.store.asked`): old and new values,
  and how many training runs had finished by then. Of several writers one gets a number, and the others look again.
- ``finished-<name>.log``, a line for each trial that finished, appended after its record has been written. Each has one
  writer, which begins every line anew, so that a line that a killed writer leaves half written spoils no other. What is
  missing then is added when the next run starts.

It guards against a change that is forgotten or concealed, not against a forger: whoever writes the folder anew from the
start leaves no trace, and neither does a study in another folder.
"""

import contextlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, field_validator

from vitbench.config.base import Strict, digest
from vitbench.store.asked import CELLS, HYPOTHESIS, SEEDS, Asked, differing
from vitbench.store.attempts import Attempt
from vitbench.store.distrust import believed
from vitbench.store.files import content, opened, publish, sweep, sync_folder
from vitbench.store.record import MAX_BYTES

FOLDER = "history"
MAX_LIST, MAX_LINE = 1 << 32, 200  # Bytes of a list of finished trials, and letters of a line in it
ENDED = frozenset({"ok", "diverged"})
"""States that are outcomes. Those that tell of the machine or its user are none: such a record may well be removed."""

NUMBER = re.compile(r"[1-9][0-9]{0,5}")
LINE = re.compile(r"(train|tune|time) ([0-9a-f]{20}) ([1-9][0-9]{0,6}) ([0-9T:.+-]{19,40})")


KINDS: Mapping[str, tuple[type, type]] = {CELLS: (list, str), SEEDS: (list, int)}
"""Name → type of its value, and of the items of a list."""


class Entry(Strict):
    """A change of what a study asks."""

    schema_version: Literal[1] = 1
    at: datetime
    asked: str = Field(description="digest of what is asked from now on")
    finished: Annotated[int, Field(ge=0)] = Field(description="training runs that had finished by then")
    begins: bool = Field(description="lists everything as new: there is nothing before, or it is lost")
    changed: dict[str, tuple[Any, Any]] = Field(description="name → old value, new value; null: at its default")

    @field_validator("changed")
    @classmethod
    def _of_their_kinds(cls, changed: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
        """Names, seeds and claims are what readers take them for."""
        for name, values in changed.items():
            for value in values:
                kind, item = KINDS.get(name, (dict, object) if name.startswith(HYPOTHESIS) else (object, object))
                items = value if isinstance(value, list) else []
                if value is not None and not (isinstance(value, kind) and all(isinstance(i, item) for i in items)):
                    raise ValueError(f"{name}: no {kind.__name__} of these")
        return changed

    def to_json(self) -> str:
        """Text of the entry's file."""
        body = self.model_dump(mode="json")
        return json.dumps({"sha256": digest(body, 64), "entry": body}, indent=1, allow_nan=False) + "\n"


class Ended(NamedTuple):
    """A trial that finished: which attempt at it, and when that was begun."""

    kind: str
    trial_id: str
    attempt: int
    started: str


def ended(outcomes: Iterable[Attempt]) -> set[Ended]:
    """The attempts that are a trial's end."""
    return {Ended(o.kind, o.trial_id, o.attempt, o.started_at.isoformat()) for o in outcomes if o.state in ENDED}


@dataclass(frozen=True)
class Step:
    """An entry, with what was asked before and after it."""

    entry: Entry
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class History:
    """The history in one folder. Files are written by those who run the study alone."""

    def __init__(self, study: Path) -> None:
        self.folder = study / FOLDER
        self.log = self.folder / f"finished-{secrets.token_hex(6)}.log"

    def begin(self) -> None:
        """Make the folder, or clear it of what killed writers left."""
        self.folder.mkdir(exist_ok=True)
        sweep(self.folder)

    def numbers(self) -> list[int]:
        """Numbers of the entries, readable or not."""
        return believed(self._there())

    def _there(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.json") if NUMBER.fullmatch(path.stem))

    def steps(self) -> list[Step]:
        """The entries since the last that begins, in order; those that cannot be read are left out."""
        steps: list[Step] = []
        for number in self.numbers():
            if (entry := _read(self.folder / f"{number}.json")) is None:
                continue
            if entry.begins:
                steps.clear()
            before = dict(steps[-1].after) if steps else {}
            before |= {name: old for name, (old, _) in entry.changed.items()}  # also where an entry between is lost
            after = before | {name: new for name, (_, new) in entry.changed.items()}
            before, after = ({k: v for k, v in each.items() if v is not None} for each in (before, after))
            steps.append(Step(entry, before, after))
        return steps

    def unread(self, known: int) -> list[int]:
        """Numbers of the entries that ought to be there and are not, or are damaged.

        Args:
            known: number of the last entry, as the study's plan says.
        """
        there = {n for n in self.numbers() if _read(self.folder / f"{n}.json") is not None}
        wanted = range(1, max([known, *self.numbers()]) + 1)
        return [n for n in [*wanted, *self._there()[len(self.numbers()) :]] if n not in there]

    def append(self, asked: Asked, finished: int) -> int:
        """Add an entry if something else is asked than before. Returns the number of the last entry."""
        while True:
            numbers, steps = self.numbers(), self.steps()
            whole = bool(steps) and steps[-1].entry.asked == digest(dict(steps[-1].after))
            changed = differing(steps[-1].after if whole else {}, asked)
            if whole and not changed:
                return numbers[-1]
            entry = Entry(
                at=datetime.now(UTC), asked=digest(asked), finished=finished, begins=not whole, changed=changed
            )
            number = max(numbers, default=0) + 1
            try:
                publish(self.folder / f"{number}.json", entry.to_json())
            except FileExistsError:  # another driver was first: what it asks is what comes before
                continue
            return number

    def finished(self) -> Iterator[Ended]:
        """Every trial that ever finished, as far as the lists tell; some of them twice."""
        for path in sorted(self.folder.glob("finished-*.log")):
            with contextlib.suppress(OSError), opened(path, MAX_LIST) as stream:
                lines = io.TextIOWrapper(stream, errors="replace")
                while line := lines.readline(MAX_LINE):
                    if match := LINE.fullmatch(line.rstrip("\n")):
                        kind, trial_id, attempt, started = match.groups()
                        yield Ended(kind, trial_id, int(attempt), started)

    def add(self, more: Iterable[Ended]) -> None:
        """Add trials to the list; on return it has reached the disk."""
        lines = "".join(f"\n{e.kind} {e.trial_id} {e.attempt} {e.started}\n" for e in sorted(more))
        if not lines:
            return
        new = not self.log.exists()
        self.folder.mkdir(exist_ok=True)
        with self.log.open("ab") as stream:
            stream.write(lines.encode())
            stream.flush()
            os.fsync(stream.fileno())
        if new:
            sync_folder(self.folder)

    def catch_up(self, outcomes: Iterable[Attempt]) -> int:
        """Add what finished and is not in the list. Returns how many training runs ever finished."""
        listed, outcome = set(self.finished()), ended(outcomes)
        self.add(outcome - listed)
        return len({each.trial_id for each in listed | outcome if each.kind == "train"})


def _read(path: Path) -> Entry | None:
    """An entry; None where the file is not there, damaged or edited."""
    try:
        wrapper = json.loads(content(path, MAX_BYTES))
        body = wrapper["entry"]
        if wrapper["sha256"] != digest(body, 64):
            return None
        return Entry.model_validate_json(json.dumps(body))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
