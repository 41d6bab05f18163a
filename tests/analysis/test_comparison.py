"""What counts as a change between two studies, what as a regression, and what is said about the two."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tests.small import MODEL, time_trial, train_trial
from vitbench.analysis.regressions import Change, compare, meanings, within
from vitbench.analysis.regressions import Changes as Compared
from vitbench.analysis.sides import ComparisonError, Side, read_side
from vitbench.analysis.timings import Measurement
from vitbench.config import TimeSpec
from vitbench.config.suite import Info
from vitbench.environment import Environment
from vitbench.store import PlannedTrial, Record, Samples, Study, StudyError, StudyInfo, TimeValues

HERE = Environment(
    cpu="Example CPU 3000", cpu_cores=2, memory_gib=8.0, device_name="Example CPU 3000",
    platform="Linux 6.1 x86_64", python="3.11.9", packages={"torch": "2.15.0", "numpy": "2.3.0"}, threads=2,
    load_average=1.2, vitbench="0.1.0", code="0123456789ab", commit="89abcdef", dirty=False,
)  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """One timing of a study to be written: how slow it is, and what became of it. A spread of 0 is no noise at all."""

    slower: float = 1.0
    state: str = "ok"
    spread: float = 0.02
    processes: int = 5
    rounds: int = 20
    environment: Environment | None = HERE
    device: str = "cpu"

    def values(self, chance: np.random.Generator) -> TimeValues:
        samples = []
        for _ in range(self.processes):
            luck = chance.normal(0, self.spread / 2)
            noise = np.abs(chance.normal(0, self.spread, self.rounds))
            latencies = 10.0 * self.slower * np.exp(luck + noise)
            samples.append(Samples(latencies_ms=tuple(latencies.tolist()), first_ms=50.0))
        middle = 10.0 * self.slower
        return TimeValues(
            latency_ms_p50=middle, latency_ms_p25=None, latency_ms_p75=None, process_ms_min=middle,
            process_ms_max=middle, images_per_s=8000 / middle, first_ms=50.0, peak_memory_mib=10.0, parameters=1,
            forward_flops=1, processes=tuple(samples),
        )  # fmt: skip


def planned(cell: str, device: str = "cpu") -> PlannedTrial:
    """A timing trial whose id belongs to its label: "cell 3" is the model of depth 3."""
    trial = time_trial(MODEL.model_copy(update={"depth": int(cell.rsplit(maxsplit=1)[-1])}))
    trial = trial.model_copy(update={"device": device})
    return PlannedTrial(id=trial.id, cell=cell, axes={}, exact={}, trial=trial)


def write(path: Path, cells: Mapping[str, Timed], seed: int = 0) -> Path:
    """The study that a run would have left; a cell of state "pending" has no record."""
    chance = np.random.default_rng(seed)
    trials = tuple(planned(cell, timed.device) for cell, timed in cells.items())
    info = StudyInfo(suite=Info(name="small", question="?"), suite_file="small.toml", axes={}, data_name="",
                     data_identity="", trials=trials)  # fmt: skip
    study = Study.start(path, info)
    tried = study.records()
    for trial, timed in zip(trials, cells.values(), strict=True):
        if timed.state == "pending":
            continue
        study.write(
            Record(
                trial_id=trial.id, attempt=len(tried.get(trial.id, [])) + 1, state=timed.state,
                reason="" if timed.state == "ok" else "a test", trial=trial.trial,
                values=timed.values(chance) if timed.state == "ok" else None, environment=timed.environment,
                started_at=datetime(2026, 3, 1, tzinfo=UTC), seconds=1.0,
            )
        )  # fmt: skip
    return path


def cells(number: int, slower: Mapping[int, float] | None = None, **rest: object) -> dict[str, Timed]:
    """Cells 1 to ``number``, some of them slower than the others."""
    return {f"cell {i}": Timed(slower=(slower or {}).get(i, 1.0), **rest) for i in range(1, number + 1)}


Between = Callable[[Mapping[str, Timed], Mapping[str, Timed]], Compared]


@pytest.fixture
def between(tmp_path: Path) -> Between:
    def compared(old: Mapping[str, Timed], new: Mapping[str, Timed]) -> Compared:
        sides: list[Side] = []
        for seed, side in enumerate((old, new)):
            sides.append(read_side(write(tmp_path / "AB"[seed], side, seed)))
        return compare(*sides)

    return compared


def words(found: Compared) -> dict[str, str]:
    return {change.label.split(",")[0]: change.word for change in found.changes}


def test_a_study_and_its_copy_are_identical(tmp_path: Path) -> None:
    one, two = (read_side(write(tmp_path / name, cells(4), seed=3)) for name in "AB")
    found = compare(one, two)
    assert set(words(found).values()) == {"identical"} and found.notes == ()
    assert [c.ratio.estimate for c in found.changes if c.ratio] == [1.0] * 4
    assert found.exit_status(0.0001) == 0
    assert compare(one, one).notes == ("A and B are the same.",)


@pytest.mark.parametrize(("regressions", "status"), [(0, 0), (1, 1), (2, 1), (6, 1)])
def test_any_number_of_regressions_fails_one_too(between: Between, regressions: int, status: int) -> None:
    """A defect in another harness: a gate that lets exactly one regression through."""
    found = between(cells(6), cells(6, dict.fromkeys(range(1, regressions + 1), 1.5)))
    assert len(found.regressions(0.05)) == regressions
    assert found.exit_status(0.05) == status
    assert found.exit_status(None) == 0


def test_a_slowdown_of_20_percent_is_a_regression_beyond_5_and_none_beyond_30(between: Between) -> None:
    found = between(cells(5), cells(5, {3: 1.2}))
    (slowest, *_) = found.changes
    assert slowest.label.startswith("cell 3") and slowest.word == "slower"
    assert slowest.ratio is not None and slowest.old is not None and slowest.new is not None
    assert slowest.ratio.low > 1.1 and slowest.ratio.estimate == pytest.approx(1.2, abs=0.05)
    assert slowest.new.estimate / slowest.old.estimate == pytest.approx(slowest.ratio.estimate)
    assert (found.exit_status(0.05), found.exit_status(0.3), found.exit_status(None)) == (1, 0, 0)
    assert "1 slower" in found.summary(0.3) and "no regression beyond 30 %" in found.summary(0.3)
    assert "1 regression beyond 5 %" in found.summary(0.05) and "regression" not in found.summary(None)


def test_what_became_faster_is_no_regression(between: Between) -> None:
    found = between(cells(3), cells(3, {1: 0.5, 2: 1.5}))
    assert [c.word for c in found.changes if c.label[5] in "12"] == ["slower", "faster"], "slowest change first"
    assert [c.label[5] for c in found.regressions(0.05)] == ["2"]


@pytest.mark.parametrize(("slower", "status"), [(1.05, 0), (1.0501, 1), (1.0, 0)])
def test_the_limit_itself_is_allowed(between: Between, slower: float, status: int) -> None:
    """Without noise, so that the estimate is what was planted, but for what log and exp do to its last bits."""
    found = between(cells(2, spread=0.0), cells(2, {1: slower}, spread=0.0))
    assert found.exit_status(0.05) == status


def test_the_last_bits_of_an_estimate_are_no_slowdown() -> None:
    def change(estimate: float) -> Change:
        return Change("a cell", "slower", ratio=Measurement(1.01, 1.1, estimate))

    assert not change(math.nextafter(1.05, 2.0)).regressed(0.05)
    assert change(1.0500001).regressed(0.05) and not change(1.0499999).regressed(0.05)


def test_a_large_difference_within_the_noise_is_no_regression(between: Between) -> None:
    found = between(cells(1, spread=0.8, processes=3), cells(1, {1: 2.2}, spread=0.8, processes=3))
    (change,) = found.changes
    assert change.ratio is not None and change.ratio.estimate > 1.05, "it looks slower"
    assert change.word == "undecided" and found.exit_status(0.05) == 0


def test_no_difference_seen_is_not_yet_equivalence(tmp_path: Path) -> None:
    """Equivalent is an interval within the margin as a whole, and one that can be believed."""

    def word(margin: float = 0.05, **of_both: object) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        old, new = (read_side(write(folder / name, cells(1, **of_both), seed)) for seed, name in enumerate("AB"))
        (change,) = compare(old, new, margin).changes
        assert change.ratio is not None and change.ratio.holds(1.0) and change.judged
        return change.word

    assert word(spread=0.02) == "equivalent" and word(0.005, spread=0.02) == "undecided"
    assert word(spread=0.1) == "undecided" and word(0.5, spread=0.1) == "equivalent"
    assert word(0.5, spread=0.002, processes=1) == "undecided", "no interval holds the luck of one process"
    assert word(5.0, spread=0.5) == "undecided", "neither timing is to be relied on"


def test_a_margin_means_the_same_in_either_direction_and_moves_no_gate(between: Between) -> None:
    assert math.prod(within(0.25)) == pytest.approx(1.0)
    found = between(cells(2, spread=0.002), cells(2, {2: 1.03}, spread=0.002))
    assert words(found) == {"cell 2": "slower", "cell 1": "equivalent"}, "a change is one however small"
    assert (found.exit_status(0.02), found.exit_status(0.05)) == (1, 0)


def test_words_are_explained_where_they_are_used() -> None:
    assert meanings([], 0.05) == meanings(["oom", "only in A"], 0.05) == []
    assert meanings(["slower"], 0.05) == ["Slower: the 95 % interval of the ratio excludes 1, by however little."]
    first, undecided, equivalent = meanings(["undecided", "faster", "slower"], 0.1)
    assert first.startswith("Slower and faster: ") and undecided.startswith("Undecided: ")
    assert "between 0.909 and 1.100 (a margin of 10 %)" in equivalent, "undecided is told by what equivalent is"


@pytest.mark.slow
def test_noise_alone_is_seldom_flagged(tmp_path: Path) -> None:
    """120 timings of two studies that differ in nothing: few are called slower, and the gate is passed."""
    old, new = (read_side(write(tmp_path / name, cells(120), seed)) for seed, name in enumerate("AB", 10))
    found = compare(old, new)
    assert sum(c.word in ("slower", "faster") for c in found.changes) <= 12, "an interval of 95 %"
    assert found.exit_status(0.05) == 0


@pytest.mark.parametrize("state", ["failed", "oom", "incorrect", "timeout", "crashed", "unsupported", "pending"])
def test_what_was_ok_and_is_not_any_more_is_a_regression(between: Between, state: str) -> None:
    found = between(cells(3), cells(3) | {"cell 2": Timed(state=state)})
    (first, *_) = found.changes
    assert (first.label[:6], first.word, first.lost, first.new) == ("cell 2", state, True, None)
    assert found.regressions(10.0) == [first]
    assert (found.exit_status(10.0), found.exit_status(None)) == (1, 0)
    assert found.summary(None) == f"3 timings: 1 {state}, 2 equivalent"


def test_what_was_not_ok_before_is_no_regression(between: Between) -> None:
    broken = Timed(state="oom")
    found = between(cells(3) | {"cell 2": broken, "cell 3": broken}, cells(3) | {"cell 3": Timed(state="failed")})
    assert words(found) == {"cell 1": "equivalent", "cell 2": "ok now"} and found.neither == 1
    assert found.summary(0.05) == "3 timings: 1 equivalent, 1 ok now, 1 ok in neither; no regression beyond 5 %"
    assert found.exit_status(0.05) == 0


def test_what_one_side_alone_has_is_listed_last(between: Between) -> None:
    old, new = cells(4), cells(5)
    del old["cell 1"], new["cell 2"]
    found = between(old, new)
    assert words(found) == {
        "cell 3": "equivalent", "cell 4": "equivalent", "cell 2": "only in A", "cell 1": "only in B",
        "cell 5": "only in B",
    }  # fmt: skip
    assert [c.word for c in found.changes][2:] == ["only in A", "only in B", "only in B"]
    assert found.exit_status(0.05) == 0


def test_too_few_samples_give_no_verdict_and_no_silent_pass(between: Between) -> None:
    few = {"processes": 1, "rounds": 5}
    found = between(cells(1, **few), cells(1, {1: 3.0}, **few))
    assert words(found) == {"cell 1": "too few samples"} and found.exit_status(None) == 0
    with pytest.raises(ComparisonError, match="nothing to judge: an interval takes 6 samples"):
        found.exit_status(0.05)


def test_nothing_in_common_is_an_error(between: Between, tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match=r"nothing to compare: 1 timing in A and 2 in B, and no planned timing"):
        between({"cell 1": Timed()}, {"cell 2": Timed(), "cell 3": Timed()})
    old = read_side(write(tmp_path / "oom", {"cell 1": Timed(state="oom")}))
    with pytest.raises(ComparisonError, match="none of the 1 timing that both have was ok in A"):
        compare(old, read_side(write(tmp_path / "ok", {"cell 1": Timed()})))


def test_other_machines_and_software_are_named(between: Between) -> None:
    big = HERE.model_copy(update={"cpu": "Other CPU", "device_name": "Other CPU", "threads": 8, "load_average": 7.0})
    newer = HERE.model_copy(update={"packages": {"torch": "2.16.0", "numpy": "2.3.0"}, "commit": "0", "code": "ba"})
    found = between(cells(2), {"cell 1": Timed(environment=big), "cell 2": Timed(environment=newer)})
    assert found.notes == (
        "The machines differ: processor (Example CPU 3000 → Other CPU), CPU threads (2 → 8). The comparison is "
        "between machines, and not between versions.",
        "The software differs: torch (2.15.0 → 2.16.0), code of vitbench (0123456789ab → ba).",
    )


def test_a_machine_that_was_not_recorded_is_said(between: Between) -> None:
    found = between(cells(2), cells(2) | {"cell 2": Timed(environment=None)})
    assert found.notes == ("On what machine and software was not recorded for 1 timing.",)


def test_one_process_is_said_since_its_luck_is_in_no_interval(between: Between) -> None:
    (note,) = between(cells(2), cells(2) | {"cell 2": Timed(processes=1)}).notes
    assert note.startswith("Of one process: 1 timing.")


def test_unstable_timings_and_damaged_records_are_said(tmp_path: Path) -> None:
    old, new = (write(tmp_path / name, cells(2), seed) for seed, name in enumerate("AB"))
    write(new, cells(2) | {"cell 3": Timed(spread=2.0)}, seed=9)
    write(old, cells(3), seed=9)
    damaged = next((new / "records").glob(f"{planned('cell 1').id}-*.json"))
    for file in (new / "records").glob(f"{planned('cell 1').id}-*.json"):
        file.write_text("{")
    found = compare(read_side(old), read_side(new))
    assert words(found)["cell 1"] == "pending" and found.exit_status(0.05) == 1
    assert "Unstable in B: 1 of 2 timings (`vitbench report` says why)." in found.notes
    assert any(note.startswith(f"Set aside in B: {damaged.name}: not a record") for note in found.notes)


def test_trials_of_one_description_are_told_apart_and_training_is_left_alone(tmp_path: Path) -> None:
    trained, trials = train_trial(), [time_trial(), time_trial(protocol=TimeSpec(iterations=7))]
    plan = tuple(
        PlannedTrial(id=t.id, cell="a cell", axes={}, exact={}, trial=t) for t in (trained, *trials)
    )  # fmt: skip
    info = StudyInfo(suite=Info(name="small", question="?"), suite_file="small.toml", axes={}, data_name="",
                     data_identity="", trials=plan)  # fmt: skip
    Study.start(tmp_path, info)
    side = read_side(tmp_path)
    assert set(side.timings) == {t.id for t in trials}
    assert len({t.label for t in side.timings.values()}) == 2


def test_what_holds_no_samples_or_no_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="holds no study"):
        read_side(tmp_path)
    write(tmp_path / "A", {"cell 1": Timed(processes=0)})
    with pytest.raises(ComparisonError, match="is ok and holds no samples"):
        read_side(tmp_path / "A")
