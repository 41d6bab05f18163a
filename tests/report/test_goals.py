"""Time to accuracy: a goal is reached or not, and its time is that of training once it has warmed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.builders import CellPlan, Plan, page_of
from tests.report.markdown import Page
from vitbench.config.suite import Goal

FAST, SLOW = CellPlan("fast", {"heads": 1}), CellPlan("slow", {"heads": 2})
GOALS = (Goal(cell="fast", test_accuracy=50.0), Goal(cell="slow", test_accuracy=60.0))
ACCURACY = {"fast": (49.0, 50.0, 51.0), "slow": (58.0, 59.0, 60.0)}


def rendered(tmp_path: Path, **changes: object) -> Page:
    plan = Plan(cells=[FAST, SLOW], seeds=(0, 1, 2), time=False, goals=GOALS, **changes)
    plan.accuracy = lambda cell, seed: ACCURACY[cell.label][seed]
    return page_of(tmp_path, plan)


def test_the_mean_over_all_seeds_decides_and_time_is_without_warming_up(tmp_path: Path) -> None:
    page = rendered(tmp_path)
    rows = {row["cell"]: row for row in page.table("goal (%)")}
    assert {cell: row["reached"] for cell, row in rows.items()} == {"fast": "yes", "slow": "no"}
    assert rows["fast"]["mean test accuracy (%)"] == "50.0" and rows["fast"]["seeds"] == "3"
    low, high = map(float, rows["fast"]["95 % interval (%)"].split(" to "))
    assert 46 < low < 49.5 and 50.5 < high < 54
    trials = [row for row in page.csv("trials") if row["cell"] == "fast"]
    expected = sum(float(row["train_seconds"]) - float(row["warm_up_seconds"]) for row in trials) / 3
    goal = next(row for row in page.csv("goals") if row["cell"] == "fast")
    assert float(goal["training_seconds_mean"]) == pytest.approx(expected)
    assert float(goal["warm_up_seconds_mean"]) == 0.5


def test_a_missing_seed_is_no_goal_reached(tmp_path: Path) -> None:
    page = rendered(tmp_path, state=lambda cell, kind, seed: ("diverged", "") if seed == 0 else ("ok", ""))
    row = next(row for row in page.table("goal (%)") if row["cell"] == "fast")
    assert (row["reached"], row["seeds"]) == ("seeds are missing", "2 of 3"), "its mean is not the cell's"
    page = rendered(tmp_path / "none", state=lambda cell, kind, seed: ("pending", ""))
    assert "No run of fast finished." in page.text and "Time to accuracy" in page.headings
