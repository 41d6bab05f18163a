"""Packed records: a few files that are the truth, beside which single ones may appear at any time."""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.conftest import REPOSITORY
from tests.large import record_of, study_of
from tests.report.builders import CPU, build, factorial
from tests.runner.runs import Runs, here
from tests.small import SUITE, record, time_trial
from vitbench.config import read_suite
from vitbench.store import SCHEMA, Record, StudyFolder, packed
from vitbench.store.attempts import Attempt

TRIALS = 80


def begun(folder: Path, finished: float) -> StudyFolder:
    """A study of 80 trials of which a part has been run, and every twentieth failed."""
    (folder / "small.toml").write_text(SUITE.replace("[train]", f"[train]\nseeds = {TRIALS}"))
    return study_of(folder / "study", read_suite(folder / "small.toml"), finished=finished, failing=20)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    """Three quarters of the trials have been run; a segment takes 20 records."""
    monkeypatch.setattr(packed, "MOST", 20)
    return begun(tmp_path, 0.75)


def files(study: StudyFolder) -> list[Path]:
    return sorted((study.path / "records").glob("*.json"))


def segments(study: StudyFolder) -> list[Path]:
    return sorted((study.path / "packed").glob("*"))


def facts(attempts: Mapping[str, Sequence[Attempt | Record]]) -> dict[str, list[tuple[object, ...]]]:
    """Trial → what running and counting see of each of its attempts."""
    return {i: [(a.attempt, a.state, a.reason, a.started_at, a.code) for a in tried] for i, tried in attempts.items()}


def rest(study: StudyFolder) -> StudyFolder:
    """The study, with its last quarter run, too."""
    for number, planned in enumerate(study.info.trials[60:], 60):
        study.write(record_of(planned, number, "ok", CPU))
    return study


def same(study: StudyFolder, truth: dict[str, list[Record]]) -> None:
    """A reader that has seen nothing before finds every record, each once, and no fault."""
    reader = StudyFolder.read(study.path)
    assert reader.records() == truth and facts(reader.attempts()) == facts(truth) and reader.damaged == []
    one, other = ([r.to_json() for tried in each.values() for r in tried] for each in (reader.records(), truth))
    assert one == other


def test_readers_take_packed_and_single_records(study: StudyFolder) -> None:
    study.write(record(time_trial(), "unsupported", attempt=2))
    truth = study.records()
    assert study.pack() == 61 and files(study) == [] and len(segments(study)) == 4
    same(study, truth)
    assert study.records() == truth, "who has read it before finds them, too"
    failed = study.records(lambda attempt: attempt.state == "failed")
    assert len(failed) == 3 and failed == {i: tried for i, tried in truth.items() if tried[-1].state == "failed"}


def test_a_study_goes_on_after_it_was_packed_and_is_packed_again(study: StudyFolder, tmp_path: Path) -> None:
    copy = StudyFolder.read(shutil.copytree(study.path, tmp_path / "copy"))
    truth = rest(copy).records()
    study.pack()
    before = {file: file.read_bytes() for file in segments(study)}
    rest(StudyFolder.start(study.path, study.info))
    assert len(files(study)) == 20
    same(study, truth)
    assert StudyFolder.read(study.path).pack() == 20 and files(study) == []
    same(study, truth)
    assert all(file.read_bytes() == text for file, text in before.items()), "segments never change"
    assert StudyFolder.read(study.path).pack() == 0


def test_a_report_is_the_same_bytes_from_packed_records(tmp_path: Path) -> None:
    axes = {"norm": ("pre", "post"), "mlp": ("gelu", "relu")}
    build(tmp_path / "study", factorial(axes, seeds=tuple(range(5))))
    pages = []
    for out in ("single", "packed", "cached"):
        for command in ([["pack"]] if out == "packed" else []) + [["report", "--out", str(tmp_path / out)]]:
            assert here(command[0], str(tmp_path / "study"), *command[1:]).returncode == 0
        pages.append({f.relative_to(tmp_path / out): f.read_bytes() for f in (tmp_path / out).rglob("*.[mhc]*")})
    assert len(pages[0]) > 5 and pages[0] == pages[1] == pages[2]
    assert list((tmp_path / "study" / "records").iterdir()) == []


