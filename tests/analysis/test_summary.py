"""Cells over seeds, axes over matched blocks, noise of equivalent implementations: against computations by hand."""

import itertools
import statistics
from pathlib import Path

import pandas as pd
import pytest

from tests.report.builders import COMPONENTS, CPU, GPU, CellPlan, Plan, build, factorial, no_triton
from vitbench.analysis.frames import epochs_frame, processes_frame, trials_frame
from vitbench.analysis.grouped import (
    ACCURACY,
    TIME_BLOCK,
    TRAIN_BLOCK,
    matched,
    noise_floor_of,
    over_seeds,
    texts,
)

AXES = {axis: tuple(values) for axis, values in COMPONENTS.items()}
NORM = {"norm": ("pre", "post")}


def train_rows(path: Path, plan: Plan) -> pd.DataFrame:
    frame = trials_frame(build(path, plan))
    return frame[frame["kind"] == "train"].assign(validation_accuracy_pct=50.0)


def accuracies(frame: pd.DataFrame) -> dict[tuple[str, ...], float]:
    rows = frame[frame["state"] == "ok"]
    return {(*(row[a] for a in AXES), str(row["seed"])): row[ACCURACY] for row in rows.to_dict("records")}


@pytest.mark.parametrize("axis", AXES)
def test_matched_means_are_those_of_the_blocks_that_are_complete(tmp_path: Path, axis: str) -> None:
    def state(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
        if cell.axes["norm"] == "post" and cell.axes["positions"] == "none" and seed == 1:
            return "diverged", "loss is nan"
        return no_triton(cell, kind, seed)

    frame = train_rows(tmp_path, factorial(COMPONENTS, seeds=(0, 1), state=state, time=False))
    known = accuracies(frame)
    place = list(AXES).index(axis)
    present = [v for v in AXES[axis] if v != "triton"]
    others = [values for name, values in AXES.items() if name != axis]
    blocks = [
        [known.get((*key[:place], value, *key[place:])) for value in present]
        for key in itertools.product(*others, ("0", "1"))
    ]
    complete = [b for b in blocks if None not in b]
    partial = [b for b in blocks if None in b and b != [None] * len(b)]

    matches = matched(frame, AXES, axis, ACCURACY, TRAIN_BLOCK)
    assert list(matches.table.columns) == present
    assert sorted(map(tuple, matches.table.to_numpy())) == sorted(map(tuple, complete))
    assert matches.incomplete == len(partial)
    for i, value in enumerate(present):
        assert matches.table[value].mean() == pytest.approx(statistics.fmean(b[i] for b in complete))
        expected = statistics.fmean(b[i] - b[0] for b in complete)
        assert matches.differences()[value].mean() == pytest.approx(expected)


def test_blocks_never_cross_machines(tmp_path: Path) -> None:
    plan = factorial(NORM, seeds=(0, 1), environment=lambda c, s: GPU if (c.axes["norm"], s) == ("post", 1) else CPU)
    frame = train_rows(tmp_path, plan)
    matches = matched(frame, NORM, "norm", ACCURACY, TRAIN_BLOCK)
    assert (len(matches.table), matches.incomplete, len(over_seeds(frame))) == (1, 2, 3)


def test_variants_outside_the_grid_are_in_no_block(tmp_path: Path) -> None:
    plan = factorial(NORM)
    plan.cells.append(CellPlan("special", {"norm": "post", "depth": 5}))
    frame = trials_frame(build(tmp_path, plan))
    assert set(frame.loc[~frame["factorial"], "cell"]) == {"special"}
    assert set(frame["depth"]) == {2, 5}  # the others have the base's
    assert len(matched(frame, NORM, "norm", ACCURACY, TRAIN_BLOCK).table) == 1
    assert len(matched(frame, NORM, "norm", "latency_ms_p50", TIME_BLOCK).table) == 2  # two modes


def test_an_axis_without_any_result_has_an_empty_table(tmp_path: Path) -> None:
    frame = train_rows(tmp_path, factorial(NORM, state=lambda *_: ("oom", "")))
    matches = matched(frame, NORM, "norm", ACCURACY, TRAIN_BLOCK)
    assert matches.table.empty
    assert over_seeds(frame).empty
    assert noise_floor_of(frame) is None


def test_noise_of_equivalent_implementations_is_their_spread_at_the_same_seed(tmp_path: Path) -> None:
    frame = train_rows(tmp_path, factorial(COMPONENTS, seeds=(0, 1), state=no_triton, time=False))
    groups: dict[tuple[str, ...], list[float]] = {}
    for (_, _, norm, positions, seed), value in accuracies(frame).items():
        groups.setdefault((norm, positions, seed), []).append(value)
    assert {len(g) for g in groups.values()} == {6}
    noise = noise_floor_of(frame)
    assert noise is not None
    assert (noise.groups, noise.runs) == (12, 72)
    assert noise.largest == pytest.approx(max(max(g) - min(g) for g in groups.values()))
    pooled = statistics.fmean(statistics.variance(g) for g in groups.values())
    assert noise.std == pytest.approx(pooled**0.5)


def test_cells_that_differ_in_more_than_exact_components_are_not_equivalent(tmp_path: Path) -> None:
    cells = {"base": {}, "batched": {"attention": "batched"}, "no attention": {"attention": "none"},
             "rate": {"train.learning_rate": 0.01}, "wide": {"dim": 128}}  # fmt: skip
    frame = train_rows(tmp_path, Plan([CellPlan(name, axes) for name, axes in cells.items()], time=False))
    assert list(frame["function"]) == ["base", "base", "no attention", "rate", "wide"]


def test_values_that_are_equal_as_numbers_have_texts_of_their_own() -> None:
    assert texts(pd.Series([1, True, 1.0, "1", None, False, 0, True], dtype=object)) == [
        "1", "true", "1", "1", "n/a", "false", "0", "true"]  # fmt: skip
    assert texts(pd.Series([0.1, 0.1 + 1e-15, float("nan"), 2.0])) == ["0.1", "0.1", "n/a", "2"]
    assert texts(pd.Series(["b", "a", "b"])) == ["b", "a", "b"]
    assert texts(pd.Series([], dtype=object)) == []


def test_frames_hold_every_planned_trial_and_no_invented_number(tmp_path: Path) -> None:
    study = build(tmp_path, factorial(NORM, state=lambda *_: ("pending", "")))
    frame = trials_frame(study)
    assert len(frame) == 6 and set(frame["state"]) == {"pending"}
    assert frame["test_accuracy_pct"].dtype == "float64" and frame["test_accuracy_pct"].isna().all()
    assert epochs_frame(study).empty and processes_frame(study).empty
    nothing = trials_frame(build(tmp_path / "b", Plan(cells=[], axes={"norm": ("pre",)})))
    assert list(frame.columns) == list(nothing.columns)


def test_large_seeds_are_exact(tmp_path: Path) -> None:
    frame = trials_frame(build(tmp_path, Plan(cells=[CellPlan("a", {})], seeds=(2**64 - 1, 0))))
    assert set(frame["seed"].dropna()) == {2**64 - 1, 0}


def test_processes_are_medians_of_their_iterations(tmp_path: Path) -> None:
    study = build(tmp_path, Plan(cells=[CellPlan("a", {})], train=False, modes=("inference",), batch_sizes=(8,)))
    frame = processes_frame(study)
    (attempts,) = study.records().values()
    samples = attempts[0].values.processes
    assert list(frame["latency_ms_p50"]) == [statistics.median(s.latencies_ms) for s in samples]
    assert list(frame["images_per_s"]) == pytest.approx([8000 / statistics.median(s.latencies_ms) for s in samples])


def test_over_seeds_tells_mean_deviation_and_count(tmp_path: Path) -> None:
    frame = train_rows(tmp_path, factorial(NORM, seeds=(0, 1, 2), time=False))
    table = over_seeds(frame).set_index("cell")
    values = list(frame.loc[frame["cell"] == "pre", ACCURACY])
    assert table.loc["pre", f"{ACCURACY}_mean"] == pytest.approx(statistics.fmean(values))
    assert table.loc["pre", f"{ACCURACY}_std"] == pytest.approx(statistics.stdev(values))
    assert table.loc["pre", "n"] == 3
    single = over_seeds(frame[frame["seed"] == 0])
    assert single[f"{ACCURACY}_std"].isna().all()
