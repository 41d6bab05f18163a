"""Studies as jobs of submitit: its local executor runs the same jobs as real processes of this machine.

What only Slurm itself can do is seen from what it is told: the batch file, through commands that stand in for its own.
"""

import ast
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from tests.runner.runs import Runs, all_end, descendants, here, killed, planned, until
from tests.runner.test_tuning import TUNED
from tests.small import SUITE
from tests.training import stages
from vitbench.config.suite import Resources
from vitbench.runner.backends import slurm
from vitbench.runner.backends.backend import BackendOptions
from vitbench.runner.plan import KINDS
from vitbench.runner.process import Stop
from vitbench.runner.session import Session
from vitbench.store import Leases, StudyFolder, TrainValues
from vitbench.store.attempts import standing

slow = pytest.mark.slow

ONE_CPU = ("--set", "resources.cpus=1")
JOBS = ("--launcher", "slurm", "--engine", "cluster=local", "--workers", "2")
BACKENDS = {"local": ("--workers", "2"), "slurm": JOBS}
HELD = "while (STARTS.parent / 'hold').exists(): signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(0.05)"
"""Sleeps as long as there is a file, and ends with the first SIGTERM."""
SLOWED = "time.sleep(0.05 * (STARTS.parent / 'slow').exists())"  # Takes long as long as there is a file
ALONE = ("--set", "model.mlp=faulty")
BESIDE_GOOD_ONES = ("--set", 'axes.mlp=["gelu", "faulty"]', "--set", "train.seeds=[0, 1]")


@pytest.fixture(autouse=True)
def let_go(tmp_path: Path) -> Iterator[None]:
    """What a test that fails leaves running comes to its end."""
    yield
    (tmp_path / "hold").unlink(missing_ok=True)


def results(runs: Runs) -> dict[str, dict[str, Any]]:
    """Trial → everything that it measured but times and memory."""
    values = {i: standing(tried).values for i, tried in StudyFolder.read(runs.study).records().items()}
    return {i: stages.results(each) for i, each in values.items() if isinstance(each, TrainValues)}


def the_job(driver: subprocess.Popen[str]) -> psutil.Process:
    """The process of the only job."""
    jobs = []
    for process in psutil.Process(driver.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "submitit.core._submit" in process.cmdline():
                jobs.append(process)
    (job,) = jobs
    return job


@slow
def test_a_suite_gives_the_same_bits_on_this_machine_and_as_jobs(runs: Runs) -> None:
    arguments = ["--set", "train.seeds=[0, 1, 2]", "--set", "train.epochs=2", *ALONE, *runs.plugin("pass"), *ONE_CPU]
    runs.complete(*arguments)
    expected = results(runs)
    runs.study = runs.folder / "as-jobs"
    jobs = runs.run_here(*arguments, *JOBS)
    assert jobs.returncode == 0 and "submitted 2 local jobs" in jobs.stdout, jobs.stdout + jobs.stderr
    assert results(runs) == expected and len(expected) == 3
    assert runs.states() == {"ok": 3} and len(runs.pids()) == 2 * 3
    assert {r.environment.threads for r in runs.records() if r.environment} == {1}
    again = runs.run_here(*arguments, *JOBS)
    assert again.returncode == 0 and "submitted" not in again.stdout and len(runs.pids()) == 2 * 3


@slow
@pytest.mark.parametrize(
    ("first", "then", "whole_group"),
    [("local", "slurm", False), ("slurm", "local", True)],
)
def test_f11_ctrl_c_ends_the_study_and_either_backend_goes_on(
    runs: Runs, first: str, then: str, whole_group: bool
) -> None:
    """On a terminal Ctrl-C goes to the whole process group: the jobs of the local executor get it too."""
    arguments = [*runs.plugin(HELD), *BESIDE_GOOD_ONES, *ONE_CPU]
    (runs.folder / "hold").touch()
    with runs.log.open("wb") as stream:
        driver = subprocess.Popen(runs.command(*arguments, *BACKENDS[first]), stdout=stream, stderr=stream, text=True,
                                  start_new_session=True)  # fmt: skip
    until(
        lambda: len(runs.pids()) == 2 and len(list(runs.study.glob("records/*.json"))) == 2, "the trials do not start"
    )
    children = descendants(driver)
    finished = runs.records()
    began = time.monotonic()
    if whole_group:
        os.killpg(driver.pid, signal.SIGINT)
    else:
        driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=60) == 130 and time.monotonic() - began < 20
    assert all_end(children, within_s=15.0), "processes outlived the command"
    assert "the same command goes on from here" in runs.log.read_text()
    assert runs.states() == {"ok": 2, "interrupted": 2}
    assert list((runs.study / "leases").iterdir()) == []
    (runs.folder / "hold").unlink()
    runs.complete(*arguments, *BACKENDS[then])
    assert runs.states() == {"ok": 4, "interrupted": 2} and len(runs.pids()) == 4
    assert all(record in runs.records() for record in finished), "what had finished is left alone"


