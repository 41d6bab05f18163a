"""What a harness adds to a trial: this one beside others, over trials that do nothing, one at a time.

Hydra and Optuna are no dependency: without ``pip install hydra-core optuna`` their rows are skipped.
"""

import itertools
import pkgutil
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rich.console import Console

from tests.small import SUITE
from vitbench.cli.progress import LiveReporter
from vitbench.config import read_suite
from vitbench.config.suite import Resources
from vitbench.runner.backends.backend import BackendOptions, Workers
from vitbench.runner.driver import Driver
from vitbench.runner.plan import plan
from vitbench.runner.process import Stop
from vitbench.runner.run import BACKENDS
from vitbench.runner.session import Analysis, Session
from vitbench.store import Leases, StudyFolder, Trials

TRIALS = 200
WARM = 10  # Trials before the clock counts: a fork server, or a cluster, starts
COUNT = TRIALS + WARM

NO_ANALYSIS = Analysis(lambda _: {}, lambda info, processes: 0.0)  # The suite has no looks and no timings


class Idle(Driver):
    """A driver whose trials do nothing."""

    ended: list[float]

    def train(self, workers: Workers, pending: Trials, task: Literal["train", "tune"]) -> None:
        self.ended = []
        requests = (self.request(p.trial, "nothing") for p in self.taken(pending))
        for outcome in workers.run(requests, self.say):
            assert outcome.state == "ok", outcome
            self.keep(outcome.request.trial, outcome)
            self.ended.append(time.time())


def vitbench(folder: Path, backend_name: str = "local") -> list[float]:
    """A lease, a process, a reply and a record for each trial."""
    path = folder / "small.toml"
    path.write_text(SUITE)
    suite = read_suite(path, [f"train.seeds={list(range(COUNT))}"])
    options = BackendOptions(
        "cpu", 1, study=folder / "study", resources=Resources(cpus=1), stop=Stop(), say=lambda text: None
    )
    info = plan(suite, "cpu")
    study = StudyFolder.start(options.study, info)
    open_backend = pkgutil.resolve_name(BACKENDS[backend_name][0])
    with closing(open_backend(options)) as backend, Leases(options.study / "leases") as leases:
        (options.study / "checkpoints").mkdir()
        reporter = LiveReporter(Console(quiet=True))
        session = Session(study, info.trials, lambda _: info, options, reporter, NO_ANALYSIS, options.stop, {})
        driver = Idle(session, backend, leases)
        driver.run()
    assert len(list((options.study / "records").glob("*.json"))) == COUNT
    return driver.ended


def vitbench_on_ray(folder: Path) -> list[float]:
    """As ``vitbench``, on Ray's processes."""
    pytest.importorskip("ray")
    return vitbench(folder, "ray")


def ray_tasks(folder: Path) -> list[float]:
    """A task of Ray for each trial, each in a process of its own; results are in memory."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

    @ray.remote(max_calls=1)  # type: ignore[untyped-decorator]
    def task() -> float:
        return time.time()

    ended = [ray.get(task.remote()) for _ in range(COUNT)]
    ray.shutdown()
    return ended


def submitit_local(folder: Path) -> list[float]:
    """A Python process for each trial, as submitit's local executor starts it; its result is a file."""
    submitit = pytest.importorskip("submitit")
    executor = submitit.LocalExecutor(folder=folder / "jobs")
    return [executor.submit(time.time).result() for _ in range(COUNT)]


HYDRA = """
import hydra, pathlib, time
@hydra.main(version_base=None)
def trial(config):
    with open({ends!r}, "a") as file:
        print(time.time(), file=file)
trial()
"""


def hydra_basic(folder: Path) -> list[float]:
    """Hydra's basic launcher: trials in one process, a folder with the configuration of each."""
    pytest.importorskip("hydra")
    script, ends = folder / "script.py", folder / "ends"
    script.write_text(HYDRA.format(ends=str(ends)))
    numbers = ",".join(map(str, range(COUNT)))
    subprocess.run([sys.executable, script, "--multirun", f"+seed={numbers}"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    return [float(line) for line in ends.read_text().splitlines()]


def optuna_sqlite(folder: Path) -> list[float]:
    """Optuna with a SQLite file: trials in one process, a row of the database for each."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=f"sqlite:///{folder / 'study.db'}", sampler=optuna.samplers.RandomSampler())
    ended: list[float] = []

    def trial(asked: object) -> float:
        ended.append(time.time())
        return 0.0

    study.optimize(trial, n_trials=COUNT)
    return ended


OURS, CHILD = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN

HARNESSES: Mapping[str, tuple[Callable[[Path], list[float]], int]] = {
    "vitbench": (vitbench, OURS),
    "vitbench on Ray": (vitbench_on_ray, OURS),
    "Ray, a process a task": (ray_tasks, OURS),
    "submitit, local": (submitit_local, OURS),
    "Hydra, basic launcher": (hydra_basic, CHILD),
    "Optuna, SQLite": (optuna_sqlite, OURS),
}
"""Name → what runs its trials and gives the times at which they ended, and in which process its driver is."""


def processor_seconds(whose: int) -> float:
    """Processor time of this process, or of its children that have ended, seconds."""
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("name", HARNESSES)
def test_the_overhead_of_a_trial(name: str, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """``extra_info`` has milliseconds a trial, one at a time: median of the intervals between ends, their mean, and the
    processor time of the driver, its start and end shared among the trials."""
    harness, whose = HARNESSES[name]
    used = processor_seconds(whose)
    ended = benchmark.pedantic(harness, (tmp_path,), rounds=1)
    driver = (processor_seconds(whose) - used) * 1000 / COUNT
    assert len(ended) == COUNT
    intervals = [(after - before) * 1000 for before, after in itertools.pairwise(ended[WARM - 1 :])]
    median, mean = statistics.median(intervals), statistics.fmean(intervals)
    benchmark.extra_info |= {"ms_per_trial_p50": round(median, 1), "ms_per_trial_mean": round(mean, 1)}
    benchmark.extra_info["driver_cpu_ms_per_trial"] = round(driver, 1)
    benchmark.extra_info["ratio"] = f"{name}: {median:.1f} ms a trial (mean {mean:.1f}), its driver {driver:.1f}"
