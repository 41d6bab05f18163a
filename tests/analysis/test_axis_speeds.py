"""Speed by axis: blocks and repetitions as the sources of variance, and verdicts that hold over a whole study."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from vitbench.analysis.axis_speeds import AxisSpeed, axis_speeds, crossed, judge

AXES = {"attention": ("per_head", "batched", "sdpa"), "norm": ("pre", "post"), "positions": ("learned", "none")}
ALL = [(a, n, p) for a in AXES["attention"] for n in AXES["norm"] for p in AXES["positions"]]


def measured(speed: Callable[[str, str, str, int], float | None], repetitions: int = 5) -> pd.DataFrame:
    """A row for each repetition of each cell."""
    return pd.DataFrame(
        [
            {"attention": a, "norm": n, "positions": p, "repetition": r,
             "log_speed": math.nan if (value := speed(a, n, p, r)) is None else math.log(value)}
            for r in range(repetitions) for a, n, p in ALL
        ]
    )  # fmt: skip


def speed_of(speeds: list[AxisSpeed], value: str) -> AxisSpeed:
    (speed,) = [speed for speed in speeds if speed.value == value]
    return speed


def test_what_a_block_and_a_repetition_share_falls_out() -> None:
    """Slow blocks, and a process on a slow core, leave ratios of speeds as they are."""
    chance = np.random.default_rng(0)
    times = {"per_head": 1.0, "batched": 1.25, "sdpa": 1.02}

    def speed(a: str, n: str, p: str, r: int) -> float:
        slow = (3.0 if n == "post" else 1.0) * (1.4 if p == "none" else 1.0) * (0.5 if r == 2 else 1.0)
        return float(times[a] * slow * math.exp(chance.normal(0, 0.004)))

    speeds = judge(axis_speeds(measured(speed), AXES, ["attention", "norm"]))
    faster, same, slow = speed_of(speeds, "batched"), speed_of(speeds, "sdpa"), speed_of(speeds, "post")
    assert (faster.against, faster.blocks, faster.repetitions, faster.verdict) == ("per_head", 4, 5, "faster")
    assert faster.ratio == pytest.approx(1.25, rel=0.01) and faster.low < faster.ratio < faster.high < 1.3
    assert (same.verdict, slow.verdict, slow.ratio) == ("equivalent", "faster", pytest.approx(3.0, rel=0.01))


def test_an_effect_that_differs_from_block_to_block_is_no_more_certain_for_many_repetitions() -> None:
    """1.3 times as fast with pre-norm and 1.3 times as slow with post-norm: many processes do not make that a mean."""

    def speed(a: str, n: str, p: str, r: int) -> float:
        return (1.3 if n == "pre" else 1 / 1.28) if a == "batched" else 1.0

    batched = speed_of(judge(axis_speeds(measured(speed, repetitions=30), AXES, ["attention"])), "batched")
    assert batched.verdict == "undecided" and batched.low < 1 < batched.high
    assert (batched.least, batched.most) == (pytest.approx(1 / 1.28), pytest.approx(1.3))


def test_blocks_without_their_partner_are_left_out_and_one_repetition_tells_nothing() -> None:
    partial = measured(lambda a, n, p, r: None if (a, n) == ("sdpa", "post") else 1.0)
    speeds = judge(axis_speeds(partial, AXES, ["attention"]))
    assert (speed_of(speeds, "sdpa").blocks, speed_of(speeds, "batched").blocks) == (2, 4)
    post = speed_of(judge(axis_speeds(measured(lambda *_: 2.0, 1), AXES, ["norm"])), "post")
    assert post.ratio == pytest.approx(1.0) and math.isnan(post.low) and post.verdict == ""
    absent = speed_of(axis_speeds(measured(lambda a, *_: 1.0 if a != "sdpa" else None), AXES, ["attention"]), "sdpa")
    assert absent.blocks == 0 and math.isnan(absent.ratio)


@pytest.mark.parametrize(
    ("blocks", "heavy", "cells", "runs", "noise"),
    [
        (3, False, 0.0, 0.0, 1.0), (12, True, 0.0, 0.0, 1.0), (12, False, 1.0, 0.0, 0.3), (3, True, 1.0, 0.0, 0.3),
        (3, False, 0.0, 1.0, 0.3), (12, True, 0.5, 0.5, 1.0),
    ],
)  # fmt: skip
def test_intervals_hold_the_truth(blocks: int, heavy: bool, cells: float, runs: float, noise: float) -> None:
    """At most 6 % of 2,000 studies of 5 processes miss the truth, whichever source is larger."""
    chance = np.random.default_rng(blocks)

    def draw(*shape: int) -> np.ndarray:
        return chance.standard_t(3, shape) if heavy else chance.standard_normal(shape)

    missed = 0
    for _ in range(2000):
        difference = crossed(cells * draw(1, blocks) + runs * draw(5, 1) + noise * draw(5, blocks))
        missed += bool(abs(float(difference.mean)) > float(difference.reach(0.95)))
    assert missed / 2000 <= 0.06


@pytest.mark.parametrize(("cells", "runs", "noise"), [(0.0, 0.01, 0.01), (0.02, 0.02, 0.005)])
def test_more_processes_until_the_interval_is_narrow_miss_the_truth_hardly_more_often(
    cells: float, runs: float, noise: float
) -> None:
    """At most 8 % of 2,000 studies that go from 4 processes to 8, until ±3 % is reached: docs/statistics-notes.md."""
    chance, missed = np.random.default_rng(0), 0
    for _ in range(2000):
        logs = (
            cells * chance.normal(size=(1, 12))
            + runs * chance.normal(size=(8, 1))
            + noise * chance.normal(size=(8, 12))
        )
        difference = crossed(logs[:4])
        for processes in range(5, 9):
            difference = difference if float(difference.reach(0.95)) <= 0.03 else crossed(logs[:processes])
        missed += bool(abs(float(difference.mean)) > float(difference.reach(0.95)))
    assert missed / 2000 <= 0.08


def test_a_study_without_any_effect_names_one_in_at_most_one_of_twenty() -> None:
    """Six comparisons that share their reference, corrected together; and nothing equivalent that is not."""
    chance = np.random.default_rng(7)
    named = wrong = 0
    for _ in range(60):
        rows = measured(lambda a, n, p, r: math.exp(chance.normal(0, 0.03)), repetitions=4)
        verdicts = [each.verdict for each in judge(axis_speeds(rows, AXES, AXES))]
        named += any(v in ("faster", "slower") for v in verdicts)
        apart = measured(lambda a, n, p, r: (1.06 if a == "sdpa" else 1) * math.exp(chance.normal(0, 0.03)))
        wrong += speed_of(judge(axis_speeds(apart, AXES, AXES)), "sdpa").verdict == "equivalent"
    assert named / 60 <= 0.05 and wrong / 60 <= 0.05
