"""Changes between two studies: what counts as one, what as a regression, and what is said about the two."""

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tests.report.builders import CPU
from tests.small import MODEL, TIME_VALUES, time_trial, train_trial
from vitbench.analysis.regressions import Change, within
from vitbench.analysis.side_by_side import SideBySide, side_by_side
from vitbench.analysis.sides import ComparisonError
from vitbench.config import TimeSpec
from vitbench.config.suite import Info
from vitbench.environment import Environment
from vitbench.store import PlannedTrial, Record, Samples, StudyError, StudyFolder, StudyInfo, TimeValues, Trials


@dataclass(frozen=True)
class Timed:
    """One timing of a study to be written: how slow it is, and what became of it. A spread of 0 is no noise at all."""

    slower: float = 1.0
    state: str = "ok"
    spread: float = 0.02
    processes: int = 5
    rounds: int = 20
    environment: Environment | None = CPU
    device: str = "cpu"

    def values(self, chance: np.random.Generator) -> TimeValues:
        samples = []
        for _ in range(self.processes):
            luck = chance.normal(0, self.spread / 2)
            noise = np.abs(chance.normal(0, self.spread, self.rounds))
            rounds = 10.0 * self.slower * np.exp(luck + noise)
            samples.append(Samples(latencies_ms=tuple(rounds.tolist()), first_ms=50.0))
        middle = 10.0 * self.slower
        latencies = dict.fromkeys(("latency_ms_p50", "process_ms_min", "process_ms_max"), middle)
        rest = {"images_per_s": 8000 / middle, "first_ms": 50.0, "peak_memory_mib": 10.0, "processes": tuple(samples)}
        return TimeValues.model_validate({**TIME_VALUES, **latencies, **rest})


def planned(cell: str, device: str = "cpu") -> PlannedTrial:
    """A timing trial whose id belongs to its label: "cell 3" is the model of depth 3."""
    trial = time_trial(MODEL.model_copy(update={"depth": int(cell.rsplit(maxsplit=1)[-1])}))
    trial = trial.model_copy(update={"device": device})
    return PlannedTrial(id=trial.id, cell=cell, axes={}, exact={}, trial=trial)


def start(path: Path, trials: Iterable[PlannedTrial]) -> StudyFolder:
    """The folder of a study that plans some trials."""
    info = StudyInfo(suite=Info(name="small", question="?"), suite_file="small.toml", axes={}, data_name="",
                     data_identity="", trials=Trials.of(trials))  # fmt: skip
    return StudyFolder.start(path, info)


def write(path: Path, cells: Mapping[str, Timed], seed: int = 0) -> Path:
    """The study that a run would have left; a cell of state "pending" has no record."""
    chance = np.random.default_rng(seed)
    trials = [planned(cell, timed.device) for cell, timed in cells.items()]
    study = start(path, trials)
    for trial, timed in zip(trials, cells.values(), strict=True):
        if timed.state == "pending":
            continue
        study.write(
            Record(
                trial_id=trial.id, attempt=1, state=timed.state, reason="" if timed.state == "ok" else "a test",
                trial=trial.trial, values=timed.values(chance) if timed.state == "ok" else None,
                environment=timed.environment, started_at=datetime(2026, 3, 1, tzinfo=UTC), seconds=1.0,
            )
        )  # fmt: skip
    return path


def cells(number: int, slower: Mapping[int, float] | None = None, **rest: object) -> dict[str, Timed]:
    """Cells 1 to ``number``, some of them slower than the others."""
    return {f"cell {i}": Timed(slower=(slower or {}).get(i, 1.0), **rest) for i in range(1, number + 1)}


Between = Callable[[Mapping[str, Timed], Mapping[str, Timed]], SideBySide]


@pytest.fixture
def between(tmp_path: Path) -> Between:
    def compared(*sides: Mapping[str, Timed]) -> SideBySide:
        return side_by_side([write(tmp_path / "AB"[seed], side, seed) for seed, side in enumerate(sides)])

    return compared


def changes(comparison: SideBySide) -> list[Change]:
    """Changes from A to B, then the timings that only one of them has."""
    section = comparison.changes(1, 0)
    return [*section.changes, *section.alone]


def words(comparison: SideBySide) -> dict[str, str]:
    return {change.label.split(",")[0]: change.word for change in changes(comparison)}


