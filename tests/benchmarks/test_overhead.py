"""What the harness adds to a trial: claim, process, reply, record. The trials themselves do nothing."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Literal

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rich.console import Console

from tests.small import SUITE
from vitbench.cli.progress import LiveReporter
from vitbench.config import read_suite
from vitbench.config.suite import Resources
from vitbench.runner.driver import Driver
from vitbench.runner.launchers.sites import Places, Site, Workers
from vitbench.runner.plan import plan
from vitbench.runner.process import Stop
from vitbench.runner.run import launcher_of
from vitbench.runner.session import Session
from vitbench.store import Claims, PlannedTrial, Study, Trials

TRIALS = 100
WARM = 10
"""Trials before the clock counts: the fork server, or the cluster, starts."""


class Idle(Driver):
    """A driver whose trials do nothing."""

    ended: list[float]

    def train(self, workers: Workers, pending: list[PlannedTrial], task: Literal["train", "tune"]) -> None:
        self.ended = []
        requests = (self.request(p.trial, "nothing") for p in self.claimed(pending))
        for outcome in workers.run(requests, self.say):
            assert outcome.state == "ok", outcome
            self.keep(self.session.trials.of_id(outcome.request.trial.id), outcome, None)
            self.ended.append(time.perf_counter())


@pytest.mark.parametrize("launcher", ["local", "ray"])
def test_the_overhead_of_a_trial(launcher: str, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """``extra_info`` has milliseconds a trial, one at a time: median of the intervals between ends, and their mean."""
    if launcher == "ray":
        pytest.importorskip("ray")
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    suite = read_suite(path, [f"train.seeds={list(range(TRIALS + WARM))}"])
    site = Site(tmp_path / "study", "cpu", 1, Resources(cpus=1), Stop(), lambda text: None)

    def measure() -> list[float]:
        info = plan(suite, "cpu")
        study = Study.start(site.study, info)
        with launcher_of(launcher, site) as places, Claims(site.study / "claims") as claims:
            (site.study / "checkpoints").mkdir()
            reporter = LiveReporter(Console(quiet=True))
            session = Session(study, Trials.of(info.trials), reporter, lambda _: info, site.stop, {})
            driver = Idle(session, as_places(places), claims)
            driver.run()
        return driver.ended

    ended = benchmark.pedantic(measure, rounds=1)
    assert len(ended) == TRIALS + WARM == len(list((site.study / "records").glob("*.json")))
    intervals = [(b - a) * 1000 for a, b in zip(ended[WARM - 1 :], ended[WARM:], strict=False)]
    benchmark.extra_info["ms_per_trial_p50"] = round(statistics.median(intervals), 1)
    benchmark.extra_info["ms_per_trial_mean"] = round(statistics.fmean(intervals), 1)


def as_places(launcher: object) -> Places:
    """Both of these launchers are places of a driver in this process."""
    assert hasattr(launcher, "training")
    return launcher