def die_at(step: int, study: Path) -> bool:
    """Pack in a process that ends without a word at its so manyth file operation; whether it came to its end."""
    if not (child := os.fork()):
        left = [step]

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            touches = event in ("open", "os.rename", "os.remove", "os.mkdir", "os.scandir")
            if touches and str(study) in str(arguments):
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            StudyFolder.read(study).pack()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 0


def test_f39_a_crash_at_any_instant_of_packing_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST", 8)
    study, whole = begun(tmp_path, 0.25), tmp_path / "whole"
    shutil.copytree(study.path, whole)
    truth, steps = study.records(), 0
    while not die_at(steps, study.path):
        same(study, truth)
        shutil.rmtree(study.path)
        shutil.copytree(whole, study.path)
        steps += 5
    assert steps > 60, "opening, writing and removing 20 files"
    same(study, truth)


def test_f39_two_that_pack_at_once_lose_nothing_and_count_nothing_twice(study: StudyFolder) -> None:
    truth = study.records()
    line = [sys.executable, "-m", "vitbench", "pack", str(study.path)]
    both = [subprocess.Popen(line, cwd=REPOSITORY, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait(timeout=120) for each in both] == [0, 0] and files(study) == []
    same(study, truth)


def test_a_record_in_two_segments_counts_once(study: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As two leave it that pack at once where files have no locks; or one that was killed before it removed files.

    The next one that packs reads each segment through once, and not for each file that was left: of 3,000 files that
    took half an hour.
    """
    truth = study.records()
    shutil.copytree(study.path / "records", study.path / "copies")
    study.pack()
    names = [file.name for file in sorted((study.path / "copies").iterdir())[10:36]]
    for name in names:
        shutil.copy(study.path / "copies" / name, study.path / "records")
    same(study, truth)
    assert packed.pack(study.path, names[:14]) == 14 and len(segments(study)) == 4
    same(study, truth)
    shutil.copy(study.path / "records" / names[20], study.path / "records" / names[20].replace("-1.", "-2."))
    read = mock.Mock(wraps=packed.from_json)
    monkeypatch.setattr(packed, "from_json", read)
    assert StudyFolder.read(study.path).pack() == 0 and files(study) == [] and len(segments(study)) == 4
    assert 0 < read.call_count <= 61 + 14, "records of all segments"
    same(study, truth)


def test_f39_a_driver_that_was_there_before_sees_what_was_packed_meanwhile(study: StudyFolder) -> None:
    driver, other = StudyFolder.read(study.path), StudyFolder.read(study.path)
    planned = driver.info.trials[70]
    known = driver.attempts().get(planned.id, [])
    assert known == [] and driver.later(planned.id, known) == []
    one = record_of(planned, 70, "failed", CPU)
    other.write(one)
    assert [record for _, record in driver.later(planned.id, known)] == [one]
    StudyFolder.read(study.path).pack()
    assert [record for _, record in driver.later(planned.id, known)] == [one]
    with pytest.raises(FileExistsError):
        driver.write(one)
    two = one.model_copy(update={"attempt": 2, "state": "ok", "values": None})
    driver.write(two.model_copy(update={"state": "failed"}))
    assert [r.attempt for r in StudyFolder.read(study.path).records()[planned.id]] == [1, 2]


def test_a_reader_finds_what_is_packed_between_its_looking_and_its_reading(study: StudyFolder) -> None:
    truth = study.records()
    looked = StudyFolder.read(study.path)
    attempts = [a for tried in looked.attempts().values() for a in tried]
    StudyFolder.read(study.path).pack()
    records = {record.trial_id: [record] for _, record in looked.records_of(attempts)}
    assert records == truth and looked.damaged == []


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-500])


def one_byte(file: Path) -> None:
    text = bytearray(file.read_bytes())
    text[3 * len(text) // 4] ^= 0xFF
    file.write_bytes(text)


def one_record(file: Path) -> None:
    text = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(text.replace(b'"test_loss":0.5', b'"test_loss":0.1', 1)))


def second_line(file: Path) -> None:
    """A failure becomes a success."""
    header, rows, lines = gzip.decompress(file.read_bytes()).split(b"\n", 2)
    file.write_bytes(gzip.compress(b"\n".join([header, rows.replace(b'"failed"', b'"ok"'), lines])))


def newer(file: Path) -> None:
    header, _, lines = gzip.decompress(file.read_bytes()).partition(b"\n")
    changed = json.dumps(json.loads(header) | {"form": packed.FORM + 1}).encode()
    file.write_bytes(gzip.compress(changed + b"\n" + lines))


def a_bomb(file: Path) -> None:
    file.write_bytes(gzip.compress(b"0" * (packed.MAX_ROWS + packed.MAX_HEADER)))


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("damage", "left"),
    [(cut, (1, 19)), (one_byte, (1, 19)), (one_record, (19, 19)), (second_line, (20, 20)), (newer, (20, 20)),
     (a_bomb, (0, 0)), (a_pipe, (0, 0))],
    ids=["cut", "one byte", "one record", "second line", "newer", "bomb", "pipe"],
)  # fmt: skip
def test_of_a_damaged_segment_what_can_be_read_counts_and_the_rest_is_named(
    study: StudyFolder, damage: Callable[[Path], object], left: tuple[int, int]
) -> None:
    truth = study.records()
    study.pack()
    bad = next(file for file in segments(study) if b'"failed"' in gzip.decompress(file.read_bytes()))
    damage(bad)
    reader = StudyFolder.read(study.path)
    records = reader.records()
    assert records.keys() == reader.attempts().keys(), "what cannot be read is run again"
    assert left[0] <= len(records) - 40 <= left[1]
    assert all(truth[trial_id] == attempts for trial_id, attempts in records.items()), "nothing that was not recorded"
    assert any(entry.startswith(bad.name) for entry in reader.damaged)
    assert os.path.lexists(bad), "the only copy is never set aside"


def test_f24_records_of_another_schema_are_named_and_run_again(study: StudyFolder) -> None:
    """A segment's second line tells of them what this vitbench cannot read: a report of that would come to nothing."""
    study.pack()
    file, *_ = segments(study)
    older = gzip.compress(re.sub(rb'("schema_version": ?)\d+', rb"\g<1>1", gzip.decompress(file.read_bytes())))
    file.with_name(f"{hashlib.sha256(older).hexdigest()[:20]}.jsonl.gz").write_bytes(older)
    file.unlink()
    reader = StudyFolder.read(study.path)
    assert len(reader.attempts()) == len(reader.records()) < 60
    assert any(f"another schema version, and this vitbench reads {SCHEMA}" in entry for entry in reader.damaged)


def test_what_is_damaged_stays_where_it_is_while_the_others_are_packed(study: StudyFolder) -> None:
    bad = files(study)[0]
    bad.write_bytes(b"{}")
    assert study.pack() == 59
    assert bad.with_name(f"{bad.name}.corrupt").exists()


def test_a_folder_that_cannot_be_packed_is_left_as_it_is(study: StudyFolder) -> None:
    truth = study.records()
    (study.path / "packed").write_text("in the way")
    done = here("pack", str(study.path))
    assert done.returncode == 2 and "cannot be" in done.stderr and "Traceback" not in done.stderr
    (study.path / "packed").unlink()
    same(study, truth)


@pytest.mark.slow
def test_a_large_study_is_packed_at_its_end(runs: Runs) -> None:
    """Trials that this machine cannot run take no time, and have records."""
    many = ["--set", 'model.attention="triton"', "--set", 'axes.norm=["pre", "post"]', "--set", "train.seeds=500"]
    done = runs.run_here(*many)
    assert done.returncode == 0 and "1,000 records are packed" in done.stdout, done.stdout + done.stderr
    assert list((runs.study / "records").iterdir()) == [] and runs.states() == {"unsupported": 1000}
    again = runs.run_here(*many)
    assert again.returncode == 0 and "1000 of them finished before" in again.stdout


def test_it_is_packed_to_the_end_by_the_next_one_where_packing_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MOST", 8)
    study = begun(tmp_path, 0.25)
    truth = study.records()
    for step in range(20, 400, 7):
        if die_at(step, study.path):
            break
        same(study, truth)
    assert files(study) == []
    same(study, truth)