@slow
def test_f17_jobs_that_are_killed_take_their_processes_along_and_their_trial_is_run_again(runs: Runs) -> None:
    (runs.folder / "hold").touch()
    driver = runs.start(*runs.plugin(HELD), *ALONE, *ONE_CPU, *JOBS)
    runs.wait_for_starts(1)
    below = the_job(driver).children(recursive=True)
    next(p for p in below if "vitbench" in p.cmdline()).kill()  # the job's driver, such as for want of memory
    assert all_end({p.pid for p in below})
    assert runs.states() == {}, "nobody is left to write a record"
    runs.wait_for_starts(2)
    job = the_job(driver)
    below = job.children(recursive=True)
    job.kill()
    assert all_end({p.pid for p in below}, within_s=20.0), "processes outlived their job"
    assert runs.states() == {"interrupted": 1}
    (runs.folder / "hold").unlink()
    assert driver.wait(timeout=120) == 0, runs.log.read_text()
    assert runs.states() == {"interrupted": 1, "ok": 1} and len(runs.pids()) == 3
    assert runs.log.read_text().count("submitted 1 local job:") == 3
    assert list((runs.study / "leases").iterdir()) == []


@slow
def test_a_job_that_is_warned_stops_with_a_checkpoint_and_the_requeued_one_comes_to_the_same_bits(runs: Runs) -> None:
    arguments = [*runs.plugin(SLOWED), *ALONE, *ONE_CPU, "--set", "train.epochs=30", "--set", "suite.checkpoint_s=0.1"]
    runs.complete(*arguments)
    expected = results(runs)
    runs.study = runs.folder / "as-jobs"
    (runs.folder / "slow").touch()
    driver = runs.start(*arguments, *JOBS)
    kept = runs.study / "checkpoints"
    until(lambda: any(kept.glob("*.safetensors")), "no checkpoint")
    job = the_job(driver)
    for process in [*job.children(recursive=True), job]:  # Slurm may warn all of a job's processes
        process.send_signal(signal.SIGUSR2)
    runs.wait_for(1)
    (record,) = runs.records()
    assert record.state == "interrupted"
    assert [p.name for p in kept.iterdir()] == [f"{record.trial_id}.safetensors"]
    (runs.folder / "slow").unlink()
    assert driver.wait(timeout=120) == 0, runs.log.read_text()
    assert runs.log.read_text().count("submitted") == 1, "the job goes on, and is not submitted anew"
    assert results(runs) == expected
    assert runs.states() == {"interrupted": 1, "ok": 1}
    (values,) = [r.values for r in runs.records() if r.state == "ok"]
    assert isinstance(values, TrainValues) and len(values.resumed_at) == 1 and values.resumed_at[0] > 0
    assert list(kept.iterdir()) == []


@slow
def test_jobs_outlive_their_submitter_and_the_command_given_again_waits_for_them(runs: Runs) -> None:
    arguments = [*runs.plugin(HELD), *ALONE, "--set", "train.seeds=[0, 1]", *ONE_CPU, *JOBS]
    (runs.folder / "hold").touch()
    driver = runs.start(*arguments)
    runs.wait_for_starts(2)
    jobs = descendants(driver)
    killed(driver)
    again = runs.start(*arguments, log="again")
    until(lambda: "in other processes" in (runs.folder / "again").read_text(), "it does not say that it waits")
    (runs.folder / "hold").unlink()
    assert again.wait(timeout=120) == 0
    assert all_end(jobs, within_s=30.0), "jobs are left"
    assert "submitted" not in (runs.folder / "again").read_text()
    assert runs.states() == {"ok": 2} and len(runs.pids()) == 2
    assert "2 of them finished before" in runs.complete(*arguments) and len(runs.pids()) == 2


