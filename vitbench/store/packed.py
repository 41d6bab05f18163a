"""Packed: many records in few files, in place of a file each.

A segment is one gzip file of JSON lines in ``packed/``, named by the digest of its bytes and never changed: a header;
what running and counting need of each record, all in one line; then a record in each line, with its own checksum, as a
file of its own would have it. (Those lines are read one by one where the file is damaged.) A record's own file goes
once a segment that holds it has reached the disk and has been read back. So a crash at any instant leaves a record in
one of the two, or in both, and readers count it once.
"""

import contextlib
import functools
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from vitbench.store.attempts import SEALED, Attempt, Row, attempt_of
from vitbench.store.files import content, lock, opened, sweep, sync_folder, write_atomically
from vitbench.store.record import MAX_BYTES, SCHEMA, BadRecord, Record, from_json

FOLDER, SUFFIX = "packed", ".jsonl.gz"
FORM = 1
MOST = 16_384  # Records in a segment
MAX_HEADER, MAX_ROWS, MAX_SEGMENT = 1 << 12, 1 << 27, 1 << 32
"""Bytes of a segment: its first line, its second, and the file."""

LEVEL = 6  # Compression level of gzip; records shrink to about a tenth
ROWS = TypeAdapter(list[Row], config=ConfigDict(defer_build=True))  # few commands read packed records
UNREADABLE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError)
"""Errors that reading a damaged segment may raise."""


class Segment:
    """One file of packed records. ``damage`` says why not all of it can be read, if so; the rest counts.

    Raises:
        FileNotFoundError: where it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self.attempts: list[Attempt | None]  # One for each line; None where the line cannot be read
        try:
            with opened(path, MAX_SEGMENT) as stream:
                if path.name != _name(hashlib.file_digest(stream, "sha256").hexdigest()):
                    raise ValueError("its name is not the digest of its bytes")
            with _lines(path) as line:
                header, rows = json.loads(line(MAX_HEADER)), line(MAX_ROWS)
            if header["form"] != FORM:
                raise ValueError(f"of form {header['form']!r}, and this vitbench reads {FORM}")
            if header.get("schema_version") != SCHEMA:
                raise ValueError(f"records of another schema version, and this vitbench reads {SCHEMA}")
            self.attempts = [Attempt(self.file(i), *row) for i, row in enumerate(ROWS.validate_json(rows))]
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            self._note(f"cannot be read: {_reason(error)}; what can be read of it counts")
            self.attempts = [
                None if record is None else attempt_of(record, self.file(i)) for i, record in self._lines_read()
            ]

    @functools.cached_property
    def of_trial(self) -> Mapping[str, list[Attempt]]:
        """Trial id → its attempts in this segment."""
        attempts: dict[str, list[Attempt]] = {}
        for attempt in filter(None, self.attempts):
            attempts.setdefault(attempt.trial_id, []).append(attempt)
        return attempts

    def file(self, number: int) -> str:
        """Value of :attr:`Attempt.file` for the record in a line."""
        return f"{self.path.name}{SEALED}{number}"

    def records(self, files: Collection[str]) -> Iterator[tuple[Attempt, Record]]:
        """The records of some attempts, in order, one at a time; those that are damaged are left out, and named."""
        for number, record in self._lines_read():
            attempt = self.attempts[number] if number < len(self.attempts) else None
            if attempt is not None and record is not None and attempt.file in files:
                yield attempt, record

    def _lines_read(self) -> Iterator[tuple[int, Record | None]]:
        """(number, record) of each line as far as the file can be read; None of a record that is damaged."""
        number = 0
        try:
            with _lines(self.path) as line:
                line(MAX_HEADER), line(MAX_ROWS)
                while text := line(MAX_BYTES):
                    try:
                        record = from_json(text)
                    except BadRecord as error:
                        self._note(f"record {number}: {error}")
                        yield number, None
                    else:
                        yield number, record
                    number += 1
        except UNREADABLE as error:
            self._note(f"after {number} records: {_reason(error)}")

    def _note(self, damage: str) -> None:
        self.damage = self.damage or damage


@contextlib.contextmanager
def _lines(path: Path) -> Iterator[Callable[[int], bytes]]:
    """Reads the next line of a segment; raises ValueError where it has more bytes than it may."""
    with opened(path, MAX_SEGMENT) as stream, gzip.GzipFile(fileobj=stream) as unpacked:

        def line(most: int) -> bytes:
            text = unpacked.readline(most + 1)
            if len(text) > most:
                raise ValueError(f"a line of more than {most:,} bytes")
            return text

        yield line


def _reason(error: Exception) -> str:
    message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else getattr(error, "strerror", None)
    return str(message or error or type(error).__name__)


class Segments:
    """The segments of a study, each opened once; :meth:`now` finds those that others have written since."""

    def __init__(self, study: Path) -> None:
        self.folder = study / FOLDER
        self.known: dict[str, Segment] = {}

    def now(self) -> list[Segment]:
        """All of them, by name.

        Raises:
            OSError: where the folder is there and cannot be read.
        """
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for name in sorted(entry.name for entry in entries):
                if name.endswith(SUFFIX) and not name.startswith(".") and name not in self.known:
                    with contextlib.suppress(FileNotFoundError):
                        self.known[name] = Segment(self.folder / name)
        return list(self.known.values())

    @property
    def damaged(self) -> list[str]:
        """Names of damaged segments, each with the reason."""
        return [f"{name}: {segment.damage}" for name, segment in self.known.items() if segment.damage]


class _Sealed(NamedTuple):
    """A record's own file, and the line that it becomes."""

    file: Path
    row: Row
    line: bytes