@pytest.mark.parametrize(("regressions", "status"), [(0, 0), (1, 1), (6, 1)])
def test_any_number_of_regressions_fails_one_too(between: Between, regressions: int, status: int) -> None:
    """A defect in another harness: a gate that lets exactly one regression through."""
    comparison = between(cells(6), cells(6, dict.fromkeys(range(1, regressions + 1), 1.5)))
    assert sum(change.regressed(0.05) for change in changes(comparison)) == regressions
    assert comparison.exit_status(0.05) == status
    assert comparison.exit_status(None) == 0


def test_a_slowdown_of_20_percent_is_a_regression_beyond_5_and_none_beyond_30(between: Between) -> None:
    comparison = between(cells(5), cells(5, {3: 1.2}))
    (slowest, *_) = changes(comparison)
    assert slowest.label.startswith("cell 3") and slowest.word == "slower"
    assert slowest.ratio is not None and slowest.old is not None and slowest.new is not None
    assert slowest.ratio.low > 1.1 and slowest.ratio.estimate == pytest.approx(1.2, abs=0.05)
    assert slowest.new.estimate / slowest.old.estimate == pytest.approx(slowest.ratio.estimate)
    assert (comparison.exit_status(0.05), comparison.exit_status(0.3), comparison.exit_status(None)) == (1, 0, 0)
    assert comparison.summaries(0.3) == ["5 timings: 1 slower, 4 equivalent; no regression beyond 30 %"]
    assert comparison.summaries(None) == ["5 timings: 1 slower, 4 equivalent"]


def test_what_became_faster_is_no_regression(between: Between) -> None:
    comparison = between(cells(3), cells(3, {1: 0.5, 2: 1.5}))
    assert [c.word for c in changes(comparison) if c.label[5] in "12"] == ["slower", "faster"], "slowest change first"
    assert [c.label[5] for c in changes(comparison) if c.regressed(0.05)] == ["2"]


@pytest.mark.parametrize(("slower", "status"), [(1.05, 0), (1.0501, 1), (1.0, 0)])
def test_the_limit_itself_is_allowed(between: Between, slower: float, status: int) -> None:
    """Timings have no noise: the estimate is the planted one, but for what log and exp do to its last bits."""
    comparison = between(cells(2, spread=0.0), cells(2, {1: slower}, spread=0.0))
    assert comparison.exit_status(0.05) == status


def test_a_large_difference_within_the_noise_is_no_regression(between: Between) -> None:
    comparison = between(cells(1, spread=0.8, processes=3), cells(1, {1: 2.2}, spread=0.8, processes=3))
    (change,) = changes(comparison)
    assert change.ratio is not None and change.ratio.estimate > 1.05, "it looks slower"
    assert change.word == "undecided" and comparison.exit_status(0.05) == 0


def test_no_difference_seen_is_not_yet_equivalence(tmp_path: Path) -> None:
    """Equivalent is an interval within the margin as a whole, and one that can be believed."""

    def word(margin: float = 0.05, **of_both: object) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        paths = [write(folder / name, cells(1, **of_both), seed) for seed, name in enumerate("AB")]
        (change,) = changes(side_by_side(paths, margin))
        assert change.ratio is not None and change.ratio.holds(1.0) and change.judged
        return change.word

    assert word(spread=0.02) == "equivalent" and word(0.005, spread=0.02) == "undecided"
    assert word(spread=0.1) == "undecided" and word(0.5, spread=0.1) == "equivalent"
    assert word(0.5, spread=0.002, processes=1) == "undecided", "no interval holds the luck of one process"
    assert word(5.0, spread=0.5) == "undecided", "neither timing is to be relied on"


def test_a_margin_means_the_same_in_either_direction_and_moves_no_gate(between: Between) -> None:
    assert math.prod(within(0.25)) == pytest.approx(1.0)
    comparison = between(cells(2, spread=0.002), cells(2, {2: 1.03}, spread=0.002))
    assert words(comparison) == {"cell 2": "slower", "cell 1": "equivalent"}, "a change is one however small"
    assert (comparison.exit_status(0.02), comparison.exit_status(0.05)) == (1, 0)


