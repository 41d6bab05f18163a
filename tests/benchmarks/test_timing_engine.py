"""Can the timing be believed? On a machine whose cores are all busy: a slowdown of 10 % is found, and none is not.

Twenty runs of each, as `vitbench time` makes them: fresh processes, interleaved rounds, the interval of the ratio.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from vitbench.analysis import timings
from vitbench.clock import Clock
from vitbench.config.base import digest
from vitbench.store import Samples, TimeValues
from vitbench.timing.rounds import calls_for, interleave, warm_up

RUNS = 20
PROCESSES = 3
ROUNDS = 80
WORK = 20  # Matrix products of one call; the planted slowdown does two more


@pytest.fixture
def busy() -> Iterator[None]:
    """As many processes that compute without end as there are cores."""
    code = "import torch\ntorch.set_num_threads(1)\nx = torch.randn(256, 256)\nwhile True: x @ x"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    yield
    for other in others:
        other.kill()
        other.wait()


def one_process(job: tuple[int, int]) -> dict[str, list[float]]:
    """Milliseconds of the baseline, of the baseline once more, and of the slowed one, round by round."""
    run, process = job
    torch.set_num_threads(1)
    x = torch.randn(160, 160)

    def work(products: int) -> None:
        for _ in range(products):
            x @ x

    calls = {"baseline": lambda: work(WORK), "same": lambda: work(WORK), "slower": lambda: work(WORK + WORK // 10)}
    clock = Clock(torch.device("cpu"), flush=False)
    warmth = [warm_up(call, clock, least=5, budget_s=1.0) for call in calls.values()]
    repeat = calls_for(min(w.last_ms for w in warmth), clock)
    seed = int(digest([run, process]), 16)
    laps = interleave(calls, clock, rounds=ROUNDS, seed=seed, repeat=repeat)
    return {name: [lap.device_ms for lap in of] for name, of in laps.items()}


def ratio(laps: list[dict[str, list[float]]], name: str) -> timings.Measurement:
    processes = tuple(
        Samples(
            latencies_ms=tuple(f[name]), baseline_ms=tuple(f["baseline"]), control_ms=tuple(f["same"]), first_ms=0.0
        )
        for f in laps
    )
    values = TimeValues(
        latency_ms_p50=1.0, latency_ms_p25=1.0, latency_ms_p75=1.0, process_ms_min=1.0, process_ms_max=1.0,
        images_per_s=1.0, first_ms=1.0, peak_memory_mib=0.0, parameters=0, forward_flops=0, processes=processes,
    )  # fmt: skip
    interval = timings.ratio(values)
    assert interval is not None
    return interval


@pytest.mark.usefixtures("busy")
def test_ten_percent_is_found_and_nothing_is_not(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    context = multiprocessing.get_context("forkserver")

    def one_run(run: int) -> tuple[timings.Measurement, timings.Measurement]:
        laps = []
        for process in range(PROCESSES):
            with context.Pool(1) as pool:
                laps.append(pool.apply(one_process, ((run, process),)))
        return ratio(laps, "same"), ratio(laps, "slower")

    benchmark.group = f"a run: {PROCESSES} processes of {ROUNDS} rounds of three variants, all cores busy"
    intervals: list[tuple[timings.Measurement, timings.Measurement]] = []
    benchmark.pedantic(lambda: intervals.append(one_run(len(intervals))), rounds=RUNS, iterations=1)
    quiet = sum(same.holds(1.0) for same, _ in intervals)
    slowdowns = sum(slower.low > 1.0 for _, slower in intervals)
    widths = sorted(same.half_width for same, _ in intervals)
    estimates = sorted(slower.estimate for _, slower in intervals)
    with capsys.disabled():
        print(  # noqa: T201
            f"\nA/A pairs not flagged: {quiet} of {RUNS}; slowdowns of 10 % found: {slowdowns} of {RUNS} "
            f"(estimates {estimates[0]:.3f} to {estimates[-1]:.3f}; half-width of an A/A interval: "
            f"median {100 * widths[RUNS // 2]:.1f} %, largest {100 * widths[-1]:.1f} %)"
        )
    assert quiet >= 19 and slowdowns >= 19
