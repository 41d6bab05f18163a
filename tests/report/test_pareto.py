"""Accuracy against cost: the cells that no other surpasses, in words, pictures and numbers, as far as that is known."""

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.builders import (
    COMPONENTS,
    SMALL,
    CellPlan,
    Plan,
    Values,
    charts_of,
    factorial,
    grid,
    no_triton,
    page_of,
)
from vitbench.report.figures.charts import Front
from vitbench.report.view import View
from vitbench.store import StudyFolder, TimeValues, TrainValues

SECTION = "Accuracy against cost"
THROUGHPUT, MEMORY = "throughput (images/s)", "peak memory (MiB)"
SPEEDS = {"attention": ("per_head", "sdpa"), "norm": ("pre", "post")}


def view_of(folder: Path) -> View:
    """The study whose page ``page_of`` has made in a folder."""
    return View(StudyFolder.read(folder / "study"))


def front_of(view: View) -> Front:
    """The chart of accuracy against throughput."""
    return next(chart for chart in charts_of(view) if isinstance(chart, Front) and chart.cost == THROUGHPUT)


def test_a_study_of_both_has_fronts_of_its_timings(tmp_path: Path) -> None:
    page = page_of(tmp_path, factorial(COMPONENTS, state=no_triton, seeds=(0, 1)))
    rows = page.table(THROUGHPUT, SECTION)
    gains = [float(row["test accuracy (%)"].split()[0]) for row in rows]
    assert gains == sorted(gains, reverse=True)
    pooled: dict[tuple[str, str], list[float]] = {}
    for r in page.csv("accuracy"):
        if r["test_accuracy_pct_mean"]:
            pooled.setdefault((r["norm"], r["positions"]), []).append(float(r["test_accuracy_pct_mean"]))
    assert gains[0] == pytest.approx(max(map(statistics.fmean, pooled.values())), abs=0.051)
    spots = front_of(view_of(tmp_path)).frame.itertuples()
    line = sorted((spot.gain, -spot.cost) for spot in spots if spot.on_the_line)
    assert 0 < len(line) <= len(rows)
    assert [cost for _, cost in line] == sorted(cost for _, cost in line), "what gives more costs more"


def test_training_alone_is_its_own_cost_and_every_cell_of_a_small_study_is_named(tmp_path: Path) -> None:
    page = page_of(tmp_path, factorial(SPEEDS, time=False, seeds=(0, 1, 2)))
    assert "figures/front-throughput-training-cpu.png" in page.pictures
    rows = page.table(THROUGHPUT, SECTION)
    assert len(rows) == 4
    assert "yes" in {row["on the front"] for row in rows} <= {"yes", "perhaps", "no"}
    train = view_of(tmp_path).train
    runs = train.groupby(["attention", "norm"])["train_images_per_s"].apply(list).to_dict()
    for row in rows:
        speeds = runs[row["attention"], row["norm"]]
        assert row[THROUGHPUT] == f"{statistics.median(speeds):,.0f}"
        assert row["smallest to largest (images/s)"] == f"{min(speeds):,.0f} to {max(speeds):,.0f}"


def test_speeds_of_runs_that_shared_the_machine_are_weighed_against_nothing(tmp_path: Path) -> None:
    page = page_of(tmp_path, factorial(SPEEDS, time=False, seeds=(0, 1, 2), apart=1))
    assert "images/s and seconds cannot be compared" in page.text
    assert [name for name in page.pictures if "front-" in name] == ["figures/front-peak-memory-training-cpu.png"]


def outlying(values: Values) -> Values:
    """The accurate run of half a point took the memory of something else."""
    assert isinstance(values, TrainValues)
    usual = 90.0 if values.test_accuracy_pct > 50 else 100.0
    return values.model_copy(update={"peak_memory_mib": 500.0 if values.test_accuracy_pct % 1 else usual})


def alike(values: Values) -> Values:
    """Cells change places from seed to seed."""
    assert isinstance(values, TrainValues)
    return values.model_copy(update={"peak_memory_mib": 100.0 + values.test_accuracy_pct % 3})


PLACES = {cell.label: n for n, cell in enumerate(grid(SMALL))}


@pytest.mark.parametrize(
    ("changed", "accuracy", "why"),
    [
        (outlying, lambda cell, seed: 60 + (seed == 3) / 2 if "post" in cell.label else 40.0, "(medians 90.0"),
        (alike, lambda cell, seed: 40.0 + PLACES[cell.label] * (1 if seed == 1 else 2) + seed, "no cell is shown"),
    ],
)
def test_costs_of_an_outlier_or_not_told_apart_are_one_sentence_and_no_front(
    tmp_path: Path, changed: Callable[[Values], Values], accuracy: Callable[[CellPlan, int], float], why: str
) -> None:
    """Each better cell would cost more by the largest of its seeds, and all be on a front."""
    seeds = (0, 1, 2, 3, 4) if changed is outlying else (0, 1, 2)
    page = page_of(tmp_path, factorial(SMALL, time=False, seeds=seeds, changed=changed, accuracy=accuracy))
    assert MEMORY not in {column for above, rows in page.tables if SECTION in above for row in rows for column in row}
    assert why in page.text and "figures/front-peak-memory-training-cpu.png" not in page.pictures


def marked(values: Values) -> Values:
    """Timings that vary little; with the fastest by far the clock was held back."""
    if not isinstance(values, TimeValues):
        return values
    middle, held = values.latency_ms_p50, "power cap" if values.latency_ms_p50 < 13 else None
    steady = [[middle + (ms - middle) / 20 for ms in process.latencies_ms] for process in values.processes]
    processes = [process.model_copy(update={"latencies_ms": tuple(latencies), "throttled": held})
                 for process, latencies in zip(values.processes, steady, strict=True)]  # fmt: skip
    return values.model_copy(update={"processes": tuple(processes)})


def test_nothing_is_said_by_a_marked_timing(tmp_path: Path) -> None:
    axes = {"attention": ("per_head", "batched", "sdpa"), "norm": ("pre", "post")}
    page = page_of(tmp_path, factorial(axes, modes=("inference",), seeds=(0, 1), changed=marked))
    view = view_of(tmp_path)
    unsure = set(view.time.loc[view.time["unstable"] != "", "cell"])
    assert 0 < len(unsure) < 6
    accuracies: dict[str, set[str]] = {}
    for row in page.table(THROUGHPUT, SECTION):
        is_marked = f"{row['attention']} · {row['norm']}" in unsure
        assert (row["on the front"] == "~") == row[THROUGHPUT].endswith("~") == is_marked
        accuracies.setdefault(row["norm"], set()).add(row["test accuracy (%)"])
    assert [len(each) for each in accuracies.values()] == [1, 1], "equivalent implementations have one"
    for spot in front_of(view).frame.itertuples():
        assert spot.marked == (spot.cell in unsure) and not (spot.marked and spot.on_the_line)
    assert f"{len(unsure)} of 6 cells are unstable (hollow) and take no part" in page.text


def test_two_cells_are_a_table_and_no_picture(tmp_path: Path) -> None:
    page = page_of(tmp_path, factorial({"norm": ("pre", "post")}, time=False))
    assert not [name for name in page.pictures if "front-" in name]
    rows = page.table(THROUGHPUT, SECTION)
    assert len(rows) == 2 and not [column for column in rows[0] if "smallest to largest" in column]


@pytest.mark.parametrize("plan", [Plan(cells=[CellPlan("base", {})]), factorial(SMALL, train=False)])
def test_nothing_to_weigh_is_no_section(plan: Plan, tmp_path: Path) -> None:
    assert SECTION not in page_of(tmp_path, plan).headings
