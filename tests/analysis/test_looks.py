"""Looks in a plan: levels, errors and savings by simulation, and the replay of the looks over a study's runs."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import erfcinv

from tests.analysis.test_simulation import Noise, exponential, heavy, normal, uneven
from vitbench.analysis.conclusions import Conclusions, conclude
from vitbench.analysis.differences import rule, unpaired
from vitbench.analysis.factorial import Runs
from vitbench.analysis.looks import able, levels
from vitbench.analysis.replay import Looking
from vitbench.store.info import LookPlan

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
AT = (4, 6, 8)
ALL = (True, True, True)


def test_one_look_is_no_look() -> None:
    assert levels((8,), 0.05, (True,)) == (0.05,)
    assert levels(AT, 0.05, (False, False, True)) == (0.0, 0.0, 0.05)


@pytest.mark.parametrize(("at", "alpha"), [((4, 6, 8), 0.05), ((4, 8, 12, 16), 0.005), ((4, 5, 6, 30), 0.05)])
def test_a_look_has_spent_its_share_and_no_more(at: tuple[int, ...], alpha: float) -> None:
    """A million random walks are the measure."""
    chance = np.random.default_rng(0)
    steps = np.diff([0, *at])
    walk = np.cumsum(chance.standard_normal((1_000_000, len(at))) * np.sqrt(steps), axis=1) / np.sqrt(at)
    bounds = math.sqrt(2) * erfcinv(levels(at, alpha, (True,) * len(at)))
    crossed = np.logical_or.accumulate(np.abs(walk) > bounds, axis=1).mean(axis=0)
    spent = [alpha * (n / at[-1]) ** 2 for n in at]
    assert list(crossed) == pytest.approx(spent, abs=4 * math.sqrt(alpha / 1_000_000))


def test_a_level_grows_with_its_share_so_that_rejected_hypotheses_help_the_others() -> None:
    for at in (AT, (4, 6, 8, 12, 16, 24)):
        shares = [levels(at, 0.05 / m, (True,) * len(at)) for m in range(40, 0, -1)]
        assert all(smaller < larger for fewer, more in itertools.pairwise(shares)
                   for smaller, larger in zip(fewer, more, strict=True))  # fmt: skip


def test_a_look_that_can_decide_nothing_spends_nothing() -> None:
    """Four seeds have no permutation p below 0.029; paired differences have."""
    assert able(AT, 10, [False]) == (False, True, True)
    assert able(AT, 20, [False]) == (False, False, True)
    assert able(AT, 10, [False, True]) == (True, True, True)
    assert able(AT, 10, [True], permutation=True) == (False, False, False)
    assert levels(AT, 0.005, (False, True, True))[1] == pytest.approx(0.005 * (6 / 8) ** 2)


@dataclass(frozen=True)
class Simulated:
    """Many studies of a baseline and m variants: what each comparison was called, and the runs of each study."""

    different: Bools
    equivalent: Bools
    stopped: npt.NDArray[np.int_]

    @property
    def runs(self) -> float:
        """On average, with those of the baseline, which goes on as long as any variant does."""
        return float((self.stopped.sum(axis=1) + self.stopped.max(axis=1)).mean())


def samples(
    studies: int, effects: list[float], at: tuple[int, ...], noise: Noise = normal, *, baseline: Noise | None = None,
    times: float = 1.0,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Variants and baselines, (studies, m, seeds); effects in deviations of a difference of two runs."""
    chance = np.random.default_rng([studies, len(effects), at[-1]])
    shape = studies, len(effects), at[-1]
    variants = times * noise(chance, shape) + np.array(effects)[:, None] * math.sqrt(2)
    return variants, np.broadcast_to((baseline or noise)(chance, (studies, 1, at[-1])), shape)


