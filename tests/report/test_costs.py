"""What a report says of speed, budgets and settings of training runs, and of how they came about."""

from __future__ import annotations

import functools
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.report.builders import CPU, CellPlan, Plan, Values, build, factorial
from tests.report.markdown import written
from vitbench.config.trial import TrainTrial
from vitbench.report.circumstances import account, settings, spent
from vitbench.report.cost import by_axis, training_speed
from vitbench.report.findings import headlines
from vitbench.report.markdown import Md
from vitbench.report.sections.caveats import stated
from vitbench.report.view import View
from vitbench.store import Study, TimeValues, TrainValues

TWINS = {"attention": ("per_head", "batched", "sdpa"), "norm": ("pre", "post")}
LOADED = CPU.model_copy(update={"load_average": 6.33})


@functools.cache
def reference(name: str) -> View:
    return View(Study.read(REPOSITORY / "results" / "reference" / name))


def view(tmp_path: Path, plan: Plan) -> View:
    return View(build(tmp_path / "study", plan))


def grid(**changes: Any) -> Plan:
    return factorial(TWINS, seeds=(0, 1, 2), time=False, **changes)


def costs(view: View) -> str:
    return written(*training_speed.by_cell(view, "cpu"))


def steady(values: Values) -> Values:
    """Speeds without noise: those of a kind of attention are as one."""
    assert isinstance(values, TrainValues)
    return values.model_copy(update={"train_images_per_s": float(round(values.train_images_per_s, -2))})


def beside(values: Values) -> Values:
    """Timings that had the baseline, and it again, in each of their rounds."""
    assert isinstance(values, TimeValues)
    processes = tuple(
        p.model_copy(
            update={
                "latencies_ms": (ms := statistics.median(p.latencies_ms), ms),
                "baseline_ms": (70.0, 70.0),
                "control_ms": (70.1 + n / 10, 70.1 + n / 10),
            }
        )
        for n, p in enumerate(values.processes)
    )
    return values.model_copy(update={"processes": processes})


def table_of(found: list[Md]) -> dict[tuple[str, str], dict[str, str]]:
    """(axis, value) → its row."""
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in written(found[1]).splitlines()]
    return {(row[0], row[1]): dict(zip(header, row, strict=True)) for row in rows}


def test_timings_are_judged_by_axis_over_matched_blocks(tmp_path: Path) -> None:
    axes = {"attention": ("per_head", "batched", "sdpa"), "norm": ("pre", "post"), "positions": ("learned", "none")}
    plan = factorial(axes, modes=("train",), train=False, changed=beside)
    timed = view(tmp_path, plan)
    (group,) = timed.time_groups
    rows = table_of(by_axis.by_axis(timed, group, "cpu"))
    # The builder makes batched 1.6 / 1.15 as fast as per_head, and sdpa 1.6; both norms are equally fast.
    for value, expected in (("batched", 1.6 / 1.15), ("sdpa", 1.6)):
        row = rows["attention", value]
        low, high = map(float, row["95 % interval"].split(" to "))
        assert (row["verdict"], row["blocks"]) == ("**faster**", "4") and low < expected < high
    assert rows["norm", "post"]["verdict"] in ("**equivalent**", "undecided", "**undecided**")
    assert rows[by_axis.CONTROL, "n/a"]["speed (×)"] == "1.00"
    (said,) = by_axis.sentences(timed).values()
    assert re.search(r"attention: sdpa \*\*faster\*\* \(1\.[56]\d, .*batched \*\*faster\*\* .* against per_head", said)
    short = written(headlines.headlines(timed)[0])
    assert said in short and "Lowest latency" not in short
    frame = by_axis.axes_frame(timed)
    assert set(frame["verdict"]) <= {"faster", "equivalent", "undecided"} and len(frame) == 4


