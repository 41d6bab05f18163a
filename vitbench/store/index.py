"""Index: what reading the files of many records has shown, kept in a few, so that the next reader opens those.

A cache and nothing more: any file of it may be deleted at any time, and a record's own file is the truth. An entry
counts for the file of the same name, size and time of change alone (records are never changed), and only for the code
that made it. A file of the index is whole or not there; one that is damaged is left out of account, and so are entries
of files that have gone. Small studies have none.

A file of the index, in lines of JSON: the header; the attempts, all in one line, which is all that ``vitbench status``
reads; what the records share (specs and environments), in one line; then a line for each record: what it does not
share, a tab, and its values.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from vitbench.environment import ROOT, VERSION, Environment
from vitbench.spec.base import STORED, Strict
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import DataSpec, TimeSpec, TrainSpec
from vitbench.spec.trial import TimeTrial, TrainTrial, TuneTrial
from vitbench.store.files import opened, write_atomically
from vitbench.store.record import VALUES, Record

FORM = 1
LEAST_NEW, NEW_SHARE = 500, 20
"""New records that are worth a file of the index: so many, and one for so many that are in it already. Fewer are read
again by the next reader, in less time than a file for each handful would take; not what is left of a whole file's."""

CHUNK = 16_384
"""Records in one file of the index."""

MAX_HEADER, MAX_ROWS, MAX_BYTES = 1 << 12, 1 << 27, 1 << 32
"""Bytes of a file of the index: its first line, its second, and all of it."""

YOUNG_SECONDS = 2.0
"""Age below which a record's file is not taken into the index: the clock that stamps files may tick slowly."""

READING = ("spec", "store")
"""Parts of vitbench that decide what a record's file says."""

SHARED: Mapping[str, type[Strict]] = {
    "model": ModelSpec, "data": DataSpec, "train": TrainSpec, "protocol": TimeSpec, "environment": Environment,
}  # fmt: skip
TRIALS: Mapping[str, type[TrainTrial | TuneTrial | TimeTrial]] = {
    "train": TrainTrial, "tune": TuneTrial, "time": TimeTrial,
}  # fmt: skip


class Tried(Protocol):
    """What a :class:`Record` and an :class:`Attempt` both tell."""

    @property
    def trial_id(self) -> str:
        """Whose attempt it is."""

    @property
    def state(self) -> str:
        """What became of it, see :data:`vitbench.store.record.State`."""

    @property
    def reason(self) -> str:
        """Why the state is not ok."""

    @property
    def attempt(self) -> int:
        """Its number, from 1."""

    @property
    def started_at(self) -> datetime:
        """When it began."""

    @property
    def code(self) -> str | None:
        """State of the code that made it, plug-ins included; None where no process came so far as to look."""


class Attempt(NamedTuple):
    """What of a record tells whether its trial is finished.

    Attributes:
        file: name of the record's file.
        size: of the file, bytes.
        mtime_ns: of the file.
        kind: of the trial.
        code: state of the code that made it, plug-ins included; None where no process came so far as to look.
    """

    file: str
    size: int
    mtime_ns: int
    trial_id: str
    kind: str
    attempt: int
    state: str
    reason: str
    started: str
    code: str | None

    @property
    def started_at(self) -> datetime:
        """When the attempt began."""
        return datetime.fromisoformat(self.started)

    @property
    def key(self) -> tuple[str, int, int]:
        """The file, in the state in which it was read."""
        return self[:3]


def attempt_of(record: Record, file: os.DirEntry[str], stat: os.stat_result) -> Attempt:
    """The attempt that a record tells of."""
    return Attempt(
        file.name, stat.st_size, stat.st_mtime_ns, record.trial_id, record.trial.kind, record.attempt, record.state,
        record.reason, record.started_at.isoformat(), record.code,
    )  # fmt: skip


def record_files(folder: Path) -> list[tuple[os.DirEntry[str], os.stat_result]]:
    """The files of records in a folder, by name, each as it is now.

    Raises:
        OSError: where the folder is there and cannot be read.
    """
    found = dict[str, tuple[os.DirEntry[str], os.stat_result]]()
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if (name := entry.name).endswith(".json"):
                with contextlib.suppress(FileNotFoundError):  # set aside by another reader
                    try:
                        found[name] = entry, entry.stat()
                    except OSError:  # a link that leads nowhere is a file that cannot be read, and told as one
                        found[name] = entry, entry.stat(follow_symlinks=False)
    return [found[name] for name in sorted(found)]


