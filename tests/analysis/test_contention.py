"""How far runs had their machine to themselves: by when they began and how long they took, of records on disk."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.report.builders import CPU, GPU, SMALL, build, factorial
from vitbench.analysis.contention import Contention, contention
from vitbench.analysis.results import results_of


def contention_of(tmp_path: Path, **plan: Any) -> Contention:
    """Contention of the four runs of a study, which take 20 seconds each."""
    study = build(tmp_path / "study", factorial(SMALL, time=False, **plan))
    finished = [trial_id for trial_id, attempts in study.attempts().items() if attempts[-1].state == "ok"]
    return contention(results_of(study), finished)


def on_machines(cell: Any, _: int) -> Any:
    return GPU if cell.axes["norm"] == "post" else CPU


def on_accelerators(cell: Any, _: int) -> Any:
    return GPU.model_copy(update={"device": "cuda:0" if cell.axes["positions"] == "none" else "cuda:1"})


@pytest.mark.parametrize(
    ("plan", "share", "at_once"),
    [
        ({"apart": 30.0}, 0.0, 1),
        ({"apart": 20.0}, 0.0, 1),  # one begins when the other ends
        ({"apart": 10.0}, (10 + 20 + 20 + 10) / 80, 2),  # the ends of the first and the last are alone
        ({"apart": 5.0}, (15 + 20 + 20 + 15) / 80, 4),
        ({"apart": 0.0}, 0.0, 1),  # seeds of one program
        ({"apart": 10.0, "environment": on_machines}, 4 * 10 / 80, 2),
        ({"apart": 10.0, "environment": on_accelerators}, 0.0, 1),
    ],
)
def test_the_share_of_their_time_that_runs_were_side_by_side(
    tmp_path: Path, plan: dict[str, Any], share: float, at_once: int
) -> None:
    result = contention_of(tmp_path, **plan)
    assert (result.runs, result.at_once) == (4, at_once)
    assert result.share == pytest.approx(share, abs=1e-6)
    assert result.alone == (share == 0)


def test_a_run_that_failed_was_beside_others_all_the_same(tmp_path: Path) -> None:
    def state(cell: Any, *_: Any) -> tuple[str, str]:
        return ("failed", "no") if cell.axes["norm"] == "post" else ("ok", "")

    result = contention_of(tmp_path, apart=10.0, state=state)
    assert result.runs == 2 and result.share == pytest.approx((10 + 20) / 40)


def test_the_load_is_the_one_that_is_furthest_beyond_the_cores(tmp_path: Path) -> None:
    large = CPU.model_copy(update={"cpu_cores": 64, "load_average": 40.0})
    small = CPU.model_copy(update={"load_average": 3.5})
    result = contention_of(tmp_path / "a", environment=lambda cell, _: large if cell.axes["norm"] == "pre" else small)
    assert (result.load, result.cores, result.loaded) == (3.5, 2, True)
    idle = contention_of(tmp_path / "b", environment=lambda *_: large)
    assert (idle.load, idle.cores, idle.loaded) == (40.0, 64, False)


def test_without_records_nothing_is_known(tmp_path: Path) -> None:
    result = contention_of(tmp_path, state=lambda *_: ("pending", ""))
    assert result.runs == 0 and result.alone and math.isnan(result.load)
    unknown = CPU.model_copy(update={"load_average": None})
    assert not contention_of(tmp_path / "other", environment=lambda *_: unknown).loaded
