"""What the harness adds to a trial: lease, process, reply, record. The trials themselves do nothing."""

from __future__ import annotations

import pkgutil
import statistics
import time
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
from vitbench.runner.session import Session
from vitbench.store import Leases, PlannedTrial, StudyFolder, Trials

TRIALS = 100
WARM = 10
"""Trials before the clock counts: the fork server, or the cluster, starts."""


class Idle(Driver):
    """A driver whose trials do nothing."""

    ended: list[float]

    def train(self, workers: Workers, pending: list[PlannedTrial], task: Literal["train", "tune"]) -> None:
        self.ended = []
        requests = (self.request(p.trial, "nothing") for p in self.taken(pending))
        for outcome in workers.run(requests, self.say):
            assert outcome.state == "ok", outcome
            self.keep(self.session.trials.of_id(outcome.request.trial.id), outcome, None)
            self.ended.append(time.perf_counter())


@pytest.mark.parametrize("name", ["local", "ray"])
def test_the_overhead_of_a_trial(name: str, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """``extra_info`` has milliseconds a trial, one at a time: median of the intervals between ends, and their mean."""
    if name == "ray":
        pytest.importorskip("ray")
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    suite = read_suite(path, [f"train.seeds={list(range(TRIALS + WARM))}"])
    options = BackendOptions(tmp_path / "study", "cpu", 1, Resources(cpus=1), Stop(), lambda text: None)

    def measure() -> list[float]:
        info = plan(suite, "cpu")
        study = StudyFolder.start(options.study, info)
        open_backend = pkgutil.resolve_name(BACKENDS[name][0])
        with closing(open_backend(options)) as backend, Leases(options.study / "claims") as leases:
            (options.study / "checkpoints").mkdir()
            reporter = LiveReporter(Console(quiet=True))
            session = Session(study, Trials.of(info.trials), reporter, lambda _: info, options.stop, {})
            driver = Idle(session, backend, leases)
            driver.run()
        return driver.ended

    ended = benchmark.pedantic(measure, rounds=1)
    assert len(ended) == TRIALS + WARM == len(list((options.study / "records").glob("*.json")))
    intervals = [(b - a) * 1000 for a, b in zip(ended[WARM - 1 :], ended[WARM:], strict=False)]
    benchmark.extra_info["ms_per_trial_p50"] = round(statistics.median(intervals), 1)
    benchmark.extra_info["ms_per_trial_mean"] = round(statistics.fmean(intervals), 1)