def simulated(variants: Floats, baselines: Floats, at: tuple[int, ...], margin: float | None) -> Simulated:
    """The procedure over many studies at once; a margin in deviations of a difference of two runs."""
    studies, m, _ = variants.shape
    different, equivalent = np.zeros((studies, m), dtype=bool), np.zeros((studies, m), dtype=bool)
    stopped = np.full((studies, m), at[-1])
    can = able(at, m, [False])
    still = np.ones((studies, m), dtype=bool)
    for number, n in enumerate(at):
        arms = variants[..., :n], baselines[..., :n]
        p = rule(*(arm.reshape(-1, n) for arm in arms))[0].reshape(studies, m)
        equal = np.ones_like(p) if margin is None else unpaired(*arms).p_equivalent(margin * math.sqrt(2))
        now = _stepped(p, still, different, at, can, number=number)
        same = _stepped(equal, still, equivalent, at, (True,) * len(at), number=number)
        different, equivalent = different | now, equivalent | same
        stopped[now | same] = n
        still &= ~(now | same)
    return Simulated(different, equivalent, stopped)


def _stepped(
    p: Floats, still: Bools, before: Bools, at: tuple[int, ...], can: tuple[bool, ...], *, number: int
) -> Bools:
    """Hypotheses that Holm's procedure rejects at a look, among those that are still open."""
    m = p.shape[1]
    by_left = np.array([1.0, *(levels(at, 0.05 / left, can)[number] for left in range(1, m + 1))])
    order = np.argsort(np.where(still, p, 2.0), axis=1)
    steps = m - before.sum(axis=1)[:, None] - np.arange(m)
    passed = np.take_along_axis(np.where(still, p, 2.0), order, axis=1) <= by_left[np.maximum(steps, 0)]
    rejected = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(passed, axis=1), axis=1)
    return rejected


STUDIES = 2000
NULL = [0.0] * 10


