"""Several drivers of one study: each trial is at work in one of them, and in another only when that one is dead."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.runner.runs import Runs, until
from vitbench.store import Claims, Study
from vitbench.store.claims import Owner

TRIAL = "0" * 20


def elsewhere(path: Path) -> None:
    """Make a claim one of another machine, whose process numbers mean nothing here."""
    owner = Owner.model_validate_json(path.read_bytes()).model_copy(update={"place": "another"})
    path.write_text(owner.model_dump_json())


def test_f15_a_claim_is_taken_once(tmp_path: Path) -> None:
    with Claims(tmp_path, 1.0) as one, Claims(tmp_path, 1.0) as two:
        assert one.take(TRIAL) is None
        held = two.take(TRIAL)
        assert held is not None and held.owner is not None and held.owner.driver == one.me.driver
        assert f"driver {one.me.driver}, process {os.getpid()} on this machine" in str(held)
        one.release(TRIAL)
        assert two.take(TRIAL) is None
    assert list(tmp_path.iterdir()) == []


def test_f15_of_many_that_try_one_succeeds(tmp_path: Path) -> None:
    for number in range(20):
        drivers = [Claims(tmp_path, 10.0) for _ in range(8)]
        start, won = threading.Barrier(8), []

        def attempt(claims: Claims, trial: str = f"{number:020}", start: threading.Barrier = start,
                    won: list[Claims] = won) -> None:  # fmt: skip
            start.wait()
            if claims.take(trial) is None:
                won.append(claims)

        threads = [threading.Thread(target=attempt, args=(c,)) for c in drivers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1


@pytest.mark.slow
def test_f15_four_drivers_share_a_study_and_repeat_nothing(runs: Runs) -> None:
    seeds = f"train.seeds={list(range(16))}"
    arguments = [*runs.plugin("time.sleep(0.02)"), "--set", "model.mlp=faulty", "--set", seeds]
    drivers = [runs.start(*arguments, log=f"log{i}") for i in range(4)]
    for driver in drivers:
        assert driver.wait(timeout=300) == 0
    records = Study.read(runs.study).records()
    assert len(records) == 16 and all(len(attempts) == 1 for attempts in records.values())
    assert len(list(runs.starts.iterdir())) == 16, "each process leaves a file when it starts"
    outputs = [(runs.folder / f"log{i}").read_text() for i in range(4)]
    assert all("16 ok" in output for output in outputs), "each driver stays until the study is whole"


@pytest.mark.slow
def test_f15_a_driver_with_nothing_to_do_says_who_has_it(runs: Runs) -> None:
    arguments = [*runs.plugin("time.sleep(600)"), "--set", "model.mlp=faulty"]
    first = runs.start(*arguments)
    runs.wait_for_starts(1)
    second = runs.start(*arguments, log="second")
    until(lambda: "waiting for them" in (runs.folder / "second").read_text(), "it does not say that it waits")
    assert f"process {first.pid} on this machine" in (runs.folder / "second").read_text()
    done = runs.run(*arguments, "--leave-held")
    assert done.returncode == 1 and "1 pending" in done.stdout
    for driver in (second, first):
        driver.terminate()
        driver.wait(timeout=30)
    assert Counter(runs.states()) == {"interrupted": 1}


@pytest.mark.parametrize("skew_s", [0.0, 7200.0, -7200.0], ids=["same clock", "ahead", "behind"])
def test_f16_a_silent_claim_is_taken_over_after_three_intervals_and_not_before(
    tmp_path: Path, skew_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = Claims(tmp_path, 10.0)  # its heartbeat never starts
    assert dead.take(TRIAL) is None
    path = dead.mine[TRIAL]
    elsewhere(path)
    # The claimant's own clock does not matter: ages are told by the file system's.
    monkeypatch.setattr("time.time", lambda real=time.time: real() + skew_s)
    with Claims(tmp_path, 10.0) as living:
        for quiet, taken in ((0.0, False), (29.0, False), (31.0, True)):
            now = path.stat().st_mtime if quiet == 0 else _file_system_now(tmp_path)
            os.utime(path, (now - quiet, now - quiet))
            held = living.take(TRIAL)
            assert (held is None) == taken, quiet
            if held is not None:
                assert "on another machine" in str(held)
        assert not dead.holds(TRIAL) and living.holds(TRIAL), "the former owner finds out"
        dead.release(TRIAL)
        assert living.holds(TRIAL), "and takes nothing away from the new one"


def _file_system_now(folder: Path) -> float:
    from vitbench.store.files import file_system_now

    return file_system_now(folder)


def test_f16_a_heartbeat_keeps_a_claim(tmp_path: Path) -> None:
    with Claims(tmp_path, 0.2) as living:
        assert living.take(TRIAL) is None
        elsewhere_path = living.mine[TRIAL]
        elsewhere(elsewhere_path)
        time.sleep(1.5)
        assert Claims(tmp_path, 0.2).take(TRIAL) is not None


def test_f16_a_dead_process_of_this_machine_needs_no_waiting_for(tmp_path: Path) -> None:
    claims = Claims(tmp_path, 1000.0)
    claims.me = claims.me.model_copy(update={"pid": 2**22 - 3})
    assert claims.take(TRIAL) is None
    assert Claims(tmp_path, 1000.0).take(TRIAL) is None


def test_f16_a_claim_that_cannot_be_read_is_judged_by_its_age(tmp_path: Path) -> None:
    (tmp_path / f"{TRIAL}.1.json").write_text("{")
    claims = Claims(tmp_path, 10.0)
    assert claims.take(TRIAL) is not None
    os.utime(tmp_path / f"{TRIAL}.1.json", (1, 1))
    assert claims.take(TRIAL) is None


@pytest.mark.slow
def test_f16_the_study_goes_on_where_a_driver_of_another_machine_died(runs: Runs) -> None:
    arguments = [*runs.plugin("pass"), "--set", "model.mlp=faulty", "--heartbeat", "0.5"]
    assert runs.run(*arguments).returncode == 0
    (record,) = runs.study.glob("records/*.json")
    trial = record.name.split("-")[0]
    record.unlink()
    dead = Claims(runs.study / "claims", 5.0)  # longer than a driver needs to start: it has to wait
    dead.take(trial)
    elsewhere(dead.mine[trial])
    done = runs.run(*arguments)
    assert done.returncode == 0 and "on another machine" in done.stdout and runs.states() == {"ok": 1}
    assert list((runs.study / "claims").iterdir()) == []
