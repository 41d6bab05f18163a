"""Several drivers of one study: each trial is at work in one of them, and in another only when that one is dead."""

import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar, cast

import pytest

from tests.report.builders import CellPlan, Plan, build
from tests.runner.runs import VITBENCH, Runs, here, killed, until
from vitbench.processes import MARK, lives, start_time, wall_clock
from vitbench.runner.backends.backend import Backend
from vitbench.runner.driver import Driver
from vitbench.runner.session import Session
from vitbench.store import Leases, StudyFolder
from vitbench.store.files import publish
from vitbench.store.leases import Owner

T = TypeVar("T")
TRIAL = "0" * 20
FAULTY = ("--set", "model.mlp=faulty")


def elsewhere(path: Path) -> None:
    """Make a lease one of another machine, whose process numbers mean nothing here."""
    owner = Owner.model_validate_json(path.read_bytes()).model_copy(update={"machine": "another"})
    path.write_text(owner.model_dump_json())


def test_f15_a_lease_is_taken_once(tmp_path: Path) -> None:
    with Leases(tmp_path, 1.0) as one, Leases(tmp_path, 1.0) as two:
        assert one.take(TRIAL) is None
        lease = two.take(TRIAL)
        assert lease is not None and lease.owner is not None and lease.owner.driver == one.me.driver
        assert str(lease) == f"pid {os.getpid()}"
        one.release(TRIAL)
        assert two.take(TRIAL) is None
    assert list(tmp_path.iterdir()) == []


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What calls return that begin at one moment, each in a thread of its own."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [*pool.map(run, calls)]


def test_f15_of_many_that_try_one_succeeds(tmp_path: Path) -> None:
    for number in range(20):
        leases = at_once([partial(Leases(tmp_path, 10.0).take, f"{number:020}") for _ in range(8)])
        assert leases.count(None) == 1


@pytest.mark.slow
def test_f15_four_drivers_share_a_study_and_repeat_nothing(runs: Runs) -> None:
    seeds = f"train.seeds={list(range(16))}"
    arguments = [*runs.plugin("time.sleep(0.02)"), *FAULTY, "--set", seeds]
    drivers = [runs.start(*arguments, log=f"log{i}") for i in range(4)]
    for driver in drivers:
        assert driver.wait(timeout=300) == 0
    records = StudyFolder.read(runs.study).records()
    assert len(records) == 16 and all(len(attempts) == 1 for attempts in records.values())
    assert len(runs.pids()) == 16, "each process leaves a file when it starts"
    outputs = [(runs.folder / f"log{i}").read_text() for i in range(4)]
    assert all("16 ok" in output for output in outputs), "each driver stays until the study is whole"


@pytest.mark.slow
def test_f15_a_driver_with_nothing_to_do_says_who_has_it(runs: Runs) -> None:
    arguments = [*runs.plugin("time.sleep(600)"), *FAULTY]
    first = runs.start(*arguments)
    runs.wait_for_starts(1)
    second = runs.start(*arguments, log="second")
    until(lambda: "in another process (pid" in (runs.folder / "second").read_text(), "it does not say that it waits")
    assert f"(pid {first.pid})" in (runs.folder / "second").read_text()
    done = runs.run_here(*arguments, "--leave-leased")
    assert done.returncode == 1 and "1 running" in done.stdout
    for driver in (second, first):
        driver.terminate()
        driver.wait(timeout=30)
    assert runs.states() == {"interrupted": 1}


@pytest.mark.parametrize("age_s", [0.0, 7200.0, -7200.0], ids=["same clock", "ahead", "behind"])
def test_f16_f27_a_silent_lease_is_taken_over_after_three_intervals_and_not_before(
    tmp_path: Path, age_s: float
) -> None:
    """Whatever time its file has: the other machine's clock, or this one's, may have been set."""
    dead = Leases(tmp_path, 0.4)  # its heartbeat never starts
    assert dead.take(TRIAL) is None
    path = dead.files[TRIAL]
    elsewhere(path)
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    with Leases(tmp_path, 10.0) as living:
        begun = time.monotonic()
        lease = living.take(TRIAL)
        assert lease is not None and str(lease) == "another machine, no heartbeat for 0 s"
        os.utime(path)  # a heartbeat, so that the watch begins anew
        time.sleep(0.8)
        os.utime(path)
        while living.take(TRIAL) is not None:
            time.sleep(0.02)
        assert 0.8 + 1.2 <= time.monotonic() - begun < 10.0
        assert not dead.holds(TRIAL) and living.holds(TRIAL), "the former owner finds out"
        dead.release(TRIAL)
        assert living.holds(TRIAL), "and takes nothing away from the new one"


