"""StudyFolder: the folder of one suite's plan and records. It has many writers, and readers check every file."""

import contextlib
import errno
import functools
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from vitbench.config.base import STORED, uncollected
from vitbench.config.suite import ExpandedSuite
from vitbench.errors import UserError
from vitbench.memory import hand_back
from vitbench.store.asked import asked
from vitbench.store.attempts import SEALED, Attempt, attempt_of, last_attempt, standing
from vitbench.store.distrust import distinct, misplaced, reason, refused
from vitbench.store.files import content, publish, sweep, write_atomically
from vitbench.store.history import History, ended
from vitbench.store.info import StudyInfo
from vitbench.store.joining import joined
from vitbench.store.leases import at_work
from vitbench.store.packed import Segments, pack
from vitbench.store.record import BadRecord, Record, read_record

MAX_BYTES = 1 << 30  # Largest ``study.json``: several times that of a million trials
LARGE = 1 << 22  # Bytes from which the memory that reading it took is worth giving back


class StudyError(UserError, ValueError):
    """A folder that holds no study, another one, or cannot be written. The message says what to do."""


@dataclass
class StudyFolder:
    """A study's folder: ``study.json``, ``history/``, and records, in files of their own or packed.

    Everything else in it is a cache, or belongs to those at work.
    """

    path: Path
    info: StudyInfo
    damaged: list[str] = field(default_factory=list)
    """Names of files that could not be read and were set aside, with the reason."""

    _loose: dict[str, Attempt] = field(default_factory=dict, repr=False, compare=False)
    """Name → what a record's own file says."""

    @classmethod
    @uncollected()
    def read(cls, path: Path) -> "StudyFolder":
        """Open an existing study. Raises StudyError."""
        file = path / "study.json"
        if not os.path.lexists(file):
            raise StudyError(
                f"{path}: holds no study (no study.json); `vitbench run SUITE` makes one, once it has read its data"
            )
        try:
            info = StudyInfo.model_validate_json(text := content(file, MAX_BYTES), context=STORED)
        except ValidationError as error:  # of a newer form, first of all: its version is another
            why = refused(text, StudyInfo.model_fields["schema_version"].default) or f"cannot be read: {reason(error)}"
            raise StudyError(f"{file}: {why}") from error
        except OSError as error:
            raise StudyError(f"{file}: cannot be read: {reason(error)}") from error
        if len(text) > LARGE:  # reading it takes ten times as much, which stays with the process else
            hand_back()
        if problem := misplaced(info.trials.identities()):
            raise StudyError(f"{file}: {problem}")
        return cls(path, info)

    @classmethod
    def of_suite(cls, path: Path, name: str) -> "StudyFolder | None":
        """The study of a suite in a folder; None where there is none yet. Raises StudyError where it is another's."""
        if not (path / "study.json").exists():
            return None
        study = cls.read(path)
        if study.info.suite.name != name:
            raise StudyError(
                f'{path}: holds the study "{study.info.suite.name}", not "{name}"; choose another folder with --results'
            )
        return study

    @classmethod
    def start(cls, path: Path, info: StudyInfo, *, planned_elsewhere: Collection[str] = ()) -> "StudyFolder":
        """Begin a study in a folder, or continue the one that is there.

        Trials of an earlier plan that have been run, or are at work, stay in the study: further cells, seeds and
        devices, or timing alone, add to it. Those that were only planned, and those of another recipe or of another
        model under the same label, leave the plan; their records stay on disk. What is asked otherwise than before
        goes into the history.

        Args:
            path: the study's folder.
            info: the new plan.
            planned_elsewhere: kinds of trials that another driver plans, which has planned the whole: they stay as it
                planned them, and its command is the study's.

        Raises:
            StudyError: where the folder cannot be written or holds a study of another suite or other data.
        """
        before = cls.of_suite(path, info.suite.name)
        known = before.info if before else None
        if known and known.data_identity and info.data_identity and known.data_identity != info.data_identity:
            raise StudyError(
                f"{path}: was made with the data {known.data_name} ({known.data_identity}); the data now are "
                f"{info.data_name} ({info.data_identity}). A study never mixes data: choose another folder with "
                f"--results, or bring back the data"
            )
        study = cls(path, info)
        try:
            (path / "records").mkdir(parents=True, exist_ok=True)
            sweep(path / "records")  # also shows that it can be written, before anything is trained for it
            study.history.begin()
            attempts = study.attempts()
            if known is not None:
                stays = {each.trial_id for each in at_work(path / "leases")}  # of a driver with another plan
                if planned_elsewhere:
                    stays.update(known.trials.where(lambda _, kind: kind in planned_elsewhere).ids())
                    info = info.model_copy(update={"commands": known.commands})
                info = joined(known, info, stays.union(attempts))
            finished = study.history.catch_up(attempt for each in attempts.values() for attempt in each)
            # First the history, then what it tells of: no change is there without its entry.
            study.info = info.model_copy(update={"history": study.history.append(asked(info), finished)})
            write_atomically(path / "study.json", study.info.to_json())
        except OSError as error:
            raise StudyError(f"{path}: cannot be written: {error.strerror}") from error
        return study

    def write(self, record: Record) -> Path:
        """Store one attempt for good: on return it has reached the disk.

        Raises:
            FileExistsError: where another driver has stored an attempt of this number.
        """
        path = self.path / "records" / f"{record.trial_id}-{record.attempt}.json"
        if any(packed.attempt == record.attempt for packed in self._packed(record.trial_id)):
            raise FileExistsError(errno.EEXIST, "is packed", str(path))
        publish(path, record.to_json())
        self.history.add(ended([attempt_of(record, path.name)]))
        return path

    def later(self, trial_id: str, known: Sequence[Attempt]) -> list[tuple[Attempt, Record]]:
        """Attempts at a trial that other drivers have stored since ``known`` was read, and their records."""
        last = last_attempt(known)
        records: dict[Attempt, Record] = {}
        for number in itertools.count(last + 1):
            file = self.path / "records" / f"{trial_id}-{number}.json"
            record = self._read(file) if os.path.lexists(file) else None
            if record is None:
                break
            records[attempt_of(record, file.name)] = record
        # After the files of their own: what was packed meanwhile has gone from there.
        packed = [attempt for attempt in self._packed(trial_id) if attempt.attempt > last]
        records.update(self.records_of(packed))
        in_order = sorted(records, key=lambda attempt: (attempt.attempt, attempt.started_at))
        return [(attempt, records[attempt]) for attempt in distinct(in_order, [])]

    def _packed(self, trial_id: str) -> list[Attempt]:
        """The attempts at a trial that are packed by now."""
        return [attempt for segment in self.segments.now() for attempt in segment.of_trial.get(trial_id, ())]

    def attempts(self, seen: Callable[[Attempt, Record], None] | None = None) -> dict[str, list[Attempt]]:
        """Trial id → its attempts in order, no packed record read; :meth:`records_of` reads the records.

        Args:
            seen: gets each record whose file is read for this.
        """
        of_trial: dict[str, list[Attempt]] = {}
        for attempt in self._scan(seen):
            of_trial.setdefault(attempt.trial_id, []).append(attempt)
        for tried in of_trial.values():
            if len(tried) > 1 or tried[0].attempt > 1:
                tried.sort(key=lambda a: (a.attempt, a.started_at))
                tried[:] = distinct(tried, self.damaged)  # one that was copied to another file is counted once
        self.damaged += [entry for entry in self.segments.damaged if entry not in self.damaged]
        return {trial_id: tried for trial_id, tried in sorted(of_trial.items()) if tried}

    def records(self, wanted: Callable[[Attempt], bool] = lambda _: True) -> dict[str, list[Record]]:
        """Trial id → its attempts in order. Damaged files are renamed ``*.corrupt`` and named in ``damaged``.

        Args:
            wanted: whether an attempt's record is asked for.
        """
        of_file: dict[str, Record] = {}

        def keep(attempt: Attempt, record: Record) -> None:
            if wanted(attempt):
                of_file[attempt.file] = record

        chosen = {trial_id: [a for a in tried if wanted(a)] for trial_id, tried in self.attempts(keep).items()}
        unread = (a for tried in chosen.values() for a in tried if a.file not in of_file)
        of_file.update((a.file, record) for a, record in self.records_of(unread))
        read = {trial_id: [of_file[a.file] for a in tried if a.file in of_file] for trial_id, tried in chosen.items()}
        return {trial_id: records for trial_id, records in read.items() if records}

    def records_of(self, attempts: Iterable[Attempt]) -> Iterator[tuple[Attempt, Record]]:
        """The records of some attempts, in no order and one at a time."""
        packed: dict[str, set[str]] = {}
        for attempt in attempts:
            if attempt.packed:
                packed.setdefault(attempt.file.partition(SEALED)[0], set()).add(attempt.file)
            elif (read := self._read(self.path / "records" / attempt.file)) is not None:
                yield attempt, read
            else:  # damaged, or packed since it was looked at
                now = next((a for a in self._packed(attempt.trial_id) if a[1:] == attempt[1:]), None)
                yield from ((attempt, record) for _, record in self.records_of([now] if now else []))
        for name, files in packed.items():
            yield from self.segments.known[name].records(files)

    def pack(self) -> int:
        """Seal the records' own files into segments. Returns how many; see :func:`vitbench.store.packed.pack`.

        Raises:
            OSError: where the folder cannot be written; then every record is where it was.
        """
        attempts = self._scan()
        own: dict[tuple[object, ...], list[str]] = {}
        for attempt in attempts:
            if not attempt.packed:
                own.setdefault(attempt[1:], []).append(attempt.file)
        copies = {attempt[1:]: attempt for attempt in attempts if attempt.packed and attempt[1:] in own}
        for attempt, record in self.records_of(copies.values()):  # all at once: each segment is read through once
            for file in (self.path / "records" / name for name in own[attempt[1:]]):
                if record == self._read(file):
                    file.unlink(missing_ok=True)  # packing was killed before it was removed
        return pack(self.path, [name for attempt, names in own.items() if attempt not in copies for name in names])

    @property
    def unpacked(self) -> int:
        """Records that have files of their own."""
        return len(self._names())

    @functools.cached_property
    def segments(self) -> Segments:
        """The packed records."""
        return Segments(self.path)

    @functools.cached_property
    def history(self) -> History:
        """The questions that the study asked at each time, and the trials that ever finished."""
        return History(self.path)

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.path / "records") as entries:
                return sorted(entry.name for entry in entries if entry.name.endswith(".json"))
        except FileNotFoundError:  # all are packed, and the folder was not kept
            return []
        except OSError as error:
            raise StudyError(f"{self.path / 'records'}: cannot be read: {error.strerror}") from error

    def _scan(self, seen: Callable[[Attempt, Record], None] | None = None) -> list[Attempt]:
        """Every attempt, each once. A file of its own is read once, since records are never changed."""
        loose = dict[str, Attempt]()
        for name in self._names():
            attempt = self._loose.get(name)
            if attempt is None:
                if (record := self._read(self.path / "records" / name)) is None:
                    continue
                attempt = attempt_of(record, name)
                if seen:
                    seen(attempt, record)
            loose[name] = attempt
        self._loose = dict(loose)
        # After the files of their own: a record that was packed meanwhile has gone from there.
        try:
            segments = self.segments.now()
        except OSError as error:
            raise StudyError(f"{self.segments.folder}: cannot be read: {error.strerror}") from error
        return [*loose.values(), *(a for segment in segments for a in segment.attempts if a)]

    def _read(self, file: Path) -> Record | None:
        """A file's record; None where it is damaged, and set aside."""
        try:
            return read_record(file)
        except BadRecord as error:
            if not os.path.lexists(file):  # another driver has just set it aside
                return None
            if (entry := f"{file.name}: {error}") not in self.damaged:  # a read-only folder keeps it in place
                self.damaged.append(entry)
            with contextlib.suppress(OSError):  # a read-only study is still reported
                file.rename(file.with_name(f"{file.name}.corrupt"))
            return None

    def set_aside(self) -> list[tuple[str, str]]:
        """(name, reason) of the files that are no records, set aside now or by an earlier reading."""
        reasons = dict(entry.split(": ", 1) for entry in self.damaged if ": " in entry)
        for file in sorted((self.path / "records").glob("*.json.corrupt")):
            name = file.name.removesuffix(".corrupt")
            try:
                read_record(file)
            except BadRecord as error:
                reasons[name] = str(error)
            else:
                reasons[name] = "set aside; it can be read now"
        return sorted(reasons.items())

    def outcomes(self) -> dict[str, Record]:
        """Trial id → the record that stands for it: its last ok one, else its last attempt."""
        return {trial_id: standing(attempts) for trial_id, attempts in self.records().items()}


def study_folder(suite: ExpandedSuite, results: Path | None) -> Path:
    """The default folder of a suite's study."""
    return results or Path("results") / suite.info.name
