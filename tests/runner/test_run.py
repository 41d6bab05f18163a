"""Studies run by the command line, with real processes and real faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.small import SUITE
from vitbench.store import Record, Study, TimeValues, TrainValues

VITBENCH = [sys.executable, "-m", "vitbench"]
TWO_ATTENTIONS = 'axes.attention=["sdpa", "triton"]'

PLUGIN = '''
import os, pathlib, signal, time
import torch
from vitbench import component
from vitbench.components.contracts import MLP

STARTS = pathlib.Path({starts!r})

@component(slot="mlp", name="faulty", source="test")
class Faulty(MLP):
    """Does harm."""
    def activate(self, hidden):
        if hidden.is_meta:
            return hidden
        (STARTS / str(os.getpid())).touch()
        {body}
        return hidden.relu()
'''


class Runs:
    """A suite in a folder, run again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.study = folder, folder / "study"
        self.suite = folder / "small.toml"
        self.suite.write_text(SUITE)
        self.starts, self.log = folder / "starts", folder / "log"
        self.starts.mkdir()

    def plugin(self, body: str) -> list[str]:
        path = self.folder / "faulty.py"
        path.write_text(PLUGIN.format(starts=str(self.starts), body=body))
        return ["--plugin", str(path)]

    def command(self, *arguments: str) -> list[str]:
        return [*VITBENCH, "run", str(self.suite), "--results", str(self.study), "--device", "cpu", *arguments]

    def run(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=timeout, check=False)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        with self.log.open("wb") as log:
            return subprocess.Popen(self.command(*arguments), stdout=log, stderr=subprocess.STDOUT, text=True)

    def records(self) -> list[Record]:
        return [r for attempts in Study.read(self.study).records().values() for r in attempts]

    def states(self) -> Counter[str]:
        return Counter(r.state for r in self.records())

    def wait_for(self, count: int) -> None:
        """Until so many records are on disk."""
        deadline = time.monotonic() + 60
        while len(list(self.study.glob("records/*.json"))) < count:
            assert time.monotonic() < deadline, "no record in time"
            time.sleep(0.02)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def living(pids: set[int]) -> list[int]:
    return [p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]


