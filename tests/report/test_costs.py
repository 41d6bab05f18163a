"""Speed, budgets and settings in a report, what stands out among timings, and how they came about."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.report.builders import CPU, CellPlan, Plan, Values, build, factorial, reference
from tests.report.markdown import Shown
from vitbench.report.cost import by_axis, speed
from vitbench.report.cost.speed import beside_baseline, heat_map
from vitbench.report.document import Block, Forest, Table
from vitbench.report.output import Files
from vitbench.report.sections import accuracy, pareto, setup, summary
from vitbench.report.sections.caveats import stated
from vitbench.report.text import NOTHING, ratio_ends
from vitbench.report.view import View
from vitbench.store import TimeValues

EQUIVALENT_AXES = {"attention": ("per_head", "batched", "sdpa"), "norm": ("pre", "post")}
LOADED = CPU.model_copy(update={"load_average": 6.33})


def view(tmp_path: Path, plan: Plan) -> View:
    return View(build(tmp_path, plan))


def grid(**changes: Any) -> Plan:
    return factorial(EQUIVALENT_AXES, seeds=(0, 1, 2), time=False, **changes)


def beside(values: Values) -> Values:
    """Timings that had the baseline, and it again, in each of their rounds."""
    assert isinstance(values, TimeValues)
    processes = [
        process.model_copy(update={"latencies_ms": (statistics.median(process.latencies_ms),) * 2,
                                   "baseline_ms": (70.0,) * 2, "control_ms": (70.1 + n / 10,) * 2})
        for n, process in enumerate(values.processes)
    ]  # fmt: skip
    return values.model_copy(update={"processes": tuple(processes)})


def table_of(blocks: list[Block]) -> dict[tuple[str, str], dict[str, str]]:
    """(axis, value) → its row."""
    (table,) = [Shown((), block) for block in blocks if isinstance(block, Table)]
    return {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_timings_are_judged_by_axis_over_matched_blocks(tmp_path: Path) -> None:
    axes = {**EQUIVALENT_AXES, "positions": ("learned", "none")}
    timed = view(tmp_path, factorial(axes, modes=("train",), train=False, changed=beside))
    (group,) = timed.time_groups
    rows = table_of(by_axis.table_of(timed, group))
    # The builder makes batched 1.6 / 1.15 as fast as per_head, and sdpa 1.6; both norms are equally fast.
    for value, expected in (("batched", 1.6 / 1.15), ("sdpa", 1.6)):
        row = rows["attention", value]
        low, high = map(float, row["95 % interval"].split(" to "))
        assert (row["verdict"], row["blocks"]) == ("faster", "4") and low < expected < high
    assert rows["norm", "post"]["verdict"] in ("equivalent", "undecided")
    assert rows[by_axis.CONTROL, "n/a"]["speed (×)"] == "1.00"
    frame = by_axis.axes_frame(timed)
    (forest,) = [block for block in summary.section(timed, Files()) if isinstance(block, Forest)]
    drawn = {row.name: (row.bar.value, row.bar.low, row.bar.high, row.verdict) for row in forest.rows}
    numbers = frame[["ratio", "low", "high", "verdict"]].itertuples(index=False, name=None)
    assert drawn == dict(zip(frame["value"], numbers, strict=True)) and len(frame) == 4
    assert [row.name for row in forest.rows[:2]] == ["sdpa", "batched"], "the largest first"


def test_training_runs_are_judged_only_where_their_order_was_drawn(tmp_path: Path) -> None:
    """A machine that slows down makes the last cell slow where every seed has one order."""
    drawn = view(tmp_path / "drawn", grid(order=lambda number: number * 7919 % 997, apart=400.0))
    fixed = view(tmp_path / "fixed", grid())
    row = table_of(by_axis.table_of(drawn, *by_axis.training(drawn, "cpu")))["attention", "sdpa"]
    assert row["verdict"] == "faster" and row["95 % interval"] != "n/a"
    assert by_axis.table_of(fixed, *by_axis.training(fixed, "cpu")) == []
    for trained in (drawn, fixed):
        speeds = by_axis.axes_frame(trained).query("mode == 'training run'").set_index("value")
        assert speeds.loc["sdpa", "ratio"] == pytest.approx(1.6, rel=0.05)
        assert math.isnan(speeds.loc["sdpa", "low"]) == (trained is fixed)
        assert not [block for block in summary.section(trained, Files()) if isinstance(block, Forest) and
                    block.title.startswith("Speed")], "runs that train are no benchmark"  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"apart": 0.1}, "another run of the study was at work for"),
        ({"environment": lambda *_: LOADED}, "load average of up to 6.3 on 2 cores at their start"),
    ],
)
def test_runs_without_a_machine_to_themselves_are_told(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    assert "shared-machine" not in dict(stated(view(tmp_path / "alone", grid())))
    crowded = view(tmp_path / "crowded", grid(**changes, order=lambda number: number * 7919 % 997))
    assert why in dict(stated(crowded))["shared-machine"]
    assert by_axis.table_of(crowded, *by_axis.training(crowded, "cpu")) == []


def test_what_cells_are_given_is_said_where_it_differs(tmp_path: Path) -> None:
    assert setup.who_has(reference("mae-small"), "learning_rate") == "0.01 (linear probe) or 0.001 (everything)"
    assert "settings-by-cell" in dict(stated(reference("mae-small")))
    assert "settings-by-cell" not in dict(stated(reference("planted"))), "cells of different tasks are not compared"
    cells = [CellPlan("slow", {"train.learning_rate": 1e-4}), CellPlan("quick", {}), CellPlan("post", {"norm": "post"})]
    named = view(tmp_path / "named", Plan(cells, seeds=(0, 1), time=False))
    assert setup.who_has(named, "learning_rate") == "0.0001 (slow) or 0.001 (quick, post)"
    axis = view(tmp_path / "axis", factorial({"train.learning_rate": (1e-3, 3e-3)}, seeds=(0, 1), time=False))
    assert setup.who_has(axis, "learning_rate") is None, "that is what is compared"
    assert "settings-by-cell" not in dict(stated(axis))
    longer = view(tmp_path / "longer", factorial({"train.epochs": (2, 6), "norm": ("pre", "post")}, time=False))
    assert "train.epochs" in dict(stated(longer))["unequal-budgets"]
    assert "unequal-budgets" not in dict(stated(view(tmp_path / "alike", grid())))


def test_cells_without_a_grid_have_names_verdicts_and_colours_of_their_own() -> None:
    """Those of an axis, and those with names: one is the baseline."""
    studied, files = reference("positions-small"), Files()
    (table, *_) = [block for block in accuracy.section(studied, files) if isinstance(block, Table)]
    verdicts = {row[0]: row[table.columns.index("verdict")] for row in table.rows}
    assert [cell for cell, verdict in verdicts.items() if verdict == NOTHING] == ["learned"] and len(verdicts) == 6
    chart = pareto._picture(studied, next(pareto.weighed(studied)), "").chart
    assert sorted(chart.frame["colour"]) == sorted(chart.frame["cell"]) == sorted(verdicts)


def row(name: str, latency: float, speeds: tuple[float, float], **changes: Any) -> dict[str, Any]:
    low, high = speeds
    values = {"trial_id": name, "latency_ms_p50": latency, "unstable": "", "speed_low": low, "speed_high": high}
    return {**values, "peak_memory_mib": 10.0, "peak_reserved_mib": 16.0, **changes}


BASE = row("base", 10.0, (math.nan, math.nan))


@pytest.mark.parametrize(
    ("others", "bold"),
    [
        ([row("fast", 5.0, (1.9, 2.1)), row("slow", 20.0, (0.4, 0.6))], {"fast"}),
        ([row("near", 9.9, (0.97, 1.05)), row("slow", 20.0, (0.4, 0.6))], {"near", "base"}),
        ([row("near", 9.9, (0.97, 1.05))], set()),  # nothing is behind
        ([row("wide", 5.0, (1.9, 2.1), unstable="a reason"), row("slow", 20.0, (0.4, 0.6))], {"base"}),
        ([row("alone", 5.0, (math.nan, math.nan))], set()),  # how far it may be luck is not known
        ([], set()),
    ],
)
def test_what_cannot_be_told_from_the_fastest_stands_out_with_it(others: list[dict[str, Any]], bold: set[str]) -> None:
    assert speed.fastest([BASE, *others], "base") == bold


def test_memory_stands_out_where_it_is_counted() -> None:
    lean = row("lean", 1.0, (1.0, 1.0), peak_memory_mib=9.0)
    assert speed.leanest([BASE, lean]) == {"lean"}
    assert speed.leanest([BASE, BASE | {"trial_id": "same", "peak_memory_mib": 10.01}]) == set(), "equal as printed"
    assert speed.leanest([BASE, lean | {"peak_reserved_mib": math.nan}]) == set(), "a resident set is no count"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.958, 0.998, "0.958 to 0.998"), (0.9, 1.1, "0.90 to 1.10"), (1.2, 1.3, "1.20 to 1.30"),
     (0.998, 1.001, "1.00 to 1.00"), (1.0004, 1.1, "1.0004 to 1.1000")],
)  # fmt: skip
def test_an_interval_that_excludes_1_is_seen_to(low: float, high: float, text: str) -> None:
    assert ratio_ends(low, high) == text


def test_the_heat_map_has_every_setting_and_the_ratios_of_the_records() -> None:
    assert heat_map(reference("components-cpu")) is None, "few settings"
    view = reference("attention-timing-cpu")
    table, ratios = heat_map(view), beside_baseline(view)
    assert table is not None and len(view.time_groups) == 10 == len(table.rows), "a row for each shape and mode"
    of_name = {name: [each.ratio for each in ratios if each.name == name] for name in table.columns[1:]}
    means = [statistics.geometric_mean(of_name[name]) for name in table.columns[1:]]
    assert means == sorted(means, reverse=True), "the fastest first, which a narrow terminal keeps"
    # A ratio is as sure as the less sure of its two timings. It has a colour where it has a verdict, or needs none.
    done = view.time[view.time["state"] == "ok"]
    base = done[done["attention"] == "sdpa"].set_index(["level_shape", "mode"])["unstable"]
    others = done[done["attention"] != "sdpa"].to_dict("records")
    unsure = {r["trial_id"] for r in others if r["unstable"] or base[r["level_shape"], r["mode"]]}
    assert {each.row["trial_id"] for each in ratios if each.unstable} == unsure
    words = {"undecided": "", "unstable": ""}
    cells = [
        f"{float(each.row['speed']):.2f}{words.get(each.verdict, f' {each.verdict}')}{' ~' * each.unstable}"
        for each in ratios
    ]
    assert sorted(cell for row in table.rows for cell in row[1:] if cell != "n/a") == sorted(cells)
    shaded = {at: table.rows[at[0]][at[1]] for at in table.shades}
    assert len(shaded) == sum(each.verdict != "unstable" for each in ratios) < len(ratios)
    assert not any(cell.split()[1:] == ["~"] for cell in shaded.values())
    assert all((table.shades[at] > 0) == (float(cell.split()[0]) > 1) for at, cell in shaded.items())
