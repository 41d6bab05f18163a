"""Threads that share their cores spin no longer than a moment, and compute the same."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.runner.runs import Runs, busy
from vitbench.runner.sharing import entitled
from vitbench.runner.spinning import SHORT, VARIABLE
from vitbench.store import Record, TrainValues


def ran(folder: Path) -> list[Record]:
    """Records of two trials, run by a process of their own."""
    runs = Runs(folder)
    assert runs.run("--set", "train.seeds=2").returncode == 0
    return runs.records()


def spins(records: list[Record]) -> set[str | None]:
    return {r.environment.spins for r in records if r.environment}


def losses(records: list[Record]) -> dict[str, float]:
    return {r.trial_id: r.values.epochs[-1].train_loss for r in records if isinstance(r.values, TrainValues)}


TOGETHER = """
import os, time, torch
from vitbench.runner.sharing import sharing
threads = os.cpu_count()
torch.set_num_threads(threads)
matrix, seen = torch.randn(300, 300), set()
input("loaded\\n")
with sharing(threads):
    end = time.monotonic() + 4
    while time.monotonic() < end:
        matrix.mm(matrix)
        seen.add(len(os.sched_getaffinity(0)))
print(min(seen), len(os.sched_getaffinity(0)), threads)
"""


def test_threads_that_share_their_cores_are_kept_together_until_the_work_is_done() -> None:
    command = [sys.executable, "-c", TOGETHER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "loaded\n"
        with busy(2 * (psutil.cpu_count() or 1)):
            out, _ = process.communicate("\n", timeout=60)
    fewest, after, cores = map(int, out.split())
    assert fewest < cores == after or cores == 1


def test_cores_that_threads_get() -> None:
    """By how long they ran and waited: two that waited half of the time get one core; one that has ended counts not."""
    before = {1: (0, 0), 2: (0, 0), 3: (0, 0)}
    assert entitled(before, {1: (50, 50), 2: (50, 50)}, 2) == 1
    assert entitled(before, {1: (90, 10), 2: (95, 0)}, 2) == 2
    assert entitled(before, dict.fromkeys(before, (50, 50)), 8) == 4
    assert entitled(before, {1: (5, 95)}, 4) == 1 and entitled({}, {}, 4) == 4


@pytest.mark.slow
@pytest.mark.skipif((psutil.cpu_count() or 1) < 2, reason="one core has no two threads to wait for one another")
def test_beside_busy_processes_threads_sleep_soon_and_results_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (VARIABLE, "OMP_WAIT_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    with busy(psutil.cpu_count() or 1):
        shared = ran(tmp_path / "shared")
        monkeypatch.setenv(VARIABLE, "10000")
        chosen = ran(tmp_path / "chosen")
    assert spins(shared) == {SHORT}
    assert spins(chosen) == {"10000"}, "what the user says stays"
    assert losses(shared) == losses(chosen) and len(losses(shared)) == 2
