"""A study on a Ray cluster: real nodes on this machine, real losses."""

import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.runner.ray_cluster import RayNodes
from tests.runner.runs import Runs, all_end, killed, until
from tests.training.stages import results
from vitbench.runner.process import Stop
from vitbench.runner.turns import turns
from vitbench.store import Record, StudyFolder, TrainValues

pytestmark = pytest.mark.xdist_group("ray")  # what its fixtures run is run once

pytest.importorskip("ray")

ONE_CPU = ("--set", "resources.cpus=1")
FAULTY = ("--set", "model.mlp=faulty")
UNTIL_GO = "exec('while not (STARTS.parent / \"go\").exists(): time.sleep(0.05)')"
"""Waits in a trial until the test lets it go on."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayNodes]:
    nodes = RayNodes()
    for _ in range(2):
        nodes.ask("add", num_cpus=1)
    yield nodes
    nodes.close()


def on(nodes: RayNodes) -> list[str]:
    return ["--launcher", "ray", "--address", nodes.address]


def seeds(count: int) -> list[str]:
    return ["--set", f"train.seeds={list(range(count))}"]


def start(runs: Runs, nodes: RayNodes, body: str, count: int) -> tuple[subprocess.Popen[str], list[str]]:
    arguments = [*runs.plugin(body), *FAULTY, *ONE_CPU, *seeds(count)]
    return runs.start(*arguments, *on(nodes)), arguments


def each_ok_once(runs: Runs, count: int) -> dict[str, list[Record]]:
    records = StudyFolder.read(runs.study).records()
    assert len(records) == count
    assert all(Counter(r.state for r in attempts)["ok"] == 1 for attempts in records.values()), records
    return records


def settled(runs: Runs, quiet_s: float = 3.0) -> set[int]:
    """The processes that began, once no more do: what a killed driver had asked of a node may begin after its death."""
    seen, since = runs.pids(), time.monotonic()
    while time.monotonic() - since < quiet_s:
        time.sleep(0.1)
        if (now := runs.pids()) != seen:
            seen, since = now, time.monotonic()
    return seen


@pytest.mark.slow
def test_a_ray_of_this_run_s_own_is_this_machine(runs: Runs) -> None:
    """It takes its turn with other drivers, and nothing joins it that would have room for a larger trial."""
    ray, stop = ("--launcher", "ray", "--device", "cpu"), Stop()
    with turns(["cpu"], runs.study, stop, lambda _: None, alone=True):
        done = runs.run(*ray, "--no-wait")
    assert done.returncode == 2 and "in use by process" in done.stderr, done.stdout + done.stderr
    done = runs.run(*ray, "--set", "resources.cpus=4096")
    assert done.returncode == 2 and "each trial asks for 4,096 CPUs" in done.stderr, done.stdout + done.stderr
    assert runs.states() == {} and "Traceback" not in done.stderr


@pytest.mark.slow
def test_f33_the_only_node_of_a_ray_that_was_started_for_the_run_is_lost(runs: Runs) -> None:
    driver = runs.start(*runs.plugin(UNTIL_GO), *FAULTY, *ONE_CPU, *seeds(2), "--launcher", "ray", "--workers", "1")
    runs.wait_for_starts(1)
    (trial,) = runs.pids()
    assert psutil.Process(trial).nice() == psutil.Process(driver.pid).nice(), "Ray's own workers are nice by 15"
    (raylet,) = [c for c in psutil.Process(driver.pid).children(recursive=True) if c.name() == "raylet"]
    raylet.kill()
    assert driver.wait(timeout=75) == 2, runs.log.read_text()
    output = runs.log.read_text()
    assert "is lost: no node is left" in output and "the same command goes on from here" in output, output
    assert "Traceback" not in output


@pytest.mark.slow
def test_f17_a_lost_node_and_a_killed_worker_cost_an_attempt_each(runs: Runs, cluster: RayNodes) -> None:
    lost = cluster.ask("add", num_cpus=1)
    driver, _ = start(runs, cluster, UNTIL_GO, 4)
    runs.wait_for_starts(3)
    before = runs.pids()
    cluster.ask("lose", node=lost)
    until(lambda: runs.states()["crashed"] == 1, "the loss is not recorded")
    until(lambda: any(not psutil.pid_exists(pid) for pid in before), "the trial of the lost node is still there")
    trial = next(pid for pid in before if psutil.pid_exists(pid))
    worker = psutil.Process(trial).parent().parent()  # the trial's fork server, and the worker that started that
    assert worker.name().startswith("ray::")
    worker.kill()
    until(lambda: runs.states()["crashed"] == 2, "the loss is not recorded")
    assert all_end({trial})
    cluster.ask("add", num_cpus=1)
    (runs.folder / "go").touch()
    assert driver.wait(timeout=120) == 0, runs.log.read_text()
    records = each_ok_once(runs, 4)
    crashed = [r for attempts in records.values() for r in attempts if r.state == "crashed"]
    assert len(crashed) == 2 and all("Ray worker or node was lost" in r.reason for r in crashed)
    assert all("1 node" not in r.reason for r in crashed) and all_end(runs.pids())


@pytest.mark.slow
def test_f11_ctrl_c_ends_trials_on_the_cluster_even_those_that_ignore_it(runs: Runs, cluster: RayNodes) -> None:
    stuck = "signal.signal(signal.SIGTERM, signal.SIG_IGN); import re; re.match('(a+)+$', 'a' * 64 + 'b')"
    driver, arguments = start(runs, cluster, stuck, 2)
    runs.wait_for_starts(2)
    began = time.monotonic()
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=60) == 130, runs.log.read_text()
    assert time.monotonic() - began < 15 + 5, "15 s, and 5 more for a machine that is busy with tests"
    assert runs.states() == {"interrupted": 2} and all_end(runs.pids())
    runs.plugin("pass")
    runs.complete(*arguments)
    each_ok_once(runs, 2)


@pytest.mark.slow
def test_f02_a_driver_that_is_killed_under_ray_repeats_nothing(runs: Runs, cluster: RayNodes) -> None:
    driver, arguments = start(runs, cluster, "time.sleep(0.1)", 8)
    runs.wait_for(3)
    killed(driver)
    begun = settled(runs)
    assert all_end(begun, within_s=30), "trials outlived their driver"
    finished, before = {r.trial_id for r in runs.records()}, len(begun)
    done = runs.run(*arguments, *on(cluster))
    assert done.returncode == 0, done.stdout + done.stderr
    each_ok_once(runs, 8)
    assert len(runs.pids()) - before == 8 - len(finished)


@pytest.mark.slow
def test_gpus_are_given_to_one_trial_at_a_time(runs: Runs, cluster: RayNodes) -> None:
    node = cluster.ask("add", num_cpus=4, num_gpus=2)
    body = (
        "g = os.environ['CUDA_VISIBLE_DEVICES']; f = STARTS.parent / f'gpu-{g}'; f.touch(exist_ok=False); "
        "time.sleep(0.05); f.unlink(); (STARTS.parent / f'used-{g}').touch()"
    )
    done = runs.run(*runs.plugin(body), *FAULTY, *ONE_CPU, *seeds(6), "--set", "resources.gpus=1", *on(cluster))
    cluster.ask("lose", node=node)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(p.name for p in runs.folder.glob("used-*")) == ["used-0", "used-1"]
    each_ok_once(runs, 6)


@pytest.mark.slow
def test_f18_a_head_that_dies_ends_the_run_with_a_message_and_loses_nothing(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    nodes = RayNodes()
    nodes.ask("add", num_cpus=1)
    driver, arguments = start(runs, nodes, "time.sleep(1.0)", 6)
    runs.wait_for(2)
    nodes.ask("kill_gcs")
    assert driver.wait(timeout=120) != 0, runs.log.read_text()
    nodes.close()
    finished = {r.trial_id for r in runs.records() if r.state == "ok"}
    assert 2 <= len(finished) < 6
    assert all_end(runs.pids(), within_s=60)
    before = len(runs.pids())
    runs.complete(*arguments)
    each_ok_once(runs, 6)
    assert len(runs.pids()) - before == 6 - len(finished)


@pytest.mark.parametrize("there", ["nobody", pytest.param("another server", marks=pytest.mark.slow)])
def test_f19_a_cluster_that_cannot_be_reached_is_said_in_half_a_minute(runs: Runs, there: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    if there == "nobody":
        listener.close()
    began = time.monotonic()
    done = runs.run("--launcher", "ray", "--address", address)
    took = time.monotonic() - began
    listener.close()
    assert done.returncode == 2 and address in done.stderr and "ray start --head" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and took < 30 + 15, "30 s, and 15 for torch on a busy machine"
    assert not runs.study.exists()


def test_f19_an_address_that_is_none_is_refused(runs: Runs) -> None:
    for address in ("ray://127.0.0.1:10001", "head"):
        done = runs.run_here("--launcher", "ray", "--address", address)
        assert done.returncode == 2 and "must be HOST:PORT of a Ray head" in done.stderr


def test_without_ray_the_launcher_says_what_to_install(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = runs.run_here("--launcher", "ray")
    assert done.returncode == 2 and "pip install 'vitbench[ray]'" in done.stderr


@pytest.mark.slow
def test_a_study_begun_here_continued_under_ray_and_finished_here_is_that_of_one_place(
    runs: Runs, cluster: RayNodes, tmp_path: Path
) -> None:
    """Its values are equal bit by bit."""
    arguments = [*runs.plugin("pass"), *FAULTY, *ONE_CPU, "--set", "train.epochs=2", "--set", "model.dropout=0.1",
                 "--set", 'axes.attention=["sdpa", "batched"]', "--set", "train.implementations=all"]  # fmt: skip
    for count, place in ((1, []), (2, on(cluster)), (3, [])):
        done = (runs.run if place else runs.run_here)(*arguments, *seeds(count), *place)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{2 * (count - 1)} of them finished before" in done.stdout
    records = each_ok_once(runs, 6)
    assert all(len(attempts) == 1 for attempts in records.values()) and len(runs.pids()) == 6
    assert all(r.environment is not None and r.environment.threads == 1 for r in runs.records())
    alone = Runs(tmp_path / "alone")
    alone.complete(*arguments, *seeds(3))
    assert values(runs) == values(alone)


def values(runs: Runs) -> dict[str, object]:
    """What each trial came to."""
    return {r.trial_id: results(r.values) for r in runs.records() if isinstance(r.values, TrainValues)}