@pytest.mark.parametrize("age_s", [7200.0, -7200.0], ids=["stopped for hours", "set back"])
def test_f27_on_this_machine_a_living_process_keeps_its_lease_whatever_its_age(tmp_path: Path, age_s: float) -> None:
    owner = Leases(tmp_path, 0.1)
    assert owner.take(TRIAL) is None
    os.utime(owner.files[TRIAL], (time.time() - age_s, time.time() - age_s))
    other = Leases(tmp_path, 0.1)
    for _ in range(5):
        lease = other.take(TRIAL)
        assert lease is not None and str(lease) == f"pid {os.getpid()}"
        time.sleep(0.1)
    assert owner.holds(TRIAL)


def test_f27_a_process_is_told_by_its_start_however_the_wall_clock_steps() -> None:
    """A step moves the boot time by which the wall clock's start of every process is reckoned."""
    with subprocess.Popen(["sleep", "60"]) as process:
        begun = start_time(process.pid)
        assert begun is not None and lives(process.pid, begun) and not lives(process.pid, begun + 1)
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert since_boot - 30 < begun <= since_boot and abs(wall_clock(begun) - time.time()) < 30
        process.kill()
        until(lambda: start_time(process.pid) is None, "a zombie passes for a living process")


def test_f16_a_heartbeat_keeps_a_lease(tmp_path: Path) -> None:
    with Leases(tmp_path, 0.2) as living:
        assert living.take(TRIAL) is None
        elsewhere(living.files[TRIAL])
        time.sleep(1.5)
        assert Leases(tmp_path, 0.2).take(TRIAL) is not None


def test_f16_a_dead_process_of_this_machine_needs_no_waiting_for(tmp_path: Path) -> None:
    leases = Leases(tmp_path, 1000.0)
    leases.me = leases.me.model_copy(update={"pid": 2**22 - 3})
    assert leases.take(TRIAL) is None
    assert Leases(tmp_path, 1000.0).take(TRIAL) is None


def test_f16_a_lease_that_cannot_be_read_is_watched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitbench.store.leases.INTERVAL_SECONDS", 0.1)
    (tmp_path / f"{TRIAL}.1.json").write_text("{")
    leases = Leases(tmp_path, 10.0)
    lease = leases.take(TRIAL)
    assert lease is not None and "its lease cannot be read" in str(lease)
    time.sleep(0.4)
    assert leases.take(TRIAL) is None


def test_i32_a_lease_ends_no_process_that_its_driver_did_not_start(tmp_path: Path) -> None:
    """A dead driver's lease may name a stranger's group, that of whoever looks, 0 or 1: all of them are left alone."""
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True, text=True)
    own = subprocess.Popen(["sleep", "60"], start_new_session=True, text=True, env={**os.environ, MARK: "its driver's"})
    dead = Leases(tmp_path, 10.0)
    dead.me = dead.me.model_copy(update={"pid": 2**22 - 3, "mark": "its driver's"})
    try:
        for number, leader in enumerate((stranger.pid, 0, 1, -1, os.getpgrp(), 2**31, own.pid)):
            trial = f"{number:020}"
            assert dead.take(trial) is None
            text = dead.me.model_copy(update={"groups": ((leader, 0.0),)}).model_dump_json()
            dead.files[trial].write_text(text)
            assert Leases(tmp_path, 10.0).take(trial) is None
        assert own.wait(timeout=10) == -signal.SIGKILL, "what it did start is ended"
        assert stranger.poll() is None
        nameless = dead.me.model_copy(update={"mark": "", "groups": ((stranger.pid, 0.0),)}).model_dump_json()
        other = "f" * 20
        assert dead.take(other) is None
        dead.files[other].write_text(nameless)
        assert Leases(tmp_path, 10.0).take(other) is None and stranger.poll() is None
    finally:
        for process in (stranger, own):
            killed(process)