def pack(study: Path, names: Sequence[str]) -> int:
    """Seal records' own files into segments, and remove them.

    Args:
        study: its folder.
        names: of the files in ``records/``, those that can be read.

    Returns:
        How many were sealed; 0 where another process is packing.

    Raises:
        OSError: where the folder cannot be written; then every record is where it was.
    """
    folder, sealed = study / FOLDER, 0
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        if lock(handle) is False:  # where a file system has no locks, what two pack at once counts once
            return 0
        sweep(folder)
        for start in range(0, len(names), MOST):
            files = (study / "records" / name for name in names[start : start + MOST])
            records = [record for record in map(_sealed, files) if record]
            if records:
                _read_back(_write(folder, records), records)
                for record in records:
                    record.file.unlink(missing_ok=True)
                sync_folder(study / "records")
            sealed += len(records)
    finally:
        os.close(handle)
    return sealed


def _sealed(file: Path) -> _Sealed | None:
    """A file's record as a line; None where it is none, or has gone."""
    try:
        text = content(file, MAX_BYTES)
        record = from_json(text)
    except (OSError, BadRecord):
        return None
    _, *row = attempt_of(record, file.name)
    line = json.dumps(json.loads(text), separators=(",", ":"), allow_nan=False).encode() + b"\n"
    return _Sealed(file, cast(Row, tuple(row)), line)


def _write(folder: Path, records: Sequence[_Sealed]) -> Path:
    rows = ROWS.dump_json([record.row for record in records]) + b"\n"
    header = json.dumps({"form": FORM, "schema_version": SCHEMA, "records": len(records)}).encode() + b"\n"
    packed = gzip.compress(b"".join([header, rows, *(record.line for record in records)]), LEVEL, mtime=0)
    return write_atomically(folder / _name(hashlib.sha256(packed).hexdigest()), packed)


def _name(digest: str) -> str:
    return f"{digest[:20]}{SUFFIX}"


def _read_back(path: Path, records: Sequence[_Sealed]) -> None:
    """Raises OSError where a segment does not say what was written into it."""
    segment = Segment(path)
    with _lines(path) as line:
        line(MAX_HEADER), line(MAX_ROWS)
        same = all(line(MAX_BYTES) == record.line for record in records) and not line(MAX_BYTES)
    if segment.damage or not same:
        raise OSError(5, "reads back as something else than was written", str(path))
