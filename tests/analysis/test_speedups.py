"""How much faster runs are with one value of an axis: pair by pair, with seeds as the unit of inference."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import pytest

from vitbench.analysis.speedups import Speedup, speedups

AXES = {"attention": ("per_head", "sdpa"), "norm": ("pre", "post")}
BASE = {"pre": 1000.0, "post": 400.0}


def runs(rate: Callable[[str, str, int], float | None], seeds: int = 4) -> pd.DataFrame:
    """Finished runs of the grid; those without a rate failed."""
    rows = [
        {
            "cell": f"{attention} {norm}", "attention": attention, "norm": norm, "seed": seed, "factorial": True,
            "origin": "a", "state": "ok" if rate(attention, norm, seed) else "failed",
            "train_images_per_s": rate(attention, norm, seed), "started_at": f"09:{seed:02}, {attention} {norm}",
        }
        for seed in range(seeds) for attention in AXES["attention"] for norm in AXES["norm"]
    ]  # fmt: skip
    return pd.DataFrame(rows)


def only(train: pd.DataFrame, axis: str = "attention") -> Speedup:
    (found,) = speedups(train, AXES, axis)
    return found


def test_what_both_runs_of_a_pair_share_falls_out_of_their_ratio() -> None:
    """A seed whose runs were all three times slower, and cells of other speeds, leave the ratio as it is."""
    found = only(runs(lambda a, n, s: BASE[n] * (1.25 if a == "sdpa" else 1.0) / (3 if s == 2 else 1)))
    assert (found.value, found.against, found.pairs, found.seeds) == ("sdpa", "per_head", 8, 4)
    assert [found.ratio, found.low, found.high] == pytest.approx([1.25] * 3)
    assert [found.interval.low, found.interval.high] == pytest.approx([1.25] * 2)


def test_one_run_that_was_held_up_moves_the_median_little_and_widens_the_interval() -> None:
    held_up = runs(
        lambda a, n, s: BASE[n] * (1.25 if a == "sdpa" else 1.0) * (0.2 if (a, n, s) == ("sdpa", "pre", 0) else 1)
    )
    found = only(held_up)
    assert found.ratio == pytest.approx(1.25) and found.interval.low < 1.0 < found.interval.high


def test_a_run_without_its_partner_is_left_out() -> None:
    found = only(
        runs(lambda a, n, s: None if (a, n) == ("per_head", "post") else BASE[n] * (2.0 if a == "sdpa" else 1.0))
    )
    assert found.pairs == 4 and found.ratio == pytest.approx(2.0)
    unmatched = only(runs(lambda a, n, s: BASE[n] if (a == "sdpa") == (n == "pre") else None))
    assert unmatched.pairs == 0 and math.isnan(unmatched.ratio) and math.isnan(unmatched.interval.low)


def test_the_reference_is_the_first_value_with_a_result() -> None:
    found = speedups(runs(lambda a, n, s: BASE[n] if a == "sdpa" else None), AXES, "attention")
    assert [(each.value, each.against, each.pairs) for each in found] == [("per_head", "sdpa", 0)]
    assert speedups(runs(lambda *_: None), AXES, "attention") == []


def test_seeds_that_one_program_trained_are_one_observation() -> None:
    train = runs(lambda a, n, s: BASE[n] * (1.25 if a == "sdpa" else 1.0))
    together = train.assign(started_at=train["cell"])  # a cell's seeds began at one moment
    found = only(together)
    assert found.pairs == 8 and found.seeds == 1 and math.isnan(found.interval.low)