def all_end(pids: set[int], within_s: float = 10.0) -> bool:
    """Whether all of these processes are gone soon: the fork server needs a moment to see that its driver is."""
    deadline = time.monotonic() + within_s
    while living(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not living(pids)


def descendants(process: subprocess.Popen[str]) -> set[int]:
    return {c.pid for c in psutil.Process(process.pid).children(recursive=True)}


def test_every_planned_trial_is_accounted_for_and_none_is_repeated(runs: Runs) -> None:
    arguments = ["--set", TWO_ATTENTIONS, "--set", "train.seeds=[0, 1]", "--set", "time.rounds=2"]
    first = runs.run(*arguments)
    assert first.returncode == 0, first.stdout + first.stderr
    assert runs.states() == {"ok": 4, "unsupported": 4}
    study = Study.read(runs.study)
    assert {p.id for p in study.info.trials} == set(study.records())
    for record in runs.records():
        if record.state == "unsupported":
            assert record.reason == 'attention "triton" runs on cuda, not on cpu'
        assert record.environment is not None and record.environment.packages["torch"]
        assert os.uname().nodename not in record.to_json().replace(record.environment.cpu, "")
    trained = [r.values for r in runs.records() if isinstance(r.values, TrainValues)]
    timed = [r.values for r in runs.records() if isinstance(r.values, TimeValues)]
    assert len({v.test_loss for v in trained}) == 2 and all(len(v.processes) == 2 for v in timed)

    before = sorted(p.name for p in runs.study.glob("records/*"))
    second = runs.run(*arguments)
    assert second.returncode == 0 and "8 of them finished before" in second.stdout
    assert sorted(p.name for p in runs.study.glob("records/*")) == before

    more = runs.run(*arguments, "--set", "train.seeds=[0, 1, 2]")
    assert "8 of them finished before" in more.stdout and len(runs.records()) == 10


def test_after_sigkill_no_finished_trial_is_repeated_and_no_process_is_left(runs: Runs) -> None:
    arguments = ["--set", "train.seeds=[0, 1, 2, 3, 4, 5]", "--set", "train.epochs=2"]
    driver = runs.start(*arguments)
    runs.wait_for(2)
    children = descendants(driver)
    driver.kill()
    driver.wait()
    finished = {r.trial_id: r for r in runs.records()}
    assert 2 <= len(finished) < 6 and set(runs.states()) == {"ok"}
    assert all_end(children), "processes outlived the driver"

    assert runs.run(*arguments).returncode == 0
    records = runs.records()
    assert len(records) == 6 == len({r.trial_id for r in records})
    assert all(r == finished[r.trial_id] for r in records if r.trial_id in finished)


def test_the_values_do_not_depend_on_the_workers_or_the_order(runs: Runs, tmp_path: Path) -> None:
    arguments = ["--set", "train.seeds=[0, 1, 2]"]
    runs.run(*arguments)
    other = Runs(tmp_path / "other") if (tmp_path / "other").mkdir() is None else runs
    other.run("--set", "train.seeds=[2, 0, 1]", "--workers", "2")
    one = {r.trial_id: r.values for r in runs.records()}
    two = {r.trial_id: r.values for r in other.records()}
    assert one.keys() == two.keys()
    for trial_id, values in one.items():
        theirs = two[trial_id]
        assert isinstance(values, TrainValues) and isinstance(theirs, TrainValues)
        # Another number of threads adds in another order; the batches are the same to the bit.
        assert values.test_loss == pytest.approx(theirs.test_loss, rel=1e-4)
        assert values.batches_digest == theirs.batches_digest


@pytest.mark.parametrize(
    ("body", "state", "reason", "tries"),
    [
        ("raise RuntimeError('out of luck')", "failed", "RuntimeError: out of luck", 2),
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed", "killed by signal 9 (SIGKILL)", 2),
        ("os._exit(3)", "crashed", "ended with exit status 3 and no result", 2),
        ("raise torch.OutOfMemoryError('CUDA out of memory')", "oom", "batch 50", 1),
        ("torch.empty(1 << 60)", "oom", "batch 50", 1),
        ("return hidden * float('nan')", "diverged", "not finite by step", 1),
    ],
)
def test_a_fault_is_a_word_and_costs_one_trial(runs: Runs, body: str, state: str, reason: str, tries: int) -> None:
    done = runs.run(*runs.plugin(body), "--set", 'axes.mlp=["faulty", "gelu"]')
    assert done.returncode == 1, done.stdout + done.stderr
    assert runs.states() == {state: tries, "ok": 1}
    bad = [r for r in runs.records() if r.state == state]
    assert all(reason in r.reason for r in bad), bad
    assert [r.attempt for r in sorted(bad, key=lambda r: r.attempt)] == list(range(1, tries + 1))
    if state == "failed":
        assert "out of luck" in bad[0].details and "faulty.py" in bad[0].details
    assert len(list(runs.starts.iterdir())) == tries
    assert reason.splitlines()[0] in done.stdout
    again = runs.run(*runs.plugin(body), "--set", 'axes.mlp=["faulty", "gelu"]')
    assert again.returncode == 1 and len(list(runs.starts.iterdir())) == tries, "a poison trial is tried for ever"


def test_a_hung_trial_ends_with_its_children(runs: Runs) -> None:
    body = f"import subprocess; c = subprocess.Popen(['sleep', '600']); (STARTS / str(c.pid)).touch(); time.sleep(600)"  # noqa: F541
    began = time.monotonic()
    done = runs.run(*runs.plugin(body), "--set", "model.mlp=faulty", "--set", "suite.timeout_s=4.0")
    assert done.returncode == 1 and runs.states() == {"timeout": 1}
    assert "still running after" in runs.records()[0].reason
    assert time.monotonic() - began < 60
    pids = {int(p.name) for p in runs.starts.iterdir()}
    assert len(pids) == 2 and not living(pids)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_the_study_cleanly(runs: Runs, number: signal.Signals, status: int) -> None:
    arguments = [*runs.plugin("time.sleep(600)"), "--set", 'axes.mlp=["gelu", "faulty"]']
    driver = runs.start(*arguments)
    deadline = time.monotonic() + 60
    while not list(runs.starts.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    children = descendants(driver)
    began = time.monotonic()
    driver.send_signal(number)
    driver.wait(timeout=30)
    output = runs.log.read_text()
    assert driver.returncode == status and time.monotonic() - began < 15, output
    assert runs.states() == {"ok": 1, "interrupted": 1}
    assert "the same command goes on from here" in output and "Traceback" not in output
    assert all_end(children)
    (runs.folder / "faulty.py").write_text(PLUGIN.format(starts=str(runs.starts), body="pass"))
    assert runs.run(*arguments).returncode == 0
    assert runs.states() == {"ok": 2, "interrupted": 1}


def test_an_incorrect_component_gets_no_number(runs: Runs) -> None:
    path = runs.folder / "wrong.py"
    path.write_text(
        "from vitbench import component\nfrom vitbench.components.contracts import SelfAttention\n"
        '@component(slot="attention", name="wrong", exact=True, source="test")\nclass Wrong(SelfAttention):\n'
        '    """Zeros."""\n    def attend(self, q, k, v):\n        return v * 0\n'
    )
    done = runs.run("--plugin", str(path), "--set", 'axes.attention=["wrong", "sdpa"]', "--set", "time.rounds=1")
    assert runs.states() == {"incorrect": 3, "ok": 3} and done.returncode == 1  # trained once, timed in two modes
    assert all(r.values is None and "output: error" in r.reason for r in runs.records() if r.state == "incorrect")


def test_timing_alone_needs_no_data_and_joins_the_study(runs: Runs) -> None:
    fast = ["--set", "time.rounds=1", "--set", "time.iterations=2", "--set", "time.warmup=1"]
    command = [*VITBENCH, "time", str(runs.suite), "--results", str(runs.study), "--device", "cpu", *fast]
    nowhere = ["--set", "data.name=image_folder", "--set", "data.path=nowhere"]
    timed = subprocess.run([*command, *nowhere], capture_output=True, text=True, timeout=120, check=False)
    assert timed.returncode == 0, timed.stderr
    assert {r.trial.kind for r in runs.records()} == {"time"} and len(runs.records()) == 2
    assert runs.run().returncode == 0  # the suite has no [time] table of its own: training only
    study = Study.read(runs.study)
    assert [p.trial.kind for p in study.info.trials] == ["train", "time", "time"]
    assert study.info.data_name == "synthetic" and len(runs.records()) == 3
    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0
    assert len(runs.records()) == 3 and Study.read(runs.study).info.data_name == "synthetic"


def test_fallback_data_are_named_everywhere_and_never_mixed(runs: Runs, data_root: Path, lossless: Path) -> None:
    changes = ["--set", "data.name=cifar10", "--set", "data.fallback=synthetic"]
    done = runs.run(*changes)
    assert done.returncode == 0 and "synthetic images stand in for cifar10" in done.stdout
    study = Study.read(runs.study)
    assert study.info.fallback and study.info.data_name == "synthetic"
    assert all("stand in" in n for r in runs.records() for n in r.notices)
    assert all(r.trial.data.name == "synthetic" for r in runs.records() if r.trial.kind == "train")
    real = runs.run("--set", "data.name=image_folder", "--set", f"data.path={lossless}", "--set", "data.resize=16")
    assert real.returncode == 2 and "A study never mixes data" in real.stderr
    without = runs.run("--set", "data.name=cifar10")
    assert without.returncode == 2 and "set data.download = true" in without.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "model.image_size: 16×16, but the images of cifar10-lossless-6k are 32×32; set data.resize = 16"),
        ({"data.resize": 16, "data.train_images": 6000}, "data.train_images: 6000, but cifar10-lossless-6k has 5000"),
        ({"data.resize": 16, "model.num_classes": 7}, "model.num_classes: 7, but cifar10-lossless-6k has 10 classes"),
        ({"data.resize": 16, "data.train_images": 40}, "data.validation_images: 40 leaves nothing of 40 training"),
    ],
)
def test_images_that_do_not_fit_are_refused_before_anything_runs(
    runs: Runs, lossless: Path, changes: dict[str, object], message: str
) -> None:
    runs.suite.write_text(SUITE.replace("resize = 16\n", ""))
    given = {"data.name": "image_folder", "data.path": lossless, "data.train_images": 200, **changes}
    done = runs.run(*(text for key, value in given.items() for text in ("--set", f"{key}={value}")))
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not runs.study.exists()


def test_a_record_is_json_that_anyone_can_read(runs: Runs) -> None:
    runs.run()
    (file,) = runs.study.glob("records/*.json")
    body = json.loads(file.read_text())["record"]
    assert body["state"] == "ok" and body["values"]["epochs"][0]["train_loss"] > 0
    assert body["environment"]["packages"]["torch"] and body["environment"]["code"]
