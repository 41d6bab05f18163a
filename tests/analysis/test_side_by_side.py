"""Studies side by side: which trials are one row, what is compared with what, and what is kept apart."""

import itertools
import re
import shutil
from pathlib import Path

import pytest

from tests.analysis.test_comparison import Timed, cells, write
from tests.report.builders import CPU, GPU, CellPlan, Plan, build, factorial
from vitbench.analysis.arms import MOST_ARMS, folder_of, names_of
from vitbench.analysis.side_by_side import SideBySide, side_by_side, verdict
from vitbench.analysis.sides import ComparisonError
from vitbench.store import StudyFolder, TrainValues

AXES = {"attention": ("per_head", "sdpa"), "positions": ("learned", "none")}
SEEDS = tuple(range(8))


def made(folder: Path, **changes: object) -> Path:
    return build(folder, factorial(AXES, seeds=SEEDS, **changes)).path


def differing(comparison: SideBySide) -> dict[str, tuple[str, ...]]:
    return {each.name: each.values for each in comparison.conditions if each.differs}


def test_a_copy_differs_in_nothing(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    shutil.copytree(old, tmp_path / "new")
    comparison = side_by_side([old, tmp_path / "new"])
    assert differing(comparison) == {} and [arm.letter for arm in comparison.arms] == ["A", "B"]
    assert len(comparison.timings) == 8
    assert {row.changes[1].word for row in comparison.timings if row.changes[1]} == {"identical"}
    assert len(comparison.cells) == 4 and {verdict(row.judged[1]) for row in comparison.cells} == {"identical"}
    assert comparison.exit_status(0.001) == 0


def test_a_gpu_stands_beside_a_cpu_though_no_trial_has_the_same_id(tmp_path: Path) -> None:
    cpu = made(tmp_path / "cpu")
    gpu = made(tmp_path / "gpu", device="cuda", environment=lambda cell, seed: GPU)
    comparison = side_by_side([cpu, gpu])
    ids = [set(arm.trials["trial_id"]) for arm in comparison.arms]
    assert not ids[0] & ids[1]
    assert len(comparison.timings) == 8 and all(all(row.timings) and row.changes[1] for row in comparison.timings)
    judged = [row.judged[1] for row in comparison.cells]
    assert len(judged) == 4 and all(cell and cell.n == len(SEEDS) for cell in judged)
    assert differing(comparison)["runs on"] == ("cpu", "cuda")
    assert differing(comparison)["accelerator"] == ("none", "Example GPU 9000")


def test_threads_are_those_of_the_timings_and_not_of_a_training(tmp_path: Path) -> None:
    def threads(training: int) -> Path:
        study = StudyFolder.read(made(tmp_path / str(training)))
        records = [record for of_trial in study.records().values() for record in of_trial]
        shutil.rmtree(study.path / "records")
        (study.path / "records").mkdir()
        for record in records:
            used = training if record.trial.kind == "train" else 2
            study.write(record.model_copy(update={"environment": CPU.model_copy(update={"threads": used})}))
        return study.path

    assert "CPU threads" not in differing(side_by_side([threads(1), threads(2)]))


def test_what_was_planted_is_found_in_the_accuracies(tmp_path: Path) -> None:
    planted = {"learned": 0.0, "none": 2.0}
    old = made(tmp_path / "old", accuracy=lambda cell, seed: 40.0 + seed % 3)
    new = made(tmp_path / "new", accuracy=lambda cell, seed: 40.0 + seed % 3 + planted[cell.axes["positions"]])
    verdicts = {row.label: verdict(row.judged[1]) for row in side_by_side([old, new]).cells}
    assert len(verdicts) == 4
    assert verdicts == {label: "better" if "none" in label else "identical" for label in verdicts}


def test_another_recipe_is_said_and_other_images_are_not_compared_seed_by_seed(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    longer, other = made(tmp_path / "longer", epochs=5), made(tmp_path / "other", test_images=500)
    recipe, data = side_by_side([old, longer]), side_by_side([old, other])
    assert len(recipe.cells) == len(data.cells) == 4, "one row for one cell"
    assert {row.apart[1] for row in recipe.cells} == {("epochs 3 → 5",)}
    assert all(row.judged[1] for row in recipe.cells)
    assert {row.apart[1] for row in data.cells} == {("data",)} and not any(row.judged[1] for row in data.cells)


def test_pixels_that_were_others_than_planned_are_other_images(tmp_path: Path) -> None:
    """Data of one name and identity have two checksums: what was seen counts."""
    old = made(tmp_path / "old")
    new = made(tmp_path / "new", changed=lambda values: values.model_copy(
        update={"data_checksum": "ef" * 32} if isinstance(values, TrainValues) else {}))  # fmt: skip
    assert all(row.apart[1] == ("data",) and row.judged[1] is None for row in side_by_side([old, new]).cells)


def test_devices_and_environments_of_one_study_stand_apart(tmp_path: Path) -> None:
    other = CPU.model_copy(update={"cpu": "another processor", "device_name": "another processor"})
    mixed = made(tmp_path / "mixed", environment=lambda c, s: other if c.axes["positions"] == "none" else CPU)
    single = made(tmp_path / "single")
    comparison = side_by_side([single, mixed])
    assert [arm.name for arm in comparison.arms] == ["single", "mixed, environment 1", "mixed, environment 2"]
    assert differing(comparison)["processor"] == ("Example CPU 3000", "Example CPU 3000", "another processor")
    for row in comparison.cells:
        assert (row.cells[1] is None) == ("none" in row.label) and (row.cells[2] is None) == ("none" not in row.label)


THERE = CPU.model_copy(update={"cpu": "Other CPU", "device_name": "Other CPU"})
NEXT = {"code": "fedcba987654"}
ON_GPU = CPU.model_copy(update={"device_name": "Example GPU 9000", "cuda": "13.0"})


def on_two_machines(second: float = 1.0, version: dict[str, str] | None = None) -> dict[str, Timed]:
    """Two cells, the second of which ran on another machine."""
    here, there = (each.model_copy(update=version or {}) for each in (CPU, THERE))
    return {"cell 1": Timed(environment=here), "cell 2": Timed(slower=second, environment=there)}


def on_two_devices(cpu: float = 1.0, gpu: float = 0.1, *, first: str = "cpu") -> dict[str, Timed]:
    """One cell on a processor and on a GPU."""
    both = {"cpu cell 1": Timed(cpu), "cuda cell 1": Timed(gpu, environment=ON_GPU, device="cuda")}
    return dict(sorted(both.items(), key=lambda each: not each[0].startswith(first)))


def test_each_machine_is_compared_with_itself_in_the_first_study(tmp_path: Path) -> None:
    old = write(tmp_path / "old", on_two_machines())
    same = side_by_side([old, write(tmp_path / "same", on_two_machines(version=NEXT), seed=1)])
    slow = side_by_side([old, write(tmp_path / "slow", on_two_machines(2.0, NEXT), seed=1)])
    assert same.pairs == slow.pairs == ((1, 0), (2, 0), (3, 1))
    assert (same.exit_status(0.05), slow.exit_status(0.05)) == (0, 1)
    assert [line.partition(":")[0] for line in slow.summaries(0.05)] == ["C against A", "D against B"]
    (row,) = (row for row in slow.timings if row.timings[0] is None)
    assert row.bases == (None, None, None, 1) and row.changes[3] and row.changes[3].word == "slower"


def test_one_set_of_conditions_is_compared_with_all_of_the_first_study(tmp_path: Path) -> None:
    """A study was resumed after a change of code, and then run anew."""
    old = write(tmp_path / "old", on_two_machines())
    comparison = side_by_side([old, write(tmp_path / "new", cells(2, {2: 2.0}), seed=1)])
    assert comparison.pairs == ((1, 0), (2, 0), (2, 1)) and [*comparison.sections] == [(2, 0), (2, 1)]
    assert [row.bases[2] for row in comparison.timings] == [0, 1] and comparison.exit_status(0.05) == 1


def test_a_device_of_the_first_study_is_no_regression_and_hides_none(tmp_path: Path) -> None:
    old = write(tmp_path / "old", on_two_devices(first="cuda"))

    def status(**slower: float) -> int:
        name = "-".join(slower) or "same"
        return side_by_side([old, write(tmp_path / name, on_two_devices(**slower), seed=1)]).exit_status(0.05)

    assert (status(), status(cpu=1.5), status(gpu=0.15)) == (0, 1, 1)


def test_the_devices_of_one_study_stand_side_by_side_without_a_gate(tmp_path: Path) -> None:
    comparison = side_by_side([write(tmp_path / "one", on_two_devices(first="cuda"))])
    assert [arm.device for arm in comparison.arms] == ["cuda", "cpu"] and comparison.exit_status(None) == 0
    assert comparison.timings[0].changes[1] and comparison.timings[0].changes[1].word == "slower"
    assert "regression" not in " ".join(comparison.summaries(0.05))
    with pytest.raises(ComparisonError, match="nothing to judge"):
        comparison.exit_status(0.05)
    with pytest.raises(ComparisonError, match="two studies, or one that ran on two devices"):
        side_by_side([write(tmp_path / "plain", cells(2))])


def test_what_cannot_be_judged_is_left_out_of_the_gate_unless_nothing_can(tmp_path: Path) -> None:
    first, slow = write(tmp_path / "first", cells(2)), write(tmp_path / "slow", cells(2, {2: 1.5}), seed=1)
    few = write(tmp_path / "few", cells(2, processes=1, rounds=3), seed=2)
    assert side_by_side([first, few, slow]).exit_status(0.05) == 1
    assert side_by_side([first, few, first]).exit_status(0.05) == 0
    with pytest.raises(ComparisonError, match="nothing to judge"):
        side_by_side([first, few]).exit_status(0.05)


def test_a_device_without_a_result_is_not_given_anothers_machine(tmp_path: Path) -> None:
    timings = on_two_devices() | {"cuda cell 1": Timed(state="pending", device="cuda")}
    cpu, cuda = side_by_side([write(tmp_path / "one", timings)]).arms
    assert cpu.platform is not None and cpu.platform.machine["processor"] == CPU.cpu and cuda.platform is None


def test_a_device_that_the_first_study_lacks_is_no_regression(tmp_path: Path) -> None:
    """A processor is slower than a GPU in the same study: that is no change."""
    gpu, both = on_two_devices(), write(tmp_path / "both", on_two_devices(), seed=1)
    del gpu["cpu cell 1"]
    old = write(tmp_path / "old", gpu)
    assert side_by_side([old, both]).exit_status(0.05) == 0
    with pytest.raises(ComparisonError, match="nothing to judge"):
        side_by_side([old, write(tmp_path / "cpu", cells(1), seed=2)]).exit_status(0.05)
    (missing,) = side_by_side([both, old]).changes(2, 1).alone
    assert missing.word == "only in A"


def test_no_pair_is_lost_where_one_row_holds_two_recipes(tmp_path: Path) -> None:
    def study(name: str, **epochs: int) -> Path:
        plan = Plan([CellPlan(label, {"train.epochs": n}) for label, n in epochs.items()], time=False)
        return build(tmp_path / name, plan).path

    comparison = side_by_side([study("a", x=3), study("b", x=7), study("c", x=3, y=7), study("d", x=3, z=7)])
    assert [[cell.planned.cell if cell else None for cell in row.cells] for row in comparison.cells] == [
        ["x", "x", "x", "x"], [None, None, "y", "z"],
    ]  # fmt: skip


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    first, second = write(tmp_path / "A", cells(1)), write(tmp_path / "B", {"cell 7": Timed()})
    with pytest.raises(ComparisonError, match=r"nothing to compare: .* none is in two"):
        side_by_side([first, second])
    build(tmp_path / "empty", Plan(cells=[]))
    with pytest.raises(ComparisonError, match="empty: its plan holds nothing that is trained or timed"):
        side_by_side([first, tmp_path / "empty"])
    with pytest.raises(ComparisonError, match=f"at most {MOST_ARMS} can stand side by side"):
        side_by_side([first] * (MOST_ARMS + 1))


def test_a_study_without_any_record_is_compared(tmp_path: Path) -> None:
    build(tmp_path / "new", Plan([CellPlan("a", {})], state=lambda c, k, s: ("pending", "")))
    build(tmp_path / "old", Plan([CellPlan("a", {})]))
    comparison = side_by_side([tmp_path / "old", tmp_path / "new"])
    assert {row.changes[1].word for row in comparison.timings if row.changes[1]} == {"pending"}
    assert comparison.arms[1].platform is None and differing(comparison) == {}


def test_folders_are_named_by_as_much_as_tells_them_apart(tmp_path: Path) -> None:
    paths = [tmp_path / "main" / "study", tmp_path / "branch" / "study"]
    assert names_of(paths) == ["main/study", "branch/study"]
    assert folder_of(paths).startswith("compare-main-study+branch-study@")
    assert names_of([paths[0], paths[0]]) == ["study", "study"]


def test_other_studies_or_another_order_give_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # studies in the working folder's results/ are told by their names alone
    at_home = [Path("results") / name for name in ("a", "b", "a-b", "b-c", "c", "a+b")]
    assert folder_of(at_home[:3]) == "compare-a+b+a-b" == folder_of([path.resolve() for path in at_home[:3]])
    long = [Path("results") / f"{'long' * 30}-{n}" for n in range(5)]
    spaced = [Path("results") / name for name in ("$(rm x)", "-a b", "a b", "..")]
    elsewhere = [tmp_path / "other" / name for name in ("a", "b", "c")]
    of_three_bytes = [Path("results") / f"{'日' * 80}{name}" for name in "ab"]
    sets = [chosen for paths in (at_home, long, spaced, elsewhere, of_three_bytes) for n in (1, 2, 3)
            for chosen in itertools.permutations(paths, n)]  # fmt: skip
    names = [folder_of(chosen) for chosen in sets]
    assert len(set(names)) == len(sets)
    assert all(len(name) < 150 and re.fullmatch(r"compare-[\w.+@-]+", name, re.ASCII) for name in names)
    same = [tmp_path / "a" / "b", tmp_path / "c" / "b"], [tmp_path / "a-b", tmp_path / "c-b"]
    assert folder_of(same[0]) != folder_of(same[1])
