"""Tables of packed records that are kept in the cache are those of the records themselves."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from tests.report.builders import CPU, CellPlan, Plan, build, factorial
from vitbench.analysis import columnar, results
from vitbench.analysis.frames import epochs_frame, processes_frame, timings_frame, trials_frame
from vitbench.environment import Environment
from vitbench.store import Attempt, Record, StudyFolder, packed

FRAMES = (trials_frame, epochs_frame, processes_frame, timings_frame)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    """8 cells, trained with 5 seeds and timed in 2 modes, and packed: a segment takes 20 records."""
    monkeypatch.setattr(results, "LEAST_KEPT", 5)
    monkeypatch.setattr(packed, "MOST", 20)
    axes = {"norm": ("pre", "post"), "mlp": ("gelu", "relu"), "pooling": ("cls", "mean")}
    plan = factorial(axes, seeds=tuple(range(5)), notices=("one; of two", "pairs"))
    built = build(tmp_path / "study", replace(plan, state=_state, attempts=_earlier, environment=_environment))
    built.pack()
    return StudyFolder.read(built.path)


def _state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
    """Some failed, and some are still to come."""
    if kind == "train" and cell.axes["norm"] == "post" and seed in (1, 2):
        return ("failed", "ValueError: no") if cell.axes["mlp"] == "gelu" else ("pending", "")
    return "ok", ""


def _earlier(cell: CellPlan, kind: str, seed: int) -> list[str]:
    return ["interrupted", "oom"] if kind == "train" and cell.axes["norm"] == "pre" and seed == 3 else []


def _environment(cell: CellPlan, seed: int) -> Environment | None:
    """Two environments, and none."""
    if seed == 4:
        return None
    return CPU.model_copy(update={"load_average": seed / 7, "cpu_cores": 2 if cell.axes["norm"] == "pre" else 7})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of the records that are asked for rows from here on."""
    files: list[str] = []
    add = results._Rows.add

    def counted(rows: results._Rows, attempt: Attempt, record: Record) -> None:
        files.append(attempt.file)
        add(rows, attempt, record)

    monkeypatch.setattr(results._Rows, "add", counted)
    return files


def kept(study: StudyFolder) -> list[Path]:
    return sorted((study.path / "cache").glob("*.npz"))


def frames(study: StudyFolder) -> list[pd.DataFrame]:
    """All tables of a study."""
    tables = results.results_of(study)
    return [frame(study, tables) for frame in FRAMES]


def afresh(study: StudyFolder) -> list[pd.DataFrame]:
    """All tables of a study from its records alone: what was kept is deleted."""
    shutil.rmtree(study.path / "cache", ignore_errors=True)
    return frames(study)


def same(tables: list[pd.DataFrame], others: list[pd.DataFrame]) -> None:
    for table, other in zip(tables, others, strict=True):
        pd.testing.assert_frame_equal(table, other, check_exact=True)


def test_rows_are_the_same_from_the_records_and_from_what_was_kept_and_no_record_is_asked_twice(
    study: StudyFolder, asked: list[str]
) -> None:
    truth, number = frames(study), sum(map(len, study.attempts().values()))
    assert not any(frame.empty for frame in truth)
    assert len(kept(study)) == number // 20 and len(asked) == len(set(asked)) == number
    asked.clear()
    same(frames(study), truth)
    assert asked == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
        lambda file: file.write_bytes(file.read_bytes().replace(b"pairs", b"parts", 1)),
        lambda file: file.write_bytes(b""),
        lambda file: columnar.save(file, {"attempts": pd.DataFrame({"file": ["a"]})}, "by other code"),
    ],
    ids=["gone", "cut short", "changed", "empty", "of other code"],
)
def test_what_was_kept_may_be_deleted_or_damaged_at_any_time(
    study: StudyFolder, asked: list[str], spoil: Callable[[Path], object]
) -> None:
    truth = frames(study)
    asked.clear()
    spoil(kept(study)[1])
    same(frames(study), truth)
    assert len(asked) == 20, "the records of that file alone"
    same(frames(study), truth)
    assert len(asked) == 20, "it was kept again"


