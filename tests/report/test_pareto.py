"""Accuracy against cost: the cells that no other surpasses, in words, pictures and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.builders import COMPONENTS, CellPlan, Plan, build, factorial, no_triton, written
from tests.report.markdown import read_page
from vitbench.report.pareto import unsurpassed

CELLS = st.dictionaries(st.text("abcdefgh", min_size=1), st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1)


@given(CELLS, st.booleans())
def test_the_front_is_what_no_cell_surpasses(cells: dict[str, tuple[int, int]], cheap: bool) -> None:
    cost, gain = ({name: float(pair[i]) for name, pair in cells.items()} for i in (0, 1))

    def no_worse(one: str, other: str) -> bool:
        affordable = cost[one] <= cost[other] if cheap else cost[one] >= cost[other]
        return affordable and gain[one] >= gain[other]

    best = unsurpassed(cost, gain, cheap=cheap)
    for name in cells:
        surpassed = any(no_worse(o, name) and not no_worse(name, o) for o in cells)
        equal = [b for b in best if (cost[b], gain[b]) == (cost[name], gain[name])]
        assert bool(equal) != surpassed, "one of each pair that nothing surpasses, and no other"
    assert len({(cost[b], gain[b]) for b in best}) == len(best)


def test_a_study_of_both_has_fronts_of_its_timings(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial(COMPONENTS, state=no_triton, seeds=(0, 1)))
    page = read_page(written(study, tmp_path / "out").parent)
    assert "Accuracy against cost" in page.headings
    rows = page.table("throughput (images/s)", "Accuracy against cost")
    assert [row["point"] for row in rows] == list("ABCDEFGHIJ")[: len(rows)]
    speeds = [int(row["throughput (images/s)"].replace(",", "")) for row in rows]
    assert speeds == sorted(speeds, reverse=True)
    gains = [float(row["test accuracy (%)"].split()[0]) for row in rows]
    assert gains == sorted(gains) and gains[-1] == max(
        float(r["test_accuracy_pct_mean"] or 0) for r in page.csv("accuracy")
    ).__round__(1)
    memory = page.table("peak memory (MiB)", "Accuracy against cost")
    assert memory[-1]["test accuracy (%)"].split()[0] == rows[-1]["test accuracy (%)"].split()[0]


def test_training_alone_is_its_own_cost(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial({"norm": ("pre", "post")}, time=False))
    page = read_page(written(study, tmp_path / "out").parent)
    assert "Accuracy against cost" in page.headings and "figures/front-throughput-training-cpu.png" in page.pictures


@pytest.mark.parametrize(
    "plan", [Plan(cells=[CellPlan("base", {})]), factorial({"norm": ("pre", "post")}, train=False)]
)
def test_nothing_to_weigh_is_no_section(plan: Plan, tmp_path: Path) -> None:
    page = read_page(written(build(tmp_path / "study", plan), tmp_path / "out").parent)
    assert "Accuracy against cost" not in page.headings
