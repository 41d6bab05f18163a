"""Timing a setting: processes are added until intervals are narrow, and what is kept of a setting that was stopped."""

import functools
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.runner.runs import planned
from tests.small import SUITE
from vitbench.analysis.axis_speeds import widest
from vitbench.config.trial import TimeTrial
from vitbench.runner.messages import Request
from vitbench.runner.panels import TimingSetting
from vitbench.runner.process import Outcome, Say
from vitbench.store import Samples, TimeValues
from vitbench.timing.values import Alone, Panel, Sizes

AXES = '\n[axes]\nattention = ["batched", "sdpa", "per_head"]\nnorm = ["pre", "post"]\n'
TIMES = "[time]\nmodes = ['inference']\nrounds = 3\nrounds_most = 6\niterations = 5\nwithin = 0.03\n"


class Canned:
    """Workers whose processes differ in how fast ``sdpa`` is, by so much, beside so many threads of others."""

    def __init__(self, luck: float, foreign: float, stopped_at: int | None = None) -> None:
        self.luck, self.foreign, self.stopped_at = luck, foreign, stopped_at

    def run(self, requests: Iterator[Request], say: Say) -> Iterator[Outcome]:
        for request in requests:
            if request.task == "alone":
                sizes = Sizes(parameters=1, forward_flops=1, flops=1, bytes=1)
                body = Alone(sizes=sizes, first_ms=1.0, peak_memory_mib=1.0, peak_reserved_mib=None,
                             energy_mj_per_image=None, largest_batch=None).model_dump(mode="json")  # fmt: skip
            elif request.process == self.stopped_at:
                yield Outcome(request, "interrupted", datetime.now(UTC), 1.0)
                return
            else:
                body = Panel(samples={t.id: self.samples(t, request.process) for t in request.panel},
                             ceilings={"flops_per_s": 1.0, "bytes_per_s": 1.0}).model_dump(mode="json")  # fmt: skip
            yield Outcome(request, "ok", datetime.now(UTC), 1.0, values=body)

    def samples(self, trial: TimeTrial, process: int) -> Samples:
        chance = random.Random(f"{trial.id} {process}")
        base = 10.0 * (1 + self.luck * (process % 2)) if trial.model.attention == "sdpa" else 10.0
        latencies = tuple(base * chance.uniform(0.999, 1.001) for _ in range(5))
        return Samples(latencies_ms=latencies, baseline_ms=(10.0,) * 5, control_ms=(10.0,) * 5, first_ms=1.0,
                       foreign_threads=self.foreign)  # fmt: skip


@pytest.mark.parametrize(
    ("luck", "foreign", "stopped_at", "processes"),
    [
        (0.0, 0.0, None, 3),  # narrow at once
        (0.1, 0.0, None, 6),  # processes differ by 10 %: as many as there may be
        (0.1, 2.0, None, 3),  # on a machine with other work no more than asked for
        (0.1, 0.0, 4, 4),  # stopped on the way: what all cells have is kept
        (0.0, 0.0, 1, None),  # stopped before that: nothing is
    ],
)
def test_processes_are_added_until_the_intervals_are_narrow(
    luck: float, foreign: float, stopped_at: int | None, processes: int | None, tmp_path: Path
) -> None:
    info = planned(tmp_path, SUITE + AXES + TIMES, kinds=["time"])
    trials = [p.trial for p in info.trials if isinstance(p.trial, TimeTrial)]
    kept: dict[str, TimeValues | None] = {}
    TimingSetting(
        Canned(luck, foreign, stopped_at),
        lambda trial, task, panel=(), process=0: Request(
            task=task, trial=trial, timeout_s=9.0, panel=panel, process=process
        ),
        lambda *_: None,
        lambda trial, outcome, values: kept.__setitem__(trial.id, values),
        functools.partial(widest, info),
        trials,
        None,
    ).run()
    counts = {None if values is None else len(values.processes) for values in kept.values()}
    assert counts == {processes} and len(kept) == 6