class Segment:
    """One file of the index. Raises ValueError or OSError where it is none, or of other code."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with opened(path, MAX_BYTES) as stream:
            self.header = json.loads(stream.readline(MAX_HEADER))
            rows = stream.readline(MAX_ROWS)
            self.start = stream.tell()
        if not isinstance(self.header, dict) or self.header.get("made_by") != _made_by():
            raise ValueError("of another form")
        if hashlib.sha256(rows).hexdigest() != self.header["rows"]:
            raise ValueError("damaged")
        self.attempts = [Attempt(*row) for row in json.loads(rows)]

    def bodies(self) -> tuple[list[Any], list[bytes]]:
        """What the records share, and a line for each of them."""
        with opened(self.path, MAX_BYTES) as stream:
            stream.seek(self.start)
            rest = stream.read()
        if hashlib.sha256(rest).hexdigest() != self.header["bodies"]:
            raise ValueError("damaged")
        shared, *lines = rest.splitlines()
        return json.loads(shared), lines


class Index:
    """The index in one folder, as it is when it is opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.segments: list[Segment] = []
        self.known: dict[tuple[str, int, int], Attempt] = {}
        for path in sorted(folder.glob("*.jsonl")):
            with contextlib.suppress(ValueError, KeyError, TypeError, OSError, RecursionError):
                segment = Segment(path)
                self.segments.append(segment)
                self.known.update((attempt.key, attempt) for attempt in segment.attempts)
        self.pending: list[tuple[Attempt, str]] = []
        self.growing = False
        self.shared, self.texts = list[list[Any]](), dict[str, int]()

    def get(self, file: os.DirEntry[str], stat: os.stat_result) -> Attempt | None:
        """What is known of a file in the state in which it is."""
        return self.known.get((file.name, stat.st_size, stat.st_mtime_ns))

    def add(self, attempt: Attempt, record: Record) -> None:
        """Take in a record that has been read. It is written by :meth:`close`, once there are enough of them."""
        if attempt.mtime_ns > (time.time() - YOUNG_SECONDS) * 1e9:
            return
        self.known[attempt.key] = attempt
        self.pending.append((attempt, self._body(record)))
        if len(self.pending) == CHUNK:
            self._write()
            self.growing = True

    def close(self) -> None:
        """Write what was taken in, if it is worth a file: what is left of many that were, always."""
        worth = max(LEAST_NEW, (len(self.known) - len(self.pending)) // NEW_SHARE)
        if self.pending and (self.growing or len(self.pending) >= worth):
            self._write()
        self.growing = False

    def records(self, wanted: Mapping[tuple[str, int, int], Attempt]) -> Iterator[tuple[Attempt, Record]]:
        """The records of some attempts that are known; of those in a damaged file of the index, none."""
        made: dict[tuple[str, str], Strict] = {}
        left = dict(wanted)
        for segment in self.segments:
            chosen = [(i, a) for i, a in enumerate(segment.attempts) if a.key in left]
            if not chosen:
                continue
            try:
                shared, lines = segment.bodies()
                specs = [_spec(made, name, body) for name, body in shared]
                for i, attempt in chosen:
                    yield attempt, _record(attempt, lines[i], specs)
                    del left[attempt.key]
            except (ValueError, KeyError, IndexError, TypeError, OSError, RecursionError):
                continue

    def _write(self) -> None:
        """A file of what was taken in; not, where the study's folder cannot be written."""
        rows = _line([list(attempt) for attempt, _ in self.pending]).encode() + b"\n"
        bodies = "\n".join([_line(self.shared), *(body for _, body in self.pending)]).encode() + b"\n"
        sums = {"rows": hashlib.sha256(rows).hexdigest(), "bodies": hashlib.sha256(bodies).hexdigest()}
        header = _line({"made_by": _made_by(), **sums}).encode() + b"\n"
        with contextlib.suppress(OSError):
            self.folder.mkdir(exist_ok=True)
            path = self.folder / f"{sums['rows'][:20]}.jsonl"
            self.segments.append(Segment(write_atomically(path, header + rows + bodies)))
        self.pending, self.shared, self.texts = [], [], {}

    def _body(self, record: Record) -> str:
        trial = dict(record.trial)
        for name in SHARED.keys() & trial.keys():
            trial[name] = self._share(name, trial[name])
        environment, load = record.environment, None
        if environment is not None:
            load = environment.load_average  # the one field that differs from trial to trial
            environment = environment.model_copy(update={"load_average": None})
        rest = {
            "trial": trial, "schema_version": record.schema_version, "details": record.details,
            "notices": record.notices, "seconds": record.seconds, "load_average": load,
            "environment": None if environment is None else self._share("environment", environment),
        }  # fmt: skip
        return f"{_line(rest)}\t{record.values.model_dump_json() if record.values else 'null'}"

    def _share(self, name: str, spec: Strict) -> int:
        text = f"{name} {spec.model_dump_json()}"
        index = self.texts.setdefault(text, len(self.shared))
        if index == len(self.shared):
            self.shared.append([name, spec.model_dump(mode="json")])
        return index


def _line(value: object) -> str:
    """JSON text in one line, keys in the order in which they came: a report may list the packages in theirs."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@functools.cache
def _made_by() -> list[Any]:
    """By whom a file of the index must be made to be believed: code that checks records otherwise asks them again."""
    whole = hashlib.sha256()
    for path in sorted([ROOT / "environment.py", *(p for part in READING for p in (ROOT / part).glob("*.py"))]):
        whole.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return [FORM, VERSION, whole.hexdigest()[:12]]


def _spec(made: dict[tuple[str, str], Strict], name: str, body: Any) -> Strict:
    text = _line(body)
    if (name, text) not in made:
        made[name, text] = SHARED[name].model_validate_json(text, context=STORED)
    return made[name, text]


def _record(attempt: Attempt, line: bytes, specs: Sequence[Any]) -> Record:
    rest_text, _, values_text = line.partition(b"\t")
    rest = json.loads(rest_text)
    trial = {name: specs[value] if name in SHARED else value for name, value in rest["trial"].items()}
    environment = None if rest["environment"] is None else specs[rest["environment"]]
    if environment is not None and rest["load_average"] is not None:
        environment = environment.model_copy(update={"load_average": rest["load_average"]})
    values = None if values_text == b"null" else VALUES[attempt.kind].model_validate_json(values_text)
    return Record.model_validate(
        {
            "schema_version": rest["schema_version"], "trial_id": attempt.trial_id, "attempt": attempt.attempt,
            "state": attempt.state, "reason": attempt.reason, "details": rest["details"],
            "trial": TRIALS[attempt.kind](**trial), "values": values, "notices": tuple(rest["notices"]),
            "environment": environment, "started_at": attempt.started_at, "seconds": rest["seconds"],
        },
        context=STORED,
    )  # fmt: skip