WITHOUT_LINKS = """
import errno, os, sys
def link(*_, **__):
    raise OSError(errno.EPERM, "Operation not permitted")
os.link = link
from vitbench.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_f34_without_hard_links_each_trial_is_run_once_all_the_same(runs: Runs) -> None:
    arguments = [*runs.plugin("time.sleep(0.02)"), *FAULTY, "--set", "train.seeds=[0, 1, 2, 3, 4, 5]"]
    command = [VITBENCH[0], "-c", WITHOUT_LINKS, *runs.command(*arguments)[3:]]
    drivers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [driver.wait(timeout=300) for driver in drivers] == [0, 0, 0]
    assert runs.states() == {"ok": 6} and len(runs.pids()) == 6


def test_f34_of_many_that_publish_one_name_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    def attempt(path: Path, text: str) -> str | None:
        with contextlib.suppress(FileExistsError):
            publish(path, text, durable=False)
            return text
        return None

    monkeypatch.setattr(os, "link", link)
    for number in range(50):
        path = tmp_path / f"{number}"
        texts = at_once([partial(attempt, path, f"{n}") for n in range(8)])
        assert [path.read_text()] == [text for text in texts if text is not None]


def test_a_damaged_record_in_the_way_costs_no_result(tmp_path: Path) -> None:
    """As another driver may leave it between this one's look and its write."""
    study = build(tmp_path / "study", Plan([CellPlan("a", {})], seeds=(0, 1), time=False))
    planned = study.info.trials[0]
    (record,) = study.records()[planned.id]
    (study.path / "records" / f"{planned.id}-1.json").write_text("{")
    session = cast(Session, SimpleNamespace(study=study, attempts={}, reporter=None, done=lambda _: False))
    driver = Driver(session, cast(Backend, None), cast(Leases, None))
    assert driver.store(planned, record)
    assert [(a.attempt, a.state) for a in session.attempts[planned.id]] == [(2, "ok")]
    assert [r.values for r in StudyFolder.read(study.path).records()[planned.id]] == [record.values]


@pytest.mark.slow
def test_f27_a_driver_that_is_stopped_past_its_heartbeats_keeps_its_trial(runs: Runs) -> None:
    arguments = [*runs.plugin("time.sleep(0.5)"), *FAULTY, "--heartbeat", "0.2"]
    first = runs.start(*arguments)
    runs.wait_for_starts(1)
    first.send_signal(signal.SIGSTOP)
    second = runs.start(*arguments, log="second")
    until(lambda: "in another process" in (runs.folder / "second").read_text(), "it does not wait")
    time.sleep(2.0)
    first.send_signal(signal.SIGCONT)
    assert (first.wait(timeout=120), second.wait(timeout=120)) == (0, 0)
    assert runs.states() == {"ok": 1} and len(runs.pids()) == 1


@pytest.mark.slow
def test_f27_what_a_driver_lost_while_it_was_stopped_does_not_count_against_the_trial(runs: Runs) -> None:
    """Its lease looks like one of another machine, so that the second driver takes the trial over and finishes it."""
    body = "time.sleep(600 if len(list(STARTS.iterdir())) == 1 else 0)"
    arguments = [*runs.plugin(body), *FAULTY, "--heartbeat", "0.3"]
    first = runs.start(*arguments)
    runs.wait_for_starts(1)
    trial = int(next(runs.starts.iterdir()).name)
    first.send_signal(signal.SIGSTOP)
    (lease,) = runs.study.glob("leases/*.json")
    elsewhere(lease)
    assert runs.start(*arguments, log="second").wait(timeout=120) == 0
    assert runs.states() == {"ok": 1}
    os.kill(trial, signal.SIGKILL)
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=120) == 0, runs.log.read_text()
    assert runs.states() == {"ok": 1} and len(runs.pids()) == 2
    assert "another driver has taken it over; this attempt is left out" in runs.log.read_text()


@pytest.mark.slow
def test_f27_an_ok_result_is_kept_beside_a_failure_of_another_driver(runs: Runs) -> None:
    """A slow driver's trial ends well after another had taken it over and had run out of time with it."""
    arguments = [*runs.plugin("while not (STARTS.parent / 'go').exists(): time.sleep(0.1)"), *FAULTY]
    first = runs.start(*arguments, "--heartbeat", "0.3")
    runs.wait_for_starts(1)
    first.send_signal(signal.SIGSTOP)
    (lease,) = runs.study.glob("leases/*.json")
    elsewhere(lease)
    runs.start(*arguments, "--heartbeat", "0.3", "--set", "suite.timeout_s=2", log="second").wait(timeout=120)
    assert runs.states() == {"timeout": 1}
    (runs.folder / "go").touch()
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=120) == 0, runs.log.read_text()
    assert runs.states() == {"timeout": 1, "ok": 1}
    assert "1 ok" in here("status", str(runs.study)).stdout


@pytest.mark.slow
def test_f16_the_study_goes_on_where_a_driver_of_another_machine_died(runs: Runs) -> None:
    arguments = [*runs.plugin("pass"), *FAULTY, "--heartbeat", "0.5"]
    runs.complete(*arguments)
    (record,) = runs.study.glob("records/*.json")
    trial = record.name.split("-")[0]
    record.unlink()
    dead = Leases(runs.study / "leases", 5.0)  # longer than a driver needs to start: it has to wait
    dead.take(trial)
    elsewhere(dead.files[trial])
    assert "in another process (another machine, no heartbeat for" in runs.complete(*arguments)
    assert runs.states() == {"ok": 1}
    assert list((runs.study / "leases").iterdir()) == []
