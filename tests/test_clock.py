"""The clock waits for the device, and says what each call took."""

import threading
import time

import pytest
import torch

from vitbench import clock as clock_module
from vitbench.clock import Clock

CPU = torch.device("cpu")


def test_it_waits_for_work_that_was_only_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that works on after the call has returned, as a GPU does: the launch alone takes no time."""
    running: list[threading.Thread] = []

    def launch() -> None:
        running.append(threading.Thread(target=time.sleep, args=(0.05,)))
        running[-1].start()

    def wait(_: torch.device) -> None:
        while running:
            running.pop().join()

    monkeypatch.setattr(clock_module, "synchronise", wait)
    lap = Clock(CPU, flush=False).lap(launch)
    assert lap.wall_ms >= 50 and lap.device_ms >= 50


def test_a_lap_is_the_mean_of_its_calls() -> None:
    calls: list[float] = []

    def work() -> None:
        time.sleep(0.03 if not calls else 0.01)
        calls.append(0)

    lap = Clock(CPU, flush=False).lap(work, calls=4)
    assert len(calls) == 4 and 15 <= lap.wall_ms < 60


@pytest.mark.gpu
@pytest.mark.parametrize("flush", [False, True])
def test_it_measures_the_kernel_and_not_the_launch_on_a_gpu(flush: bool) -> None:
    device = torch.device("cuda", 0)
    watch = Clock(device, flush=flush)
    x = torch.randn(4096, 4096, device=device)

    def long() -> None:
        for _ in range(20):
            torch.mm(x, x)

    watch.lap(long)
    lap = watch.lap(long)
    began = time.perf_counter()
    long()
    launch_ms = (time.perf_counter() - began) * 1000
    torch.cuda.synchronize()
    assert lap.device_ms > 3 * launch_ms and lap.wall_ms > 0.9 * lap.device_ms


@pytest.mark.gpu
def test_an_operator_of_many_launches_is_timed_without_them() -> None:
    """A hundred kernels of some microseconds each, which the host launches more slowly than the device runs them."""
    device = torch.device("cuda", 0)
    x = torch.randn(1024, device=device)

    def short() -> None:
        for _ in range(100):
            x.add_(1.0)

    plain, hidden = Clock(device, flush=False), Clock(device, flush=True)
    for watch in (plain, hidden):
        watch.lap(short)
    laps = [hidden.lap(short) for _ in range(5)]
    assert all(lap.hidden for lap in laps)
    assert plain.lap(short).hidden is None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        short()
    replays = [hidden.lap(graph.replay).device_ms for _ in range(5)]
    assert min(lap.device_ms for lap in laps) < 2.5 * min(replays)
    assert min(lap.device_ms for lap in laps) < min(lap.wall_ms for lap in laps)
