"""The rules that make a comparison of accuracies trustworthy, each kept by a test of its own.

Rules 13 to 22 are about timing (tests/timing, tests/runner/test_controls.py), 23 to 26 about reports (tests/report).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from scipy import stats

from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, Plan, build, factorial, no_triton, render
from tests.report.markdown import Page, read_page
from tests.small import DATA, MODEL, train_trial
from vitbench import registry
from vitbench.analysis.conclusions import conclude
from vitbench.analysis.factorial import runs_of
from vitbench.analysis.frames import trials_frame
from vitbench.analysis.grouped import noise_floor_of
from vitbench.analysis.multiplicity import seeds_for
from vitbench.analysis.outlook import outlook
from vitbench.analysis.paired import sign_flip_p
from vitbench.analysis.power import power
from vitbench.analysis.verdicts import Comparison, Verdict, judge
from vitbench.config import TrainSpec, read_suite
from vitbench.config.recipe import TrainTable
from vitbench.data.batches import Batches
from vitbench.data.images import Images
from vitbench.data.load import splits
from vitbench.model.build import build_model
from vitbench.store import TuneValues
from vitbench.streams import derive
from vitbench.training import loop
from vitbench.training.stepper import Stepper

AXES = {"attention": ("batched", "sdpa"), "norm": ("pre", "post"), "positions": ("learned", "none")}
SHIPPED = sorted((REPOSITORY / "ablations").glob("*.toml"))


def page(folder: Path, plan: Plan) -> Page:
    render(build(folder / "study", plan), folder / "report")
    return read_page(folder / "report")


def arms_of(seed: int, n: int, mean: float = 0.0, scale: float = 1.0) -> Comparison:
    """Two arms of normal runs."""
    variant, baseline = scale * np.random.default_rng(seed).normal((mean / scale, 0.0), 1.0, (n, 2)).T
    deltas = tuple((variant - baseline).tolist())
    return Comparison(str(seed), deltas, n, variant=tuple(variant.tolist()), baseline=tuple(baseline.tolist()))


def test_rule_1_a_row_says_which_slot_differs_from_which_baseline_and_the_design_has_its_name(tmp_path: Path) -> None:
    grid = page(tmp_path / "grid", factorial(AXES, seeds=(0, 1), time=False))
    assert "full factorial, attention (2) × norm (2) × positions (2): 8 cells" in grid.text
    rows = grid.effects()
    assert [(r["axis"], r["value"], r["against"]) for r in rows] == [
        ("norm", "post", "pre"),
        ("positions", "none", "learned"),
    ]
    cells = [CellPlan("plain", {}), CellPlan("post-norm", {"norm": "post"})]
    named = page(tmp_path / "named", Plan(cells, seeds=(0, 1), time=False))
    assert "2 named variants of one base" in named.text and len(named.table("cell", "Named cells")) == 1


def test_rule_2_what_is_neither_under_study_nor_tuned_is_printed_as_a_caveat(tmp_path: Path) -> None:
    text = page(tmp_path / "fixed", factorial(AXES, time=False)).text
    said = text[text.index("Fixed for all cells and not tuned for each, which may favour some:") :].splitlines()[0]
    for fixed in ("learning rate 0.001", "weight decay 0", "warmup epochs 0", "schedule cosine", "optimizer adamw",
                  "batch size 64", "epochs 3"):  # fmt: skip
        assert fixed in said
    varied = factorial({"train.learning_rate": (1e-3, 3e-3), "norm": ("pre", "post")}, time=False)
    assert "some: weight decay" in page(tmp_path / "varied", varied).text


def test_rule_3_steps_operations_time_and_parameters_stand_beside_accuracy(tmp_path: Path) -> None:
    shown = page(tmp_path, factorial(AXES, time=False))
    rows = shown.table("test accuracy (%)", "Accuracy")
    same = re.search(r"^Test accuracy by cell.* Equal in every row: (.*)\.$", shown.text, re.MULTILINE)
    for name in ("steps", "TFLOP per run", "s per run", "parameters"):
        values = [row[name] for row in rows if name in row] or re.findall(rf"{name} ([\d.,]+)", same[1] if same else "")
        assert values and all(float(value.split()[0].replace(",", "")) > 0 for value in values), name


def test_rule_4_selection_reads_validation_and_test_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = splits(DATA, MODEL, seed=0)
    assert (len(images.train), len(images.validation), len(images.test)) == (160, 40, 60)
    pixels = {bytes(p.flatten().tolist()) for p in images.train.pixels}
    assert not pixels & {bytes(p.flatten().tolist()) for p in images.validation.pixels}
    seen = []

    def counted(stepper: Stepper, some: Sequence[Images], *rest: Any) -> list[loop.Tally]:
        seen.append(len(some[0]))
        return evaluate(stepper, some, *rest)

    evaluate = loop.evaluate
    monkeypatch.setattr(loop, "evaluate", counted)
    values = loop.train(train_trial(), torch.device("cpu"), lambda text: None)
    assert seen == [40, 60] and values.test_readings == seen.count(60), "validation after the epoch, test at the end"
    assert not [name for name in TuneValues.model_fields if "test" in name]
    assert "The test images were read 8 times for 8 finished runs" in page(tmp_path, factorial(AXES, time=False)).text


def test_rule_5_each_use_of_chance_has_a_stream_and_every_cell_of_a_seed_the_same_data() -> None:
    streams = ("init", "order", "augmentation", "dropout", "split")
    assert len({derive(seed, stream) for seed in (0, 1) for stream in streams}) == 2 * len(streams)
    # The batches' hash across all components: tests/training/test_loop.py::test_every_cell_sees_the_same_batches.
    digests = [
        Batches(splits(DATA, MODEL, seed), TrainSpec(batch_size=50, flip=True), seed).digest() for seed in (0, 0, 1)
    ]
    assert digests[0] == digests[1] != digests[2]
    for slot in registry.slots():
        names = [name for name in registry.names(slot) if registry.facts(slot, name).exact]
        models = [MODEL.model_copy(update={slot: name}) for name in names]
        states = [build_model(m, seed=3).state_dict() for m in models if not m.conflicts()]
        for state in states[1:]:
            assert all(torch.equal(state[name], value) for name, value in states[0].items()), slot


def test_rule_6_claims_of_every_suite_can_be_decided_by_its_seeds() -> None:
    for path in SHIPPED:
        suite = read_suite(path)
        if suite.facts:
            assert not [said for said in outlook(suite) if "underpowered" in said], path.name


def test_rule_6_full_suites_have_five_seeds_and_one_seed_is_no_inference(tmp_path: Path) -> None:
    seeds = {path.stem: {len(cell.seeds) for cell in read_suite(path).cells if cell.train} for path in SHIPPED}
    quick = {"components"}  # ten minutes on two cores leave no time for a second seed: its report says what that means
    trained = {name: counts for name, counts in seeds.items() if counts}
    assert len(trained) >= 8 and all(min(counts) >= 5 for name, counts in trained.items() if name not in quick)
    assert "n = 1, no inference" in page(tmp_path, factorial(AXES, time=False)).text
    assert isinstance(TrainTable().seeds, tuple), "a suite that says nothing trains one seed, and its report says so"


def test_rule_7_arms_are_paired_by_seed_where_they_share_what_they_start_from_and_else_are_not() -> None:
    rng = np.random.default_rng(0)
    luck = rng.normal(0, 5.0, 8)  # of a shared start: far larger than the effect
    baseline, variant = tuple(60 + luck), tuple(60.5 + luck + rng.normal(0, 0.1, 8))
    deltas = tuple(v - b for v, b in zip(variant, baseline, strict=True))
    arms = Comparison("v", deltas, planned=8, variant=variant, baseline=baseline)
    (apart,) = judge([arms], margin=None, noise_floor=None)
    assert (apart.verdict, apart.paired) == ("undecided", False)
    assert apart.p >= stats.ttest_ind(variant, baseline, equal_var=False).pvalue - 1e-9
    (found,) = judge([replace(arms, paired=True)], margin=None, noise_floor=None)
    assert (found.verdict, found.paired) == ("better", True) and found.interval.low > 0
    assert found.p == pytest.approx(stats.ttest_rel(variant, baseline).pvalue)
    assert found.p_permutation == sign_flip_p(deltas) == 2 / 2**8, "exact: all signs alike, by enumeration"


@pytest.mark.parametrize(("comparisons", "seeds"), [(1, 4), (5, 5), (10, 6), (20, 6), (50, 7)])
def test_rule_8_too_few_seeds_for_the_report_are_underpowered_never_not_significant(
    comparisons: int, seeds: int
) -> None:
    assert seeds_for(comparisons) == seeds

    def verdicts(n: int) -> set[str]:
        rows = [arms_of(i, n, 50.0) for i in range(comparisons)]
        return {j.verdict for j in judge(rows, margin=None, noise_floor=None)}

    assert verdicts(seeds - 1) == {"underpowered"} and verdicts(seeds) == {"better"}


def test_rule_9_there_are_six_verdicts_and_two_failed_seeds_are_invalid() -> None:
    assert set(get_args(Verdict)) == {"better", "worse", "equivalent", "undecided", "underpowered", "invalid"}
    rows = {
        "better": arms_of(0, 9, 8.0),
        "worse": arms_of(0, 9, -8.0),
        "equivalent": arms_of(1, 9, scale=0.01),
        "undecided": arms_of(2, 9, 1.0, scale=2.0),
        "underpowered": arms_of(3, 9, scale=20.0),
        "invalid": replace(arms_of(0, 7, 8.0), planned=9, failed=2),
    }
    found = judge(list(rows.values()), margin=3.0, noise_floor=None)
    assert [j.verdict for j in found] == list(rows)


def test_rule_10_a_main_effect_is_over_every_matched_pair_and_interactions_are_reported(tmp_path: Path) -> None:
    study = build(tmp_path / "study", factorial(AXES, seeds=(0, 1, 2), time=False, state=no_triton))
    frame = trials_frame(study)
    train_rows = frame[frame["kind"] == "train"]
    (runs,) = runs_of(train_rows, AXES)
    (norm, _) = conclude(runs, AXES, ["norm", "positions"], margin=None, noise_floor=None).effects
    pairs = train_rows.pivot_table(index=["attention", "positions", "seed"], columns="norm", values="test_accuracy_pct")
    by_hand = (pairs["post"] - pairs["pre"]).groupby("seed").mean()
    assert norm.judged.comparison.blocks == 4
    assert norm.judged.comparison.deltas == pytest.approx(by_hand.tolist())
    render(study, tmp_path / "report")
    assert len(read_page(tmp_path / "report").table("interaction", "Interactions")) == 1


def test_rule_11_the_spread_of_equivalent_implementations_is_the_noise_floor_and_marks_what_is_below_it(
    tmp_path: Path,
) -> None:
    def accuracy(cell: CellPlan, seed: int) -> float:
        shift = 0.4 if cell.axes["attention"] == "sdpa" else 0.0
        return (
            60.0
            + seed
            + shift
            + (0.2 if cell.axes["norm"] == "post" else 0.0)
            - 3.0 * (cell.axes["positions"] == "none")
        )

    plan = factorial(AXES, seeds=tuple(range(8)), time=False, accuracy=accuracy)
    frame = trials_frame(build(tmp_path / "again", plan))
    noise = noise_floor_of(frame[frame["kind"] == "train"])
    assert noise is not None and noise.largest == pytest.approx(0.4)
    found = page(tmp_path, plan)
    assert "differ by up to 0.40 points" in found.text
    marked = {r["axis"]: "‡" in r["difference (points)"] for r in found.effects()}
    assert marked == {"norm": True, "positions": False}


def test_rule_12_the_statistics_hold_in_simulation() -> None:
    """In small here; false positives, coverage and power in full in tests/analysis/test_simulation.py."""
    studies = [arms_of(seed, 6) for seed in range(400)]
    judged = [judge([study], margin=None, noise_floor=None)[0] for study in studies]
    assert statistics.fmean(j.p <= 0.05 for j in judged) <= 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5
    assert statistics.fmean(j.interval.holds(0.0) for j in judged) >= 0.95 - 2 * (0.05 * 0.95 / 400) ** 0.5
    found = [judge([arms_of(seed, 6, 1.5 * 2**0.5)], margin=None, noise_floor=None)[0] for seed in range(400)]
    assert statistics.fmean(j.p <= 0.05 for j in found) == pytest.approx(power(1.5, 6), abs=0.06 + 2 * 0.5 / 20)