def test_new_attempts_join_and_segments_that_are_gone_leave(study: StudyFolder) -> None:
    before, *_ = frames(study)
    failed = before[before["state"] == "failed"].iloc[0]["trial_id"]
    ((attempt,),) = study.records(lambda a: a.trial_id == failed).values()
    study.write(attempt.model_copy(update={"state": "diverged", "attempt": 2}))
    gone = next(s for s in study.segments.now() if all(a and a.trial_id != failed for a in s.attempts))
    gone.path.unlink()
    study = StudyFolder.read(study.path)
    joined = frames(study)
    same(joined, afresh(study))
    row = joined[0].set_index("trial_id").loc[failed]
    assert (row["state"], row["attempts"]) == ("diverged", 2)
    left = {a.trial_id for a in gone.attempts if a} - study.attempts().keys()
    assert left and (joined[0]["state"] == "pending").sum() == (before["state"] == "pending").sum() + len(left)


def test_a_study_that_cannot_be_written_is_read_all_the_same(
    study: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = afresh(study)
    for file in kept(study):
        file.unlink()
    refuse = mock.Mock(side_effect=OSError(30, "Read-only file system"))
    monkeypatch.setattr(columnar, "write_atomically", refuse)
    same(frames(study), truth)
    assert kept(study) == []


def test_nothing_in_a_kept_file_is_run(study: StudyFolder, tmp_path: Path) -> None:
    truth = frames(study)
    mark = tmp_path / "run"

    class Planted:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return os.mkdir, (str(mark),)

    trap = np.array([Planted()], dtype=object)
    for file in kept(study):
        np.savez(file, allow_pickle=True, made_by=trap, attempts=trap)
    same(frames(study), truth)
    assert not mark.exists()


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    awkward = [None, True, 1, "", "a, b\n", "naïve \N{GRINNING FACE}", 2**63 - 1, False, "None"]
    table = pd.DataFrame(
        {
            "words": pd.Series(awkward, dtype=object),
            "numbers": [0.1, np.nan, np.inf, -0.0, 1e300, 5e-324, 1 / 3, 2.0**53, 0.0],
        }
    )
    columnar.save(tmp_path / "some.npz", {"some": table, "none": table[:0]}, "me")
    loaded = columnar.load(tmp_path / "some.npz", "me")
    assert loaded is not None and list(loaded) == ["some", "none"]
    some = loaded["some"]
    assert [(type(v), v) for v in some["words"]] == [(type(v), v) for v in awkward]
    assert some["numbers"].to_numpy().tobytes() == table["numbers"].to_numpy().tobytes()
    assert list(loaded["none"].columns) == ["words", "numbers"] and loaded["none"].empty
    assert columnar.load(tmp_path / "some.npz", "another") is None


def test_environments_are_those_of_the_first_attempt_in_the_plans_order(study: StudyFolder) -> None:
    tables = results.results_of(study)
    ids = [planned.id for planned in study.info.trials]
    cores = [[e.cpu_cores for e in tables.environments(order).values()] for order in (ids, ids[::-1])]
    assert sorted(cores[0]) == [2, 7] and cores[1] == cores[0][::-1]


@pytest.mark.parametrize(("others", "several"), [(2, False), (4, True)])
def test_only_timings_are_kept_apart_by_their_threads(tmp_path: Path, others: int, several: bool) -> None:
    """Trainings of one thread beside timings of two are one environment; timings of two and of four are not."""
    study = build(tmp_path / "study", factorial({"norm": ("pre", "post")}))
    records = [record for of_trial in study.records().values() for record in of_trial]
    shutil.rmtree(study.path / "records")
    (study.path / "records").mkdir()
    for record in records:
        threads = 1 if record.trial.kind == "train" else 2 if record.trial.model.norm == "pre" else others
        study.write(record.model_copy(update={"environment": CPU.model_copy(update={"threads": threads})}))
    attempts = results.results_of(StudyFolder.read(study.path)).tables["attempts"]
    assert set(attempts["threads"]) == {1, 2, others} and attempts["environment"].nunique() == 1 + several


def test_what_only_vits_have_is_missing_of_a_baseline(tmp_path: Path) -> None:
    """A mean by pooling has no run of a network without one."""
    cells = [CellPlan("gem", {"pooling": "gem"}), CellPlan("cnn", {"architecture": "cnn", "dim": 128})]
    frame = trials_frame(build(tmp_path, Plan(cells, time=False))).set_index("cell")
    assert frame.loc["gem", "pooling"] == "gem" and frame.loc["gem", "dim"] == 64
    assert frame.loc["cnn", "architecture"] == "cnn" and frame.loc["cnn", ["pooling", "dim"]].isna().all()