@pytest.mark.slow
def test_noise_alone_is_seldom_flagged(tmp_path: Path) -> None:
    """120 timings of two studies that differ in nothing: few are called slower, and the gate is passed."""
    comparison = side_by_side([write(tmp_path / name, cells(120), seed) for seed, name in enumerate("AB", 10)])
    assert sum(c.word in ("slower", "faster") for c in changes(comparison)) <= 12, "an interval of 95 %"
    assert comparison.exit_status(0.05) == 0


@pytest.mark.parametrize("state", ["failed", "oom", "pending"])
def test_what_was_ok_and_is_not_any_more_is_a_regression(between: Between, state: str) -> None:
    comparison = between(cells(3), cells(3) | {"cell 2": Timed(state=state)})
    (first, *rest) = changes(comparison)
    assert (first.label[:6], first.word, first.lost, first.new) == ("cell 2", state, True, None)
    assert first.regressed(10.0) and [c.word for c in rest] == ["equivalent"] * 2
    assert (comparison.exit_status(10.0), comparison.exit_status(None)) == (1, 0)


def test_what_was_not_ok_before_is_no_regression(between: Between) -> None:
    broken = Timed(state="oom")
    comparison = between(cells(3) | {"cell 2": broken, "cell 3": broken}, cells(3) | {"cell 3": Timed(state="failed")})
    assert words(comparison) == {"cell 1": "equivalent", "cell 2": "ok now"} and comparison.changes(1, 0).neither == 1
    assert comparison.summaries(None) == ["3 timings: 1 equivalent, 1 ok now, 1 ok in neither"]
    assert comparison.exit_status(0.05) == 0


def test_what_one_side_alone_has_is_listed_last(between: Between) -> None:
    old, new = cells(4), cells(5)
    del old["cell 1"], new["cell 2"]
    comparison = between(old, new)
    assert words(comparison) == {
        "cell 3": "equivalent", "cell 4": "equivalent", "cell 2": "only in A", "cell 1": "only in B",
        "cell 5": "only in B",
    }  # fmt: skip
    assert [c.word for c in changes(comparison)][2:] == ["only in A", "only in B", "only in B"]
    assert comparison.exit_status(0.05) == 0


def test_too_few_samples_give_no_verdict_and_no_silent_pass(between: Between) -> None:
    few = {"processes": 1, "rounds": 5}
    comparison = between(cells(1, **few), cells(1, {1: 3.0}, **few))
    assert words(comparison) == {"cell 1": "too few samples"} and comparison.exit_status(None) == 0
    with pytest.raises(ComparisonError, match="nothing to judge: an interval takes 6 samples"):
        comparison.exit_status(0.05)


def test_nothing_that_was_ok_is_an_error(tmp_path: Path) -> None:
    old = write(tmp_path / "oom", {"cell 1": Timed(state="oom")})
    with pytest.raises(ComparisonError, match="none of the 1 timing was ok in A"):
        side_by_side([old, write(tmp_path / "ok", {"cell 1": Timed()})]).exit_status(None)


def protocols(path: Path, *iterations: int) -> Path:
    """A study that trains, and times one model by each of some protocols."""
    trials = [train_trial(), *(time_trial(protocol=TimeSpec(iterations=n)) for n in iterations)]
    start(path, (PlannedTrial(id=t.id, cell="a cell", axes={}, exact={}, trial=t) for t in trials))
    return path


def test_protocols_are_matched_exactly_where_a_study_has_several(tmp_path: Path) -> None:
    five, both, seven = protocols(tmp_path / "one", 5), protocols(tmp_path / "both", 5, 7), protocols(tmp_path / "c", 7)
    comparison = side_by_side([both, both])
    assert len(comparison.timings) == 2 == len({row.label for row in comparison.timings})
    ids = [{t.planned.id for t in row.timings if t and t.planned} for row in comparison.timings]
    assert [len(each) for each in ids] == [1, 1]
    (alone,) = changes(side_by_side([five, both]))
    assert alone.word == "only in B"
    assert len(side_by_side([five, seven]).timings) == 1, "another length of the same work"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_holds_no_samples_or_no_study_is_refused(tmp_path: Path) -> None:
    study = write(tmp_path / "A", {"cell 1": Timed()})
    with pytest.raises(StudyError, match="holds no study"):
        side_by_side([study, tmp_path])
    with pytest.raises(ComparisonError, match="is ok and holds no samples"):
        side_by_side([study, write(tmp_path / "B", {"cell 1": Timed(processes=0)})])
