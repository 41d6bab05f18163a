"""Studies run by the command line, with real processes and real faults."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.runner.runs import VITBENCH, Runs, here, sets
from tests.small import SUITE
from vitbench.config.reading import read_suite
from vitbench.runner import device_kind
from vitbench.runner.backends.local import cores
from vitbench.runner.device_kind import is_cpu
from vitbench.runner.plan import plan
from vitbench.store import StudyFolder, TimeValues, TrainValues

WITHOUT_PROCESSES = """
import sys
from vitbench.runner import forked
def start(*_):
    raise AssertionError("a process with torch was started")
forked.start = start
from vitbench.cli.main import main
main(sys.argv[1:])
"""
TWO_ATTENTIONS = 'axes.attention=["sdpa", "triton"]'


def test_more_threads_than_cores_are_told_of_and_so_are_trials_of_earlier_runs(runs: Runs) -> None:
    few = runs.complete("--set", "train.seeds=[0, 1]", "--set", f"resources.cpus={cores() + 1}", "--only", "training")
    assert f"resources.cpus is {cores() + 1}, and here are {cores()} cores" in few
    fewer = runs.complete("--set", "train.seeds=[0]", "--only", "training")
    assert "1 of them finished before; the study keeps 1 more, of earlier runs" in fewer
    longer = runs.complete("--set", "train.seeds=[0]", "--set", "train.epochs=2", "--only", "training")
    assert "2 finished trials of earlier runs had other settings and left the study" in longer
    assert "left the study" not in fewer
    assert "resources.cpus" not in fewer


def test_what_is_asked_for_no_more_and_never_ran_is_counted(runs: Runs) -> None:
    two, one = ["--set", "train.seeds=[0, 1]", "--only", "training"], ["--set", "train.seeds=[1]", "--only", "training"]
    suite = read_suite(runs.suite, two[1:2], small=False, device="cpu")
    StudyFolder.start(runs.study, plan(suite, "cpu", kinds=("train",)))
    assert "notice: 1 trial of the earlier plan never ran and left the study" in runs.complete(*one)
    assert "never ran" not in runs.complete(*two)


def test_every_planned_trial_is_accounted_for_and_none_is_repeated(runs: Runs) -> None:
    arguments = ["--set", TWO_ATTENTIONS, "--set", "train.seeds=[0, 1]", "--set", "time.rounds=2"]
    runs.complete(*arguments)
    assert runs.states() == {"ok": 4, "unsupported": 3}
    study = StudyFolder.read(runs.study)
    assert {p.id for p in study.info.trials} == set(study.records())
    for record in runs.records():
        if record.state == "unsupported":
            assert record.reason == 'attention "triton" runs on cuda, not on cpu'
        assert record.environment is not None and record.environment.packages["torch"]
        assert record.state == "unsupported" or record.environment.device == "cpu" == record.trial.device
        assert os.uname().nodename not in record.to_json().replace(record.environment.cpu, "")
    trained = [r.values for r in runs.records() if isinstance(r.values, TrainValues)]
    timed = [r.values for r in runs.records() if isinstance(r.values, TimeValues)]
    assert len({v.test_loss for v in trained}) == 2 and all(len(v.processes) == 2 for v in timed)

    before = sorted(p.name for p in runs.study.glob("records/*"))
    by_default = ["--device", "auto"] if is_cpu("auto") else []
    alone = [*VITBENCH[:1], "-c", WITHOUT_PROCESSES, *runs.command(*arguments, *by_default)[3:]]
    done = subprocess.run(alone, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"a study that is over needs no process with torch: {done.stderr}"
    assert "7 of them finished before" in done.stdout
    assert sorted(p.name for p in runs.study.glob("records/*")) == before

    more = runs.run_here(*arguments, "--set", "train.seeds=[0, 1, 2]")
    assert "7 of them finished before" in more.stdout and len(runs.records()) == 8


def test_a_machine_that_may_have_a_gpu_is_not_taken_for_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_kind, "NODES", ("null",))  # every machine has /dev/null: it stands for a GPU's file
    assert is_cpu("cpu") and not is_cpu("auto") and not is_cpu("cuda")


def test_the_values_do_not_depend_on_the_workers_or_the_order(runs: Runs, tmp_path: Path) -> None:
    arguments = ["--set", "train.seeds=[0, 1, 2]"]
    runs.run_here(*arguments)
    other = Runs(tmp_path / "other")
    other.run_here("--set", "train.seeds=[2, 0, 1]", "--workers", "2")
    one = {r.trial_id: r.values for r in runs.records()}
    two = {r.trial_id: r.values for r in other.records()}
    assert one.keys() == two.keys()
    for trial_id, values in one.items():
        theirs = two[trial_id]
        assert isinstance(values, TrainValues) and isinstance(theirs, TrainValues)
        # Another number of threads adds in another order; the batches are the same to the bit.
        assert values.test_loss == pytest.approx(theirs.test_loss, rel=1e-4)
        assert values.batches_digest == theirs.batches_digest


def test_an_incorrect_component_gets_no_number(runs: Runs) -> None:
    path = runs.folder / "wrong.py"
    path.write_text(
        "from vitbench import component\nfrom vitbench.components.contracts import SelfAttention\n"
        '@component(slot="attention", name="wrong", exact=True, source="test")\nclass Wrong(SelfAttention):\n'
        '    """Zeros."""\n    def attend(self, q, k, v):\n        return v * 0\n'
    )
    done = runs.run_here("--plugin", str(path), "--set", 'axes.attention=["wrong", "sdpa"]', "--set", "time.rounds=1")
    assert runs.states() == {"incorrect": 3, "ok": 3} and done.returncode == 1  # trained once, timed in two modes
    assert all(r.values is None and "output: error" in r.reason for r in runs.records() if r.state == "incorrect")


def test_timing_alone_needs_no_data_and_joins_the_study(runs: Runs) -> None:
    fast = ["--set", "time.rounds=1", "--set", "time.iterations=2", "--set", "time.warmup=1"]
    command = ["time", str(runs.suite), "--results", str(runs.study), "--device", "cpu", *fast]
    timed = here(*command, "--set", "data.name=image_folder", "--set", "data.path=nowhere")
    assert timed.returncode == 0, timed.stderr
    assert {r.trial.kind for r in runs.records()} == {"time"} and len(runs.records()) == 2
    assert runs.run_here().returncode == 0  # the suite has no [time] table of its own: training only
    study = StudyFolder.read(runs.study)
    assert [p.trial.kind for p in study.info.trials] == ["train", "time", "time"]
    assert study.info.data_name == "synthetic" and len(runs.records()) == 3
    assert here(*command).returncode == 0
    assert len(runs.records()) == 3 and StudyFolder.read(runs.study).info.data_name == "synthetic"


def test_fallback_data_are_named_everywhere_and_never_mixed(runs: Runs, data_root: Path, lossless: Path) -> None:
    changes = ["--set", "data.name=cifar10", "--set", "data.fallback=synthetic"]
    done = runs.run_here(*changes)
    assert done.returncode == 0 and "synthetic images stand in for cifar10" in done.stdout
    study = StudyFolder.read(runs.study)
    assert study.info.fallback and study.info.data_name == "synthetic"
    assert all("stand in" in n for r in runs.records() for n in r.notices)
    assert all(r.trial.data.name == "synthetic" for r in runs.records() if r.trial.kind == "train")
    real = runs.run_here("--set", "data.name=image_folder", "--set", f"data.path={lossless}", "--set", "data.resize=16")
    assert real.returncode == 2 and "A study never mixes data" in real.stderr
    without = runs.run_here("--set", "data.name=cifar10")
    assert without.returncode == 2 and "set data.download = true" in without.stderr


def test_images_that_do_not_fit_are_refused_before_anything_runs(runs: Runs, lossless: Path) -> None:
    """What else does not fit: tests/test_bad_input_runs.py."""
    message = "model.image_size: 16×16, but the images of cifar10-lossless-6k are 32×32; set data.resize = 16"
    runs.suite.write_text(SUITE.replace("resize = 16\n", ""))
    done = runs.run_here(*sets("data.name=image_folder", f"data.path={lossless}", "data.train_images=200"))
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not runs.study.exists()