@pytest.mark.parametrize("margin", [None, pytest.param(3.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "noise", [normal, *(pytest.param(noise, marks=pytest.mark.slow) for noise in (heavy, exponential, uneven))]
)
def test_with_looks_too_at_most_5_percent_of_reports_name_a_difference_where_none_is(
    noise: Noise, margin: float | None
) -> None:
    """Ten comparisons in each report; found are .00 to .03."""
    studies = simulated(*samples(STUDIES, NULL, AT, noise), AT, margin)
    assert studies.different.any(axis=1).mean() <= 0.055
    assert studies.runs < 99


def test_what_differs_by_the_margin_is_called_equivalent_in_at_most_5_percent_of_reports() -> None:
    studies = simulated(*samples(STUDIES, [1.5] * 10, AT), AT, 1.5)
    assert studies.equivalent.any(axis=1).mean() <= 0.055


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effects", "margin", "runs", "power", "equal"),
    [
        ([3.0] * 5 + [0.0] * 5, 3.0, 66, 0.99, 0.99),  # 58.7 by Welch's t alone, 99 at a fixed number of seeds
        (NULL, 3.0, 60, math.nan, 0.99),  # 60.8
        ([2.0] * 5 + [0.0] * 5, None, 84, 0.93, 0.0),  # 79
    ],
)
def test_what_looks_save(effects: list[float], margin: float | None, runs: float, power: float, equal: float) -> None:
    """The rule before took nine seeds of eleven cells, 99 runs; `docs/statistics-notes.md` has all figures."""
    studies = simulated(*samples(STUDIES, effects, AT), AT, margin)
    null = np.array(effects) == 0
    assert studies.runs <= runs
    assert studies.equivalent[:, null].mean() >= equal
    if not math.isnan(power):
        assert studies.different[:, ~null].mean() >= power


SEEDS = tuple(range(8))


def study(
    variants: Floats, baseline: Floats, margin: float | None = None, *, finished: int = 8, failed: int = 0,
    open_runs: tuple[tuple[str, int], ...] = (),
) -> Conclusions:  # fmt: skip
    """The conclusions of one study, (m, seeds) and (seeds,), of which some seeds are in the plan by now."""
    results = np.concatenate([baseline[None], variants])[:, :finished].copy()
    cells = ["base", *(f"v{i}" for i in range(len(variants)))]
    broken = np.zeros(results.shape, dtype=bool)
    broken[1, :failed] = True
    results[broken] = np.nan
    none = np.full(len(cells), -1)
    runs = Runs("cpu", "here", SEEDS[:finished], {}, dict(zip(cells, cells, strict=True)), results,
                np.ones(results.shape, dtype=bool), broken, np.zeros(len(cells), dtype=bool),
                np.zeros(results.shape, dtype=bool), none)  # fmt: skip
    ended = {("cpu", cell): {seed: (cell, seed) not in open_runs for seed in SEEDS[:finished]} for cell in cells}
    looking = Looking(LookPlan(seeds=SEEDS, at=AT, trainings=8 * len(cells)), ended)
    return conclude(runs, {}, [], cells=cells, margin=margin, noise_floor=None, looking=looking)


def test_the_replay_of_a_study_is_the_procedure_that_is_simulated() -> None:
    """Verdicts, the look of each, and the seeds that cells go on to, through all that makes a report's verdicts."""
    effects, margin = [3.0, 2.0, 1.0, 0.0, 0.0], 1.8
    variants, baselines = samples(60, effects, AT)
    expected = simulated(variants, baselines, AT, margin)
    for i, (arms, (base, *_)) in enumerate(zip(variants, baselines, strict=True)):
        conclusions = study(arms, base, margin * math.sqrt(2))
        words = [judged.verdict for judged in conclusions.variants]
        assert [word == "equivalent" for word in words] == expected.equivalent[i].tolist()
        assert [judged.certain for judged in conclusions.variants] == expected.different[i].tolist()
        assert [judged.look for judged in conclusions.variants] == expected.stopped[i].tolist()
        assert [conclusions.seeds[f"v{k}"] for k in range(5)] == expected.stopped[i].tolist()
        assert conclusions.seeds["base"] == expected.stopped[i].max(), (
            "a baseline goes on as long as what it is compared with"
        )
        for judged in conclusions.variants:
            if judged.verdict in ("better", "worse"):
                assert not judged.interval.holds(0.0)
                spent = levels(AT, 0.05, able(AT, 5, [False]))
            else:
                spent = levels(AT, 0.05, ALL)
            assert judged.confidence == 1 - spent[AT.index(judged.look)]
            if judged.verdict == "equivalent":
                reach = max(abs(judged.interval.low), abs(judged.interval.high))
                assert reach <= margin * math.sqrt(2)


def test_nothing_is_told_before_the_first_look() -> None:
    variants, baselines = samples(1, [9.0, 0.0], AT)
    conclusions = study(variants[0], baselines[0, 0], finished=4, open_runs=(("v1", 3),))
    assert conclusions.seeds == dict.fromkeys(("base", "v0", "v1"), 4)
    assert [(j.verdict, j.look, math.isnan(j.p)) for j in conclusions.variants] == [("undecided", 0, True)] * 2
    assert not math.isnan(conclusions.variants[0].mean)


def test_a_look_waits_for_what_is_still_run_and_for_nothing_else() -> None:
    """A variant that has stopped may lack later seeds; one that goes on may not."""
    variants, baselines = samples(1, [9.0, 0.0], AT)
    arms, base = variants[0], baselines[0, 0]
    first = study(arms, base, finished=6)
    assert [j.verdict for j in first.variants] == ["better", "undecided"]
    assert first.seeds == {"base": 8, "v0": 6, "v1": 8}
    waiting = study(arms, base, finished=8, open_runs=(("v1", 7),))
    assert [j.look for j in waiting.variants] == [6, 6] and waiting.seeds == first.seeds
    done = study(arms, base, finished=8, open_runs=(("v0", 7),))
    assert [j.look for j in done.variants] == [6, 8]
    arms[0, 6:] = -1000
    assert replace(study(arms, base).variants[0], comparison=done.variants[0].comparison) == done.variants[0]


def test_what_is_invalid_stops() -> None:
    variants, baselines = samples(1, [0.0, 0.0], AT)
    conclusions = study(variants[0], baselines[0, 0], failed=2)
    assert conclusions.variants[0].verdict == "invalid"
    assert conclusions.seeds["v0"] == 4 and conclusions.seeds["v1"] == 8
    lost = study(variants[0], baselines[0, 0], failed=1)
    assert lost.variants[0].verdict == "undecided" and lost.seeds["v0"] == 8
