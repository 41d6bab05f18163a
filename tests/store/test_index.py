"""The index: a cache that is never believed against the files of the records."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.large import record_of, study_of, suite_of_seeds
from tests.report.builders import CPU
from tests.small import record, time_trial
from vitbench.store import Record, Study, index
from vitbench.store.record import from_json

TRIALS = 400
LONG_AGO = 1_700_000_000


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Three quarters of 400 trials have been run, some time ago; a file of the index takes 100 records."""
    monkeypatch.setattr(index, "LEAST_NEW", 50)
    monkeypatch.setattr(index, "CHUNK", 100)
    found = study_of(tmp_path / "study", suite_of_seeds(tmp_path, TRIALS), finished=0.75)
    for file in files(found):
        age(file)
    return Study.read(found.path)


def age(file: Path, seconds: int = 0) -> None:
    os.utime(file, (LONG_AGO + seconds, LONG_AGO + seconds))


def files(study: Study) -> list[Path]:
    return sorted((study.path / "records").glob("*.json"))


def segments(study: Study) -> list[Path]:
    return sorted((study.path / "index").glob("*"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Texts of the files of records that are read from here on."""
    found: list[bytes] = []

    def counted(text: bytes) -> Record:
        found.append(text)
        return from_json(text)

    monkeypatch.setattr("vitbench.store.record.from_json", counted)
    return found


def from_files(study: Study) -> dict[str, list[Record]]:
    """What the records' own files say."""
    found: dict[str, list[Record]] = {}
    for file in files(study):
        one = from_json(file.read_bytes())
        found.setdefault(one.trial_id, []).append(one)
    return found


def as_states(records: dict[str, list[Record]]) -> dict[str, list[tuple[Any, ...]]]:
    return {i: [(r.attempt, r.state, r.reason, r.started_at, r.code) for r in mine] for i, mine in records.items()}


def told(study: Study) -> dict[str, list[tuple[Any, ...]]]:
    return as_states(study.states())


def test_records_are_the_same_from_the_index_and_their_files_are_not_opened_again(
    study: Study, opened: list[bytes]
) -> None:
    study.write(record(time_trial(), "unsupported", attempt=2))
    age(study.path / "records" / f"{time_trial().id}-2.json")
    truth = from_files(study)
    assert told(study) == as_states(truth) and len(opened) == 301
    opened.clear()
    assert len(segments(study)) == 4, "what is left of many has a file, too"
    assert study.records() == truth and not opened
    assert list(study.records()) == list(truth), "in the same order, too"
    assert told(Study.read(study.path)) == as_states(truth)
    for mine in study.records().values():
        assert [r.to_json() for r in mine] == [r.to_json() for r in truth[mine[0].trial_id]]


def test_some_records_are_read_alone(study: Study) -> None:
    for _ in range(2):
        failed = study.records(lambda attempt: attempt.state == "failed")
        assert {r.state for mine in failed.values() for r in mine} == {"failed"} and len(failed) == 3


def test_new_changed_and_missing_files_are_seen(study: Study, opened: list[bytes]) -> None:
    study.states()
    opened.clear()
    gone, renamed, changed, *_ = files(study)
    gone.unlink()
    renamed.rename(renamed.with_name("another-name.json"))
    other = from_json(changed.read_bytes()).model_copy(update={"state": "oom", "reason": "no room"})
    changed.write_text(other.to_json())
    age(changed, 1)
    planned = study.info.trials[350]
    study.write(record_of(planned, 350, "ok", CPU))
    truth = from_files(study)
    assert told(study) == as_states(truth) and study.records() == truth
    assert truth[other.trial_id] == [other] and planned.id in truth and len(opened) == 2 * 3


def test_a_file_of_the_same_size_that_is_newer_is_read_again(study: Study) -> None:
    study.states()
    file = files(study)[0]
    before = from_json(file.read_bytes())
    after = before.model_copy(update={"seconds": 4.0})
    assert len(after.to_json()) == len(before.to_json())
    file.write_text(after.to_json())
    age(file, 1)
    assert study.records()[before.trial_id] == [after]


def test_a_file_that_is_just_being_written_is_not_taken_in(study: Study, opened: list[bytes]) -> None:
    soon = time.time() + 3600  # a slow machine does not make it old meanwhile
    for file in files(study):
        os.utime(file, (soon, soon))
    assert len(study.states()) == 300 and segments(study) == []
    assert len(study.states()) == 300 and len(opened) == 600


def test_a_damaged_record_is_set_aside_and_named_whatever_the_index_says(study: Study) -> None:
    study.states()
    file = files(study)[0]
    file.write_bytes(file.read_bytes()[:-40])
    assert len(study.states()) == 299 and len(study.records()) == 299
    assert [entry.split(":")[0] for entry in study.damaged] == [file.name]
    assert file.with_name(f"{file.name}.corrupt").exists()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def edited(file: Path) -> None:
    """A failure in the attempts becomes a success."""
    file.write_bytes(file.read_bytes().replace(b'"failed"', b'"ok"'))


def forged_values(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"test_loss":0.5', b'"test_loss":0.1'))


def of_other_code(file: Path) -> None:
    header, _, rest = file.read_bytes().partition(b"\n")
    body = json.loads(header)
    body["made_by"][-1] = "0" * 12
    file.write_bytes(json.dumps(body).encode() + b"\n" + rest)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [cut, emptied, edited, forged_values, of_other_code, a_folder, Path.unlink])
def test_what_is_wrong_with_the_index_is_wrong_with_nothing_else(study: Study, damage: Callable[[Path], None]) -> None:
    truth = from_files(study)
    study.states()
    assert len(segments(study)) == 3
    for file in segments(study):
        damage(file)
    assert told(study) == as_states(truth)
    assert study.records() == truth and study.damaged == []


def test_the_index_goes_while_it_is_read(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = from_files(study)
    study.states()

    def gone(self: index.Segment) -> None:
        raise FileNotFoundError(self.path)

    monkeypatch.setattr(index.Segment, "bodies", gone)
    assert study.records() == truth


def test_a_small_study_has_none(tmp_path: Path) -> None:
    study = study_of(tmp_path / "study", suite_of_seeds(tmp_path, 200))
    for file in files(study):
        age(file)
    assert len(study.states()) == 200 and segments(study) == []


def test_a_folder_that_cannot_be_written_is_read_all_the_same(study: Study) -> None:
    (study.path / "index").write_text("in the way")
    assert len(study.states()) == len(study.records()) == 300


def test_indexed_files_are_opened_by_no_reader(study: Study, opened: list[bytes]) -> None:
    study.states()
    opened.clear()
    again = Study.read(study.path)
    assert len(again.states()) == len(again.records()) == 300 and opened == []
    assert len(Study.start(study.path, study.info).states()) == 300 and opened == []
