"""The store: whole files or none, nothing trusted, nothing mixed."""

import json
import os
import re
import stat
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.small import SUITE, record, train_trial
from vitbench.config import read_suite
from vitbench.config.base import digest
from vitbench.config.recipe import Device
from vitbench.runner.plan import plan
from vitbench.store import StudyError, StudyFolder, StudyInfo
from vitbench.store.attempts import finished
from vitbench.store.record import BadRecord, from_json


@pytest.fixture
def info(tmp_path: Path) -> StudyInfo:
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    return plan(read_suite(path), "cpu")


@pytest.fixture
def study(tmp_path: Path, info: StudyInfo) -> StudyFolder:
    return StudyFolder.start(tmp_path / "study", info)


def test_the_ok_record_stands_for_its_trial(study: StudyFolder) -> None:
    trial = train_trial()
    for attempt, state in enumerate(["failed", "ok", "failed"], start=1):
        study.write(record(trial, state, attempt))
    assert study.outcomes()[trial.id].state == "ok" and len(study.records()[trial.id]) == 3


@pytest.mark.parametrize(
    ("states", "enough"),
    [
        ([], False),
        (["ok"], True),
        (["unsupported"], True),
        (["oom"], True),
        (["diverged"], True),
        (["failed"], False),
        (["failed", "crashed"], True),
        (["interrupted"], False),
        (["failed", "interrupted"], False),
        (["failed", "interrupted", "ok"], True),
    ],
)
def test_when_a_trial_needs_no_further_attempt(states: list[str], enough: bool) -> None:
    attempts = [record(train_trial(), state, i + 1) for i, state in enumerate(states)]
    assert finished(attempts, max_attempts=2) == enough


def test_f14_a_damaged_record_is_set_aside_by_name(study: StudyFolder) -> None:
    """Whatever else a file may hold: tests/test_bad_input_files.py."""
    good = record(train_trial(seed=1))
    study.write(good)
    path = study.write(record(train_trial(seed=2)))
    path.write_text(path.read_text()[:200])
    assert list(study.records()) == [good.trial_id]
    assert len(study.damaged) == 1 and study.damaged[0].startswith(path.name)
    assert not path.exists() and path.with_name(f"{path.name}.corrupt").exists()


def test_a_study_that_cannot_be_written_is_still_read(study: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = study.write(record(train_trial()))
    path.write_text("{")

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.rename", refuse)
    assert study.records() == study.records() == {} and path.exists()
    assert len(study.damaged) == 1, "a damaged file is named once, however often it is read"


def test_a_study_is_continued_and_never_mixed(study: StudyFolder, info: StudyInfo) -> None:
    study.write(record(train_trial()))
    assert len(StudyFolder.start(study.path, info).records()) == 1
    other = info.model_copy(update={"suite": info.suite.model_copy(update={"name": "other"})})
    with pytest.raises(StudyError, match='holds the study "small", not "other"; choose another folder'):
        StudyFolder.start(study.path, other)
    with pytest.raises(StudyError, match="A study never mixes data"):
        StudyFolder.start(study.path, info.model_copy(update={"data_identity": "cifar10:x"}))


def test_a_changed_plan_keeps_what_was_run_and_drops_what_was_not(tmp_path: Path, info: StudyInfo) -> None:
    path = tmp_path / "small.toml"
    seeds = plan(read_suite(path, ["train.seeds=[0, 1, 2]"]), "cpu")
    study = StudyFolder.start(tmp_path / "study", seeds)
    done = seeds.trials[1]
    study.write(record(train_trial(seed=1), "ok"))
    assert done.id == train_trial(seed=1).id
    again = StudyFolder.start(study.path, info)
    assert [p.id for p in again.info.trials] == [info.trials[0].id, done.id]
    assert StudyFolder.read(study.path).info.to_json() == again.info.to_json()
    longer = plan(read_suite(path, ["train.epochs=2"]), "cpu")
    kept = StudyFolder.start(study.path, longer).info.trials
    assert [*kept] == [*longer.trials], "another recipe is no further seed"


def test_timings_of_two_devices_stand_in_one_study_whatever_protocol_each_has(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(f"{SUITE}\n[time]\nmodes = ['inference']\nrounds = 3\n[time.cpu]\nrounds = 1\n")

    def planned(device: Device) -> StudyInfo:
        return plan(read_suite(path, device=device), device, kinds=["time"])

    study = StudyFolder.start(tmp_path / "study", planned("cpu"))
    for each in study.info.trials:
        study.write(record(each.trial))
    both = [*planned("cuda").trials, *planned("cpu").trials]
    assert [*StudyFolder.start(study.path, planned("cuda")).info.trials] == both
    path.write_text(path.read_text().replace("rounds = 1", "rounds = 2"))
    again = StudyFolder.start(study.path, planned("cpu")).info.trials
    assert [*again] == [*planned("cpu").trials], "of one device the latest protocol, and of the other nothing was run"


@pytest.mark.parametrize(
    ("folder", "old", "new"),
    [("attention-timing-cpu", '"float32",1,"train"', '"float32",0,"train"'),
     ("planted", r'"at": \[', '"at": [9000000000000000000000, ')],
)  # fmt: skip
def test_a_plan_with_numbers_beyond_reason_is_refused(folder: str, old: str, new: str, tmp_path: Path) -> None:
    text = (REPOSITORY / "results" / "reference" / folder / "study.json").read_text()
    assert re.search(old, re.sub(r"\s+", " ", text))
    (tmp_path / "study.json").write_text(re.sub(old, new, re.sub(r"\s+", " ", text), count=1))
    with pytest.raises(StudyError, match="cannot be read"):
        StudyFolder.read(tmp_path)


def test_f13_a_failed_write_leaves_nothing(study: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        study.write(record(train_trial()))
    assert list((study.path / "records").iterdir()) == []


def test_f13_a_record_counts_once_the_disk_has_it_and_its_name(
    study: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that survives a power cut: the content is flushed, then it gets its name, then the name is flushed."""
    happened: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "link")}

    def fsync(handle: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        real["fsync"](handle)

    def link(source: Path, target: Path) -> None:
        happened.append("name")
        real["link"](source, target)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr("os.link", link)
    path = study.write(record(train_trial()))
    assert happened == ["content", "name", "folder"] and path.exists()


def test_f15_a_record_is_never_replaced(study: StudyFolder) -> None:
    first = record(train_trial())
    path = study.write(first)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        study.write(first.model_copy(update={"seconds": 2.0}))
    assert path.read_bytes() == before and len(list(path.parent.iterdir())) == 1


def test_strays_of_killed_writers_are_swept_and_those_of_living_ones_are_not(
    study: StudyFolder, info: StudyInfo
) -> None:
    records = study.path / "records"
    for name, age in ((".old.json.1.tmp", 3600), (".new.json.2.tmp", 0)):
        (records / name).write_text("{")
        moment = (records / name).stat().st_mtime - age
        os.utime(records / name, (moment, moment))
    StudyFolder.start(study.path, info)
    assert [p.name for p in records.iterdir()] == [".new.json.2.tmp"]


def test_a_record_must_belong_to_its_trial() -> None:
    text = record(train_trial()).to_json()
    assert from_json(text).trial_id == train_trial().id
    body = json.loads(text)["record"] | {"trial_id": "0" * 20}
    with pytest.raises(BadRecord, match="is not that of its trial"):
        from_json(json.dumps({"sha256": digest(body, 64), "record": body}))