@slow
def test_a_tuned_suite_is_planned_again_and_its_seeds_are_trained_by_jobs(runs: Runs) -> None:
    runs.suite.write_text(TUNED.replace('positions = ["learned", "none"]', 'positions = ["learned"]'))
    printed = runs.complete(*ONE_CPU, *JOBS, "--workers", "1")
    study = StudyFolder.read(runs.study)
    spans = [(r.started_at.timestamp(), r.seconds) for of_trial in study.records().values() for r in of_trial]
    at_once = [sum(start <= at < start + seconds for start, seconds in spans) for at, _ in spans]
    assert max(at_once) == 1, "a job trains one at a time, whatever it sees of the machine"
    assert len(study.info.commands) == 1 and "--only" not in study.info.commands[0], "the user's command, not the jobs'"
    assert Counter(p.trial.kind for p in study.info.trials) == {"tune": 4, "train": 2} and not study.info.untuned
    assert runs.states() == {"ok": 6} and "6 trials: 6 ok" in printed


@slow
def test_each_look_is_shared_out_among_jobs(runs: Runs) -> None:
    """Jobs run what is planned when they begin: what results ask for further is submitted by whoever waits for them."""
    looks = ("--set", "train.seeds={ at_most = 8, looks = [4, 8] }", "--set", 'axes.norm=["pre", "post"]')
    printed = runs.complete(*looks, *ONE_CPU, *JOBS)
    assert runs.states() == {"ok": 16}, "a difference of untrained models is open to the last"
    assert printed.count("submitted 2 local jobs") == 2, printed


