"""Study: the folder of one suite's plan and records. Many writers; a reader trusts no file."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, ValidationError

from vitbench.spec.base import STORED, Strict, digest, uncollected
from vitbench.spec.suite import Fact, Goal, Info, Value
from vitbench.spec.trial import TrainTrial, Trial
from vitbench.store.distrust import distinct, misplaced, reason, refused
from vitbench.store.files import publish, sweep, write_atomically
from vitbench.store.index import Attempt, Index, Tried, attempt_of, record_files
from vitbench.store.labels import relabelled
from vitbench.store.plan import PlannedTrial, PlannedTrials, Trials
from vitbench.store.record import AGAIN, BadRecord, Record, read_record

INDEX = "index"
"""Folder in a study's, see :mod:`vitbench.store.index`."""

Of = TypeVar("Of", bound=Tried)


class StudyError(ValueError):
    """A folder that holds no study, another one, or cannot be written. The message says what to do."""


class Addition(Strict):
    """Seeds that joined a study when results of it were there: its p-values take no account of such looks."""

    at: datetime
    seeds: tuple[int, ...]
    trials: int
    results: int = Field(description="finished training runs that were there")


OF_TRAINING = (
    "data_name",
    "data_identity",
    "fallback",
    "class_names",
    "facts",
    "goals",
    "tuned",
    "untuned",
    "excluded",
    "options",
)
"""Fields of StudyInfo that a plan which only times leaves as they are."""


