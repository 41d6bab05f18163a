"""Threads that share their cores spin no longer than a moment, and compute the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.conftest import REPOSITORY
from vitbench.runner.spinning import SHORT, VARIABLE
from vitbench.store import Study, TrainValues

SUITE = """
[suite]
name = "spun"
question = "?"
[model]
dim = 32
depth = 1
heads = 2
[data]
name = "synthetic"
train_images = 128
test_images = 64
[train]
epochs = 1
batch_size = 64
seeds = 2
"""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Other processes, as many as that, that want a core each."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def ran(folder: Path, **variables: str) -> Study:
    suite = folder / "spun.toml"
    folder.mkdir()
    suite.write_text(SUITE)
    given = {k: v for k, v in os.environ.items() if k not in (VARIABLE, "OMP_WAIT_POLICY")} | variables
    command = [sys.executable, "-m", "vitbench", "run", str(suite), "--results", str(folder / "study")]
    subprocess.run(command, env=given, cwd=REPOSITORY, check=True, capture_output=True, timeout=300)
    return Study.read(folder / "study")


def spins(study: Study) -> set[str | None]:
    return {r.environment.spins for records in study.records().values() for r in records if r.environment}


def losses(study: Study) -> dict[str, float]:
    return {
        r.trial_id: r.values.epochs[-1].train_loss
        for records in study.records().values() for r in records if isinstance(r.values, TrainValues)
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif((psutil.cpu_count() or 1) < 2, reason="one core has no two threads to wait for one another")
def test_beside_busy_processes_threads_sleep_soon_and_results_are_the_same(tmp_path: Path) -> None:
    with busy(psutil.cpu_count() or 1):
        shared = ran(tmp_path / "shared")
        chosen = ran(tmp_path / "chosen", **{VARIABLE: "10000"})
    assert spins(shared) == {SHORT}
    assert spins(chosen) == {"10000"}, "what the user says stays"
    assert losses(shared) == losses(chosen) and len(losses(shared)) == 2
