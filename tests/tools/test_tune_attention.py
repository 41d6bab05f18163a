"""The tuning run: what it tries, what it calls a winner, and what it says on a machine without a GPU."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import vitbench
from tools import tune_attention
from tools.attention_candidates import candidates
from tools.tune_attention import CHECKED, SHAPES, TuningJob, label, winner
from vitbench.kernels.attention_tiles import Split, Streamed, Whole, choose, power_of_two


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", CHECKED)
@pytest.mark.parametrize("shape", SHAPES)
def test_candidates_are_distinct_legal_and_begin_with_the_present_choice(
    shape: tuple[int, int, int, int], dtype: torch.dtype, backward: bool
) -> None:
    *_, N, K = shape
    plans = candidates(N, K, dtype, backward)
    assert plans[0] == choose(N, K, dtype, backward)
    assert len({label(plan) for plan in plans}) == len(plans) == len(set(plans)) >= 4
    for plan in plans:
        match plan:
            case Whole():
                sizes: tuple[int, ...] = (*plan.segments, plan.rows)
                assert sum(plan.segments) >= N
            case Split():
                sizes = (plan.rows, N - 1)
                assert (N - 1) % plan.rows == 0
            case Streamed():
                sizes = (plan.held, plan.streamed)
        assert all(size == power_of_two(size) for size in sizes)


def test_the_fastest_wins_and_a_tie_stays_with_the_present_choice() -> None:
    assert winner({"a": 1.0, "b": 0.9}, "a") == "b"
    assert winner({"a": 1.0, "b": 0.995}, "a") == "a"
    assert winner({"a": 1.0, "b": 0.995}, "not timed") == "b"
    assert winner({"b": 1.0, "a": 1.0}, "c") == "a"
    with pytest.raises(ValueError, match="no candidate was timed"):
        winner({}, "a")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_fails_clearly_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune_attention.main(["--out", str(tmp_path / "tuned.json")]) == 2
    assert "needs a CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "tuned.json").exists()


IN_THE_INTERPRETER = """
import json, sys, torch
from vitbench.clock import Clock
from vitbench.kernels.attention_tiles import Streamed, Whole
from tools import tune_attention as t

t.TIMED, t.CHECKED_IMAGES, t.FIRST_ROUNDS, t.FINAL_ROUNDS = torch.float16, 2, 2, 3
shape = (2, 2, 17, 16)
plans = (Whole((32,), 32, False, 1, 4, 1), Streamed(16, 16, 4, 2), Whole((16,), 16, False, 1, 4, 1))

clock = Clock(torch.device("cpu"), flush=True)
found = []
for backward in (False, True):
    checks = [t.check(t.TuningJob(shape, torch.float16, backward, plan), "cpu") for plan in plans]
    right = {t.label(plan): plan for plan in plans[:2]}
    laps, ours, sdpa = t.time_shape(shape, backward, right, clock)
    row = t.summary(shape, backward, ours, sdpa, "none", 1e9, 1e9)
    found.append({"checks": checks, "laps": laps, "summary": row})
sys.stdout.write(json.dumps(found))
"""


@pytest.mark.slow
def test_checks_and_times_what_it_is_given_and_finds_a_wrong_plan() -> None:
    """On the CPU in the interpreter; the third plan's segments do not cover the tokens."""
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_INTERPRETER],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(vitbench.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for direction, report in zip(("forward", "backward"), json.loads(done.stdout), strict=True):
        assert [row["state"] for row in report["checks"]] == ["right", "right", "incorrect"], report["checks"]
        assert {row["direction"] for row in report["checks"]} == {direction}
        assert {"sdpa_math", "sdpa_flash"} <= report["laps"]["last_rounds_ms"].keys()
        assert report["summary"]["winner"] in report["laps"]["last_rounds_ms"]


def _serve_and_die(pipe: Any) -> None:
    """A worker that a plan of 8 warps kills, one of 2 hangs, and one of 1 robs of its device."""
    while True:
        job = pipe.recv()
        if job.plan.warps == 8:
            os._exit(1)
        if job.plan.warps == 2:
            time.sleep(60)
        pipe.send(job.row() | {"state": tune_attention.LOST if job.plan.warps == 1 else "right"})


@pytest.mark.slow
def test_a_plan_that_kills_or_hangs_its_process_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_attention, "_serve", _serve_and_die)
    monkeypatch.setattr(tune_attention, "CHECK_SECONDS", 20.0)
    monkeypatch.setattr(tune_attention, "WORKERS", 2)
    plans = [Streamed(16 << i, 16, warps, 2) for i in range(2) for warps in (4, 8, 4, 1, 2, 4)]
    todo = [TuningJob((1, 1, 17, 16), torch.float16, False, plan) for plan in plans]
    rows = tune_attention.check_all(todo, time.monotonic() + 120)
    assert sorted(row["state"] for row in rows) == ["lost"] * 6 + ["right"] * 6
    assert all(row["state"] == "right" for row in rows if " 4 2" in row["plan"])