class StudyInfo(Strict):
    """What a study is about: written when a run starts, replaced when its suite has changed.

    Schema version 1 named all of every trial in a list; it is read for ever.
    """

    schema_version: Literal[1, 2] = 2
    suite: Info
    suite_file: str
    options: tuple[str, ...] = Field((), description="of the command line, that changed what the file says")
    commands: tuple[tuple[str, ...], ...] = Field(
        (), description="arguments of each command line that planned some of the trials; empty where not all are known"
    )
    axes: dict[str, tuple[Value, ...]]
    data_name: str = Field(description="what the images are called in the report")
    data_identity: str = Field(description="empty where nothing is trained")
    fallback: str | None = Field(None, description="why the data are not those that the suite asks for")
    class_names: tuple[str, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    facts: tuple[Fact, ...] = ()
    goals: tuple[Goal, ...] = ()
    tuned: dict[str, tuple[Value, ...]] = Field(
        default_factory=dict, description="nuisance axes and their values; each cell has its own choice of them"
    )
    untuned: tuple[str, ...] = Field((), description="cells whose training waits for the choice of a setting")
    additions: tuple[Addition, ...] = ()
    trials: PlannedTrials

    def to_json(self) -> str:
        """Text of ``study.json``: schema version 2, in which trials stand as the tables of what they share."""
        head = self.model_dump_json(indent=1, exclude_defaults=True, exclude={"schema_version", "trials"})
        return f'{head[:-2]},\n "schema_version": 2,\n "trials": {Trials.of(self.trials).tables.to_json()}\n}}\n'


@dataclass
class Study:
    """A study's folder: ``study.json``, ``records/`` and, of a large one, ``index/``, which may be deleted."""

    path: Path
    info: StudyInfo
    damaged: list[str] = field(default_factory=list)
    """Names of files that could not be read and were set aside, with the reason."""

    @classmethod
    @uncollected()
    def read(cls, path: Path) -> Study:
        """Open an existing study. Raises StudyError."""
        file = path / "study.json"
        if not file.is_file():
            raise StudyError(f"{path}: holds no study (no study.json); `vitbench run SUITE` makes one")
        try:
            text = file.read_bytes()
            if problem := refused(text, StudyInfo.model_fields["schema_version"].default):
                raise StudyError(f"{file}: {problem}")
            info = StudyInfo.model_validate_json(text, context=STORED)
        except (ValidationError, OSError) as error:
            raise StudyError(f"{file}: cannot be read: {reason(error)}") from error
        if problem := misplaced(Trials.of(info.trials).identities()):
            raise StudyError(f"{file}: {problem}")
        return cls(path, relabelled(info))

    @classmethod
    def start(cls, path: Path, info: StudyInfo) -> Study:
        """Begin a study in a folder, or continue the one that is there.

        Trials of an earlier plan that have been run stay in the study: further cells, seeds and devices, or timing
        alone, add to it. Those that were only planned, and those of another recipe or of another model under the same
        label, leave the plan; their records stay on disk.

        Raises:
            StudyError: where the folder cannot be written or holds a study of another suite or other data.
        """
        if (path / "study.json").exists():
            known = cls.read(path).info
            if known.suite.name != info.suite.name:
                raise StudyError(
                    f'{path}: holds the study "{known.suite.name}", not "{info.suite.name}"; '
                    f"choose another folder with --results"
                )
            if known.data_identity and info.data_identity and known.data_identity != info.data_identity:
                raise StudyError(
                    f"{path}: was made with the data {known.data_name} ({known.data_identity}); the data now are "
                    f"{info.data_name} ({info.data_identity}). A study never mixes data: choose another folder with "
                    f"--results, or bring back the data"
                )
            same = set(Trials.of(known.trials).ids()) == set(Trials.of(info.trials).ids())
            results = {} if same else cls(path, known).states()  # which of the others have been run
            info = _joined(known, info, set(results))
            info = info.model_copy(update={"additions": (*known.additions, *_added(known, info, results))})
        try:
            (path / "records").mkdir(parents=True, exist_ok=True)
            sweep(path / "records")  # also shows that it can be written, before anything is trained for it
            write_atomically(path / "study.json", info.to_json())
        except OSError as error:
            raise StudyError(f"{path}: cannot be written: {error.strerror}") from error
        return cls(path, info)

    def write(self, record: Record) -> Path:
        """Store one attempt for good: on return it has reached the disk.

        Raises:
            FileExistsError: where another driver has stored an attempt of this number.
        """
        return publish(self.path / "records" / f"{record.trial_id}-{record.attempt}.json", record.to_json())

    def later(self, trial_id: str, known: Sequence[Tried]) -> list[Record]:
        """Attempts at a trial that other drivers have stored since ``known`` was read."""
        found: list[Record] = []
        for number in itertools.count(last_attempt(known) + 1):
            file = self.path / "records" / f"{trial_id}-{number}.json"
            record = self._read(file) if file.exists() else None
            if record is None:
                return found
            found.append(record)
        raise AssertionError

    def states(self) -> dict[str, list[Tried]]:
        """Trial id → its attempts in order, as far as running, resuming and counting go.

        Like :meth:`records`, for much less: of a large study that has been read before, no record's file is opened.
        """
        found: Iterable[Tried] = self._scan()
        return self._in_order(found)

    def attempts(self, seen: Callable[[Attempt, Record], None] | None = None) -> dict[str, list[Attempt]]:
        """The same as :meth:`states`, with the file of each: see :meth:`records_of`.

        Args:
            seen: is told of each record that the index does not know, so that its file has to be read.
        """
        return self._in_order(self._scan(seen))

    def records(self, wanted: Callable[[Attempt], bool] = lambda _: True) -> dict[str, list[Record]]:
        """Trial id → its attempts in order. Damaged files are renamed ``*.corrupt`` and named in ``damaged``.

        Args:
            wanted: whether an attempt's record is asked for.
        """
        found: dict[str, Record] = {}

        def keep(attempt: Attempt, record: Record) -> None:
            if wanted(attempt):
                found[attempt.file] = record

        attempts = [attempt for attempt in self._scan(keep) if wanted(attempt)]
        found.update((a.file, record) for a, record in self.records_of(a for a in attempts if a.file not in found))
        return self._in_order(found[a.file] for a in attempts if a.file in found)

    def records_of(self, attempts: Iterable[Attempt]) -> Iterator[tuple[Attempt, Record]]:
        """The records of some attempts, in no order and one at a time: from the index, else from their own files."""
        left = {attempt.file: attempt for attempt in attempts}
        for attempt, record in self.index.records({a.key: a for a in left.values()}):
            del left[attempt.file]
            yield attempt, record
        for attempt in left.values():
            if (read := self._read(self.path / "records" / attempt.file)) is not None:
                yield attempt, read

    @functools.cached_property
    def index(self) -> Index:
        """The index: what is in it stays true, however long ago it was opened."""
        return Index(self.path / INDEX)

    def _scan(self, seen: Callable[[Attempt, Record], None] | None = None) -> list[Attempt]:
        """Every attempt by file, taken into the index where it is not there yet."""
        attempts = list[Attempt]()
        for file, stat in record_files(self.path / "records"):
            attempt = self.index.get(file, stat)
            if attempt is None:
                if (record := self._read(Path(file.path))) is None:
                    continue
                attempt = attempt_of(record, file, stat)
                self.index.add(attempt, record)
                if seen:
                    seen(attempt, record)
            attempts.append(attempt)
        self.index.close()
        return attempts

    def _in_order(self, attempts: Iterable[Of]) -> dict[str, list[Of]]:
        """Trial id → its attempts; one that was copied to another file is counted once, and named in ``damaged``."""
        found: dict[str, list[Of]] = {}
        for attempt in attempts:
            found.setdefault(attempt.trial_id, []).append(attempt)
        for trial_id, of_trial in found.items():
            if len(of_trial) > 1:
                of_trial.sort(key=lambda a: (a.attempt, a.started_at))
                found[trial_id] = distinct(of_trial, self.damaged)
        return found

    def _read(self, file: Path) -> Record | None:
        """A file's record; None where it is damaged, and set aside."""
        if not file.exists():  # damaged, and another driver has just set it aside
            return None
        try:
            return read_record(file)
        except BadRecord as error:
            if (entry := f"{file.name}: {error}") not in self.damaged:  # a read-only folder keeps it in place
                self.damaged.append(entry)
            with contextlib.suppress(OSError):  # a read-only study is still reported
                file.rename(file.with_name(f"{file.name}.corrupt"))
            return None

    def outcomes(self) -> dict[str, Record]:
        """Trial id → the record that stands for it: its last ok one, else its last attempt."""
        return {trial_id: standing(attempts) for trial_id, attempts in self.records().items()}


def _joined(known: StudyInfo, info: StudyInfo, run: set[str]) -> StudyInfo:
    """The new plan, and behind it what was run of the old one; ``run`` holds the ids that have records."""
    if not info.data_identity:
        info = info.model_copy(update={name: getattr(known, name) for name in OF_TRAINING})
    planned, old = set(Trials.of(info.trials).ids()), Trials.of(known.trials)
    left = [old[i] for i, trial_id in enumerate(old.ids()) if trial_id in run and trial_id not in planned]
    if not left:
        same = bool(known.commands) and planned == set(old.ids())
        return info.model_copy(update={"commands": known.commands}) if same else info
    recipes = {(p.trial.kind, _recipe(p.trial)) for p in info.trials}
    of_cell: dict[tuple[str, str], set[str]] = {}
    for p in info.trials:
        of_cell.setdefault((p.trial.kind, p.cell), set()).add(_recipe(p.trial))
    models = {p.cell: p.trial.model for p in info.trials}
    kinds = {p.trial.kind for p in info.trials}

    def comparable(p: PlannedTrial) -> bool:
        """Whether it may stand in one table with the new ones: a run under another recipe is no further seed."""
        mine = of_cell.get((p.trial.kind, p.cell))  # each cell has its own, where they are tuned
        known_recipe = _recipe(p.trial) in mine if mine else (p.trial.kind, _recipe(p.trial)) in recipes
        return (p.trial.kind not in kinds or known_recipe) and models.get(p.cell, p.trial.model) == p.trial.model

    kept = [p for p in left if comparable(p)]
    commands = _commands(known, info, adds=not planned <= set(old.ids())) if kept else info.commands
    return info.model_copy(update={"trials": Trials.of([*info.trials, *kept]), "commands": commands})


def _commands(known: StudyInfo, info: StudyInfo, *, adds: bool) -> tuple[tuple[str, ...], ...]:
    """Those of an old plan of which something is left, and the new plan's where it ``adds`` a trial."""
    if not known.commands:
        return ()  # a part of them would pass for all
    return tuple(dict.fromkeys([*known.commands, *(info.commands if adds else ())]))


def _added(known: StudyInfo, info: StudyInfo, results: Mapping[str, list[Tried]]) -> list[Addition]:
    """The seeds that a new plan adds to cells of which results are there."""
    there = set(Trials.of(known.trials).ids())
    if there.issuperset(Trials.of(info.trials).ids()):
        return []
    trained = [p for p in known.trials if isinstance(p.trial, TrainTrial)]
    looked = [p for p in trained if _ok(results.get(p.id, []))]
    cells, before = {p.cell for p in looked}, {_seed(p) for p in trained}
    new = [
        _seed(p)
        for p in info.trials
        if p.id not in there and isinstance(p.trial, TrainTrial) and p.cell in cells and _seed(p) not in before
    ]
    if not new:
        return []
    seeds = tuple(dict.fromkeys(new))
    return [Addition(at=datetime.now(UTC), seeds=seeds, trials=len(new), results=len(looked))]


def _seed(planned: PlannedTrial) -> int:
    assert isinstance(planned.trial, TrainTrial)
    return planned.trial.seed


def _ok(attempts: Sequence[Tried]) -> bool:
    return bool(attempts) and standing(attempts).state == "ok"


def _recipe(trial: Trial) -> str:
    """What two trials of one kind must share to be compared, beside the model, the seed and the device."""
    body = trial.canonical()
    return digest([body.get(key) for key in ("data", "train", "protocol")])


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