def test_training_runs_are_judged_only_where_their_order_was_drawn(tmp_path: Path) -> None:
    """In one order in every seed, a machine that slows down makes the last cell slow."""
    drawn = view(tmp_path / "drawn", grid(order=lambda number: number * 7919 % 997, apart=400.0))
    row = table_of(by_axis.by_axis(drawn, None, "cpu"))["attention", "sdpa"]
    assert row["verdict"] == "**faster**" and float(row["speed (×)"]) == pytest.approx(1.6, rel=0.05)
    found = by_axis.by_axis(view(tmp_path / "fixed", grid()), None, "cpu")
    row = table_of(found)["attention", "sdpa"]
    assert row["verdict"] == row["95 % interval"] == "n/a" and "an order drawn anew" in found[0]
    assert float(row["speed (×)"]) == pytest.approx(1.6, rel=0.05)
    assert "training runs, by" not in written(headlines.headlines(drawn)[0])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"apart": 10.0}, "another run of the study was at work for"),
        ({"environment": lambda *_: LOADED}, "load average of up to 6.3 on 2 cores at their start"),
    ],
)
def test_runs_without_a_machine_to_themselves_show_no_best_speed(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    alone = view(tmp_path / "alone", grid(changed=steady))
    assert "shared-machine" not in dict(stated(alone))
    crowded = view(tmp_path / "crowded", grid(changed=steady, **changes))
    assert why in dict(stated(crowded))["shared-machine"]
    assert not re.search(r"\*\*[\d,]+", costs(crowded))


def test_a_speed_is_marked_where_it_is_ahead_by_more_than_seeds_differ(tmp_path: Path) -> None:
    def of(name: str, **changes: Any) -> str:
        axes = {"attention": ("per_head", "sdpa")}
        return costs(view(tmp_path / name, factorial(axes, time=False, **changes)))

    assert re.search(r"\*\*[\d,]+ ± \d+\*\*", of("ahead", seeds=(0, 1, 2)))
    assert "**" not in of("one", seeds=(0,))
    axes = {"norm": ("pre", "post")}  # which the builder makes equally fast, but for noise
    assert "**" not in costs(view(tmp_path / "equal", factorial(axes, seeds=(0, 1, 2), time=False)))


def test_columns_that_say_nothing_are_a_sentence(tmp_path: Path) -> None:
    whole = costs(view(tmp_path / "whole", grid()))
    assert "all are ok; 3 seeds each" in whole and "| state" not in whole and "| seeds" not in whole
    part = costs(view(tmp_path / "part", grid(state=lambda cell, kind, seed: ("failed" if seed == 1 else "ok", ""))))
    assert "2 of 3 seeds each" in part and "of all of them 2 ok, 1 failed" in part
    absent = costs(
        view(tmp_path / "absent", grid(state=lambda cell, *_: ("failed" if "sdpa" in cell.label else "ok", "")))
    )
    assert "failed |" in absent, "the speed says why there is none"
    assert "3 seeds each" in absent and "| state" not in absent and "all are ok" not in absent
    fewer = grid(state=lambda cell, kind, seed: ("failed" if seed == 1 and "sdpa" in cell.label else "ok", ""))
    assert re.search(r"\| state +\| +seeds \|", costs(view(tmp_path / "fewer", fewer)))


def test_memory_is_defined_and_so_is_what_it_cannot_tell(tmp_path: Path) -> None:
    said = training_speed.about(view(tmp_path, grid()), "cpu")
    assert re.search(r"resident set grew .*: runs of one cell differ in it by up to \d\.\d+ MiB here", said)
    gpu = view(tmp_path / "gpu", grid(device="cuda"))
    assert "what torch had allocated at most" in training_speed.about(gpu, "cuda")


def test_pre_training_is_in_the_budget_and_in_the_caveats() -> None:
    mae = reference("mae-small")
    recipes = [p.trial.train for p in mae.planned if isinstance(p.trial, TrainTrial)]
    assert spent.budget(mae, recipes).startswith(
        "15 epochs a run (1,185 steps) after 0 or 40 epochs of masked pre-training; 1.68 to 12.9 TFLOP a run, all"
    )
    said = dict(stated(mae))["unequal-budgets"]
    assert "by start and trained: 1.68 to 12.9 TFLOP a run, masked pre-training included" in said
    assert "pre-training, counts with its time, and not with its images" in training_speed.about(mae, "cpu")
    assert 0.85 < mae.contention("cpu").share < 1, "two workers, of which one waits at a look for the other"


def test_what_cells_are_given_is_said_where_it_differs(tmp_path: Path) -> None:
    assert settings.in_words(reference("mae-small"), "learning_rate") == "0.01 (linear probe) or 0.001 (everything)"
    assert "learning rate 0.01 (linear probe) or 0.001" in dict(stated(reference("mae-small")))["settings-by-cell"]
    cells = [CellPlan("slow", {"train.learning_rate": 1e-4}), CellPlan("quick", {}), CellPlan("post", {"norm": "post"})]
    named = view(tmp_path / "named", Plan(cells, seeds=(0, 1), time=False))
    assert settings.in_words(named, "learning_rate") == "0.0001 (slow) or 0.001 (quick, post)"
    assert "learning_rate 0.0001 (slow) or 0.001 (quick, post)" in written(account.settings(named))
    axis = view(tmp_path / "axis", factorial({"train.learning_rate": (1e-3, 3e-3)}, seeds=(0, 1), time=False))
    assert settings.in_words(axis, "learning_rate") is None, "that is what is compared"
    assert "settings-by-cell" not in dict(stated(axis))
    longer = view(tmp_path / "longer", factorial({"train.epochs": (2, 6), "norm": ("pre", "post")}, time=False))
    assert "Budgets differ** by train.epochs: " in dict(stated(longer))["unequal-budgets"]
    assert "unequal-budgets" not in dict(stated(view(tmp_path / "alike", grid())))


def test_only_what_was_timed_is_said_of_the_model(tmp_path: Path) -> None:
    core = view(tmp_path, factorial({"attention": ("sdpa", "batched")}, train=False, levels=("attention_core",)))
    (model,) = [line for line in written(account.settings(core)).splitlines() if line.startswith("- **model**")]
    assert "dim 64" in model and "heads 4" in model
    assert not re.search("patching|mlp|num_classes|depth|norm", model)


def test_timings_of_too_few_samples_are_said_to_have_no_interval(tmp_path: Path) -> None:
    plan = factorial({"norm": ("pre", "post")}, train=False, changed=lambda values: fewer(beside(values)))
    assert "no-interval-of-ratios" in dict(stated(view(tmp_path, plan)))


def fewer(values: Values) -> Values:
    assert isinstance(values, TimeValues)
    return values.model_copy(update={"processes": values.processes[:1]})


def test_software_and_commit_are_said_once(tmp_path: Path) -> None:
    text = written(account.settings(view(tmp_path, grid())))
    assert "torch" not in text and "commit" not in text and "Example CPU 3000" in text
