"""Accuracy against cost: the cells that no other surpasses, in words, pictures and numbers, as far as that is known."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.report.builders import COMPONENTS, CellPlan, Plan, Values, build, charts_of, factorial, no_triton, written
from tests.report.markdown import Page, read_page
from vitbench.report.figures.charts import Front
from vitbench.report.view import View
from vitbench.store import TimeValues, TrainValues

SECTION = "Accuracy against cost"
THROUGHPUT, MEMORY = "throughput (images/s)", "peak memory (MiB)"
SPEEDS = {"attention": ("per_head", "sdpa"), "norm": ("pre", "post")}
FOUR = {"norm": ("pre", "post"), "positions": ("learned", "none")}


def front_of(view: View) -> Front:
    """The chart of accuracy against throughput."""
    return next(chart for chart in charts_of(view) if isinstance(chart, Front) and chart.cost == THROUGHPUT)


def page_of(plan: Plan, tmp_path: Path) -> Page:
    return read_page(written(build(tmp_path / "study", plan), tmp_path / "out").parent)


def test_a_study_of_both_has_fronts_of_its_timings(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial(COMPONENTS, state=no_triton, seeds=(0, 1)))
    page = read_page(written(study, tmp_path / "out").parent)
    assert SECTION in page.headings
    rows = page.table(THROUGHPUT, SECTION)
    gains = [float(row["test accuracy (%)"].split()[0]) for row in rows]
    assert gains == sorted(gains, reverse=True)
    pooled: dict[tuple[str, str], list[float]] = {}
    for r in page.csv("accuracy"):
        if r["test_accuracy_pct_mean"]:
            pooled.setdefault((r["norm"], r["positions"]), []).append(float(r["test_accuracy_pct_mean"]))
    assert gains[0] == pytest.approx(max(map(statistics.fmean, pooled.values())), abs=0.051)
    line = sorted((spot.gain, -spot.cost) for spot in front_of(View(study)).spots if spot.best)
    assert 0 < len(line) <= len(rows)
    assert [cost for _, cost in line] == sorted(cost for _, cost in line), "what gives more costs more"


def test_training_alone_is_its_own_cost_and_every_cell_of_a_small_study_is_named(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial(SPEEDS, time=False, seeds=(0, 1, 2)))
    page = read_page(written(study, tmp_path / "out").parent)
    assert "figures/front-throughput-training-cpu.png" in page.pictures
    rows = page.table(THROUGHPUT, SECTION)
    assert len(rows) == 4
    assert "yes" in {row["on the front"] for row in rows} <= {"yes", "perhaps", "no"}
    runs = View(study).train.groupby(["attention", "norm"])["train_images_per_s"].apply(list).to_dict()
    for row in rows:
        mine = runs[row["attention"], row["norm"]]
        assert row[THROUGHPUT] == f"{statistics.median(mine):,.0f}"
        assert row["smallest to largest (images/s)"] == f"{min(mine):,.0f} to {max(mine):,.0f}"
    assert "the median over seeds, with a bar from the smallest to the largest" in page.text


def outlying(values: Values) -> Values:
    """The accurate run of half a point took the memory of something else."""
    assert isinstance(values, TrainValues)
    usual = 90.0 if values.test_accuracy_pct > 50 else 100.0
    return values.model_copy(update={"peak_memory_mib": 500.0 if values.test_accuracy_pct % 1 else usual})


def test_memory_is_the_median_and_no_front_is_decided_by_an_outlier(tmp_path: Path) -> None:
    """Of the better cells one seed of five took much: by the largest they would cost more, and all be on a front."""
    plan = factorial(FOUR, time=False, seeds=(0, 1, 2, 3, 4), changed=outlying)
    plan.accuracy = lambda cell, seed: (60.5 if seed == 3 else 60.0) if cell.axes["norm"] == "post" else 40.0
    page = page_of(plan, tmp_path)
    assert MEMORY not in {column for above, rows in page.tables if SECTION in above for row in rows for column in row}
    assert "(medians 90.0 to 100 MiB), so peak memory is no reason to choose a cell" in page.text


def alike(values: Values) -> Values:
    """Cells change places from seed to seed."""
    assert isinstance(values, TrainValues)
    return values.model_copy(update={"peak_memory_mib": 100.0 + values.test_accuracy_pct % 3})


def test_costs_that_are_not_told_apart_are_one_sentence_and_no_front(tmp_path: Path) -> None:
    plan = factorial(FOUR, time=False, seeds=(0, 1, 2))
    places = {cell.label: n for n, cell in enumerate(plan.cells)}
    plan.accuracy = lambda cell, seed: 40.0 + places[cell.label] * (1 if seed == 1 else 2) + seed
    plan.changed = alike
    page = page_of(plan, tmp_path)
    assert "no cell is shown to need less peak memory than another with each of the 3 seeds" in page.text
    assert "figures/front-peak-memory-training-cpu.png" not in page.pictures


def marked(values: Values) -> Values:
    """Timings that vary little; with the fastest by far the clock was held back."""
    if not isinstance(values, TimeValues):
        return values
    middle, held = values.latency_ms_p50, "power cap" if values.latency_ms_p50 < 13 else None
    steady = tuple(
        p.model_copy(
            update={
                "latencies_ms": tuple(middle + (ms - middle) / 20 for ms in p.latencies_ms),
                "throttled": held,
            }
        )
        for p in values.processes
    )
    return values.model_copy(update={"processes": steady})


def test_nothing_is_said_by_a_marked_timing(tmp_path: Path) -> None:
    axes = {"attention": ("per_head", "batched", "sdpa"), "norm": ("pre", "post")}
    study = build(tmp_path / "study", factorial(axes, modes=("inference",), seeds=(0, 1), changed=marked))
    view = View(study)
    unsure = set(view.time.loc[view.time["unstable"] != "", "cell"])
    assert 0 < len(unsure) < 6
    page = read_page(written(study, tmp_path / "out").parent)
    for row in page.table(THROUGHPUT, SECTION):
        is_marked = f"{row['attention']} · {row['norm']}" in unsure
        assert (row["on the front"] == "~") == row[THROUGHPUT].endswith("~") == is_marked
    for spot in front_of(view).spots:
        assert spot.marked == (spot.name in unsure) and not (spot.marked and spot.best)
    assert f"The timings of {len(unsure)} of 6 cells are unstable (hollow)" in page.text


def test_exact_twins_have_one_accuracy_and_compete_by_cost_alone(tmp_path: Path) -> None:
    axes = {"attention": ("per_head", "batched", "sdpa"), "norm": ("pre", "post")}
    page = page_of(factorial(axes, modes=("inference",), seeds=(0, 1)), tmp_path)
    rows = page.table(THROUGHPUT, SECTION)
    for norm in axes["norm"]:
        assert len({row["test accuracy (%)"] for row in rows if row["norm"] == norm}) == 1
    assert "Equivalent implementations have one accuracy" in page.text


def test_two_cells_are_a_table_and_no_picture(tmp_path: Path) -> None:
    page = page_of(factorial({"norm": ("pre", "post")}, time=False), tmp_path)
    assert not [name for name in page.pictures if "front-" in name]
    rows = page.table(THROUGHPUT, SECTION)
    assert (
        len(rows) == 2
        and "smallest to largest (images/s)" not in rows[0]
        and "smallest to largest (MiB)" not in rows[0]
    )
    assert "how the costs would vary in another run is unknown" in page.text


@pytest.mark.parametrize(
    "plan", [Plan(cells=[CellPlan("base", {})]), factorial({"norm": ("pre", "post")}, train=False)]
)
def test_nothing_to_weigh_is_no_section(plan: Plan, tmp_path: Path) -> None:
    assert SECTION not in page_of(plan, tmp_path).headings