def refused(*arguments: str) -> str:
    """The message of a command that must end with exit status 2."""
    done = here(*arguments)
    assert done.returncode == 2 and done.stdout == "", "nothing is begun"
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_what_cannot_be_submitted_is_refused_with_its_remedy(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    base = ["run", str(runs.suite), "--results", str(runs.study), "--launcher", "slurm"]
    monkeypatch.setenv("PATH", str(runs.folder))
    message = refused(*base, "--device", "cpu")
    assert '"srun"' in message and "--engine cluster=local" in message
    local = [*base, "--device", "cpu", "--engine", "cluster=local", "--engine"]
    for wrong, words in {
        "timeout_min=soon": '"timeout_min" expected',
        "slurm_partitoin=gpu": "'partitoin'",
        "nonsense_a=1": "'nonsense'",
        "cluster=debug": "must be one of slurm, local",
    }.items():
        message = refused(*local, wrong)
        assert "--engine" in message and words in message
    assert "say --device cuda" in refused(*base, "--device", "cuda:1")
    blocked = [*base, "--device", "cpu", "--engine", "cluster=local", "--results", str(runs.suite / "study")]
    assert "cannot be written" in refused(*blocked)
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert "pip install 'vitbench[slurm]'" in refused(*local, "timeout_min=10")
    assert not list(runs.study.glob("records/*"))


def options_of(study: Path, device: str, resources: Resources, **how: Any) -> BackendOptions:
    return BackendOptions(device, study=study, resources=resources, stop=Stop(), say=lambda _: None, **how)


def batch_file(folder: Path, device: str, resources: Resources, parameters: dict[str, Any], count: int) -> list[str]:
    """What sbatch would be given, line by line."""
    engine = (("slurm_partition", "gpu"), ("timeout_min", 600))
    jobs = slurm.SlurmBackend(options_of(folder / "study", device, resources, engine=engine)).submit(
        ["true"], count, parameters
    )
    assert [job.job_id for job in jobs] == (["7"] if count == 1 else [f"7_{i}" for i in range(count)])
    return (folder / "batch").read_text().splitlines()


def test_slurm_is_asked_for_what_a_trial_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = {"srun": "", "sbatch": f"cp $1 {tmp_path}/batch; echo Submitted batch job 7", "scancel": ""}
    (tmp_path / "bin").mkdir()
    for name, body in commands.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    lines = batch_file(tmp_path, "cuda", Resources(cpus=4), {"cpus_per_task": 4, "gpus_per_node": 1}, 3)
    asked = {line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")}
    assert {"partition=gpu", "time=600", "cpus-per-task=4", "gpus-per-node=1", "array=0-2%3", "requeue",
            "signal=USR2@120", "job-name=vitbench"} <= asked  # fmt: skip
    assert f"output={tmp_path}/study/slurm/%A_%a/%A_%a_0_log.out" in asked
    (srun,) = [line for line in lines if line.startswith("srun ")]
    assert "--cpus-per-task=4" in srun, "srun does not take it over from the job"


def test_a_ctrl_c_while_jobs_are_submitted_waits_until_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal it goes to sbatch, too, which would end and leave jobs in the queue that nobody knows."""
    (tmp_path / "bin").mkdir()
    both = "for each in (os.getppid(), os.getpid()): os.kill(each, signal.SIGINT)"
    then = f"shutil.copy(sys.argv[1], {str(tmp_path / 'batch')!r}); print('job 7')"
    for name, body in {"srun": "", "sbatch": f"import os, shutil, signal, sys\n{both}\n{then}"}.items():  # sh unblocks
        (tmp_path / "bin" / name).write_text(f"#!{sys.executable}\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    caught = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        assert batch_file(tmp_path, "cpu", Resources(), {"cpus_per_task": 1}, 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught == [signal.SIGINT]


def test_a_job_gets_what_the_suite_says_and_leaves_the_studys_plan_whole(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, timing = (planned(runs.folder, f"{SUITE}[time]\n", kinds=kinds) for kinds in (KINDS, ["time"]))
    session = SimpleNamespace(study=StudyFolder.start(runs.study, whole))
    seen: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    then: list[set[str]] = []

    def still_planned() -> set[str]:
        """Kinds of the study's trials, of which no job has run any yet."""
        return {p.trial.kind for p in StudyFolder.read(runs.study).info.trials}

    def rounds(_: object, __: object, ___: object, kinds: tuple[str, ...], **how: Any) -> None:
        seen.append((kinds, how))
        StudyFolder.start(runs.study, timing, planned_elsewhere=("tune", "train"))  # as the driver of a job does
        then.append(still_planned())

    monkeypatch.setattr(slurm, "rounds", rounds)
    monkeypatch.setattr(slurm.SlurmBackend, "_executor", lambda _: None)
    for device, resources, shared in (
        ("cpu", Resources(), {"cpus_per_task": 1}),
        ("cuda", Resources(cpus=8), {"cpus_per_task": 8, "gpus_per_node": 1}),
        ("cuda", Resources(gpus=0.5), {"cpus_per_task": 1, "gpus_per_node": 1}),
    ):
        seen.clear()
        then.clear()
        options = options_of(runs.study, device, resources)
        slurm.submit_study(cast(Session, session), slurm.SlurmBackend(options), Leases(runs.study / "leases"))
        assert seen[0] == (("tune", "train"), {"only": "training", "most": slurm.MAX_JOBS, "parameters": shared})
        alone = {**shared, "slurm_exclusive": True}
        assert seen[1] == (("time",), {"only": "timing", "most": 1, "parameters": alone}), "a node of its own"
        assert {*map(frozenset, then)} == {frozenset(("train", "time"))}, "`status` sees them while jobs run"
        StudyFolder.start(runs.study, timing)  # another command, on the same folder
        slurm.submit_study(cast(Session, session), slurm.SlurmBackend(options), Leases(runs.study / "leases"))
        assert still_planned() == {"train", "time"}


def test_nothing_that_submitit_has_pickled_is_read() -> None:
    tree = ast.parse(Path(slurm.__file__).read_text())
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "done" in attributes and "submit" in attributes
    assert not attributes & {"result", "results", "exception", "load", "loads", "submission", "wait", "awaitable"}
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not names & {"pickle", "cloudpickle"}
