"""Statistics of samples: intervals, ratios, controls, and when a timing is not to be relied on."""

import math
import statistics

import numpy as np
import pytest

from tests.small import TIME_VALUES
from vitbench.analysis import timings
from vitbench.store import Ceilings, Samples, TimeValues

Chance = np.random.Generator


def made(
    chance: Chance, *, slower: float = 1.0, control: float = 1.0, processes: int = 5, rounds: int = 40,
    noise: float = 0.05, luck: float = 0.0, **changes: object,
) -> TimeValues:  # fmt: skip
    """Values of a variant that takes ``slower`` times as long as its baseline, on a machine that drifts.

    ``luck``: by how much instances differ from process to process, as by where their memory lies.
    """
    samples = []
    for _ in range(processes):
        drift = np.exp(np.cumsum(chance.normal(0, 0.05, rounds)) + chance.normal(0, 0.2))
        sample = {
            name: tuple(
                10.0 * factor * drift * np.exp(np.abs(chance.normal(0, noise, rounds)) + chance.normal(0, luck))
            )
            for name, factor in (("latencies_ms", slower), ("baseline_ms", 1.0), ("control_ms", control))
        }
        samples.append(Samples(first_ms=1.0, **sample))
    middle = float(np.median([np.median(p.latencies_ms) for p in samples]))
    middles = dict.fromkeys(("latency_ms_p25", "latency_ms_p50", "latency_ms_p75"), middle)
    return TimeValues.model_validate({**TIME_VALUES, **middles, "processes": tuple(samples), **changes})


def changed(values: TimeValues, **fields: object) -> TimeValues:
    """A timing with other fields in each of its processes."""
    processes = tuple(process.model_copy(update=fields) for process in values.processes)
    return values.model_copy(update={"processes": processes})


def test_a_slowdown_of_5_percent_is_found_where_latencies_drift_by_20() -> None:
    chance = np.random.default_rng(0)
    ratio = timings.ratio(made(chance, slower=1.05))
    assert ratio is not None and ratio.low > 1.0 and abs(ratio.estimate - 1.05) < 0.02
    assert timings.latency(made(chance)).half_width > 0.05, "by itself the latency does not show it"


@pytest.mark.parametrize("luck", [pytest.param(0.0, marks=pytest.mark.slow), 0.02])
@pytest.mark.parametrize("processes", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_the_interval_covers_the_truth_as_often_as_it_says(processes: int, luck: float) -> None:
    """300 simulated timings of a variant that is no slower, at 95 %: 15 misses, give or take two deviations of 3.8."""
    chance = np.random.default_rng(1)
    missed = rejected = 0
    for _ in range(300):
        values = made(chance, processes=processes, rounds=20, luck=luck)
        ratio, p = timings.ratio(values), timings.chance(values)
        assert ratio is not None and p is not None
        missed += not ratio.holds(1.0)
        rejected += p <= 0.05
        assert p > 0.05 or not ratio.holds(1.0), "what an interval includes is not rejected"
    assert rejected <= missed <= 22


def apart(logs: list[float]) -> TimeValues:
    """A variant that is so much slower in each process, by logarithm, and the same in all of its rounds."""
    values = made(np.random.default_rng(5), processes=len(logs), noise=0.0)
    processes = tuple(
        p.model_copy(update={"latencies_ms": tuple(ms * math.exp(log) for ms in p.baseline_ms)})
        for p, log in zip(values.processes, logs, strict=True)
    )
    return values.model_copy(update={"processes": processes})


def test_what_processes_differ_by_is_in_the_interval_as_of_a_median() -> None:
    """t of two degrees of freedom, 4.303, times s / √3 √(π / 2): wider than what three values can be drawn to."""
    ratio = timings.ratio(apart([-0.01, 0.0, 0.01]))
    assert ratio is not None
    assert math.log(ratio.high) == pytest.approx(4.3027 * 0.01 / math.sqrt(3) * math.sqrt(math.pi / 2), rel=1e-3)


def test_processes_are_drawn_and_then_rounds_within_each() -> None:
    """Rounds that are all alike leave the draws of processes: any of their values can be the median."""
    drawn = timings._draws([np.full(20, log) for log in (-0.01, 0.0, 0.01)], "ratio")
    assert {*np.round(drawn, 3)} == {-0.01, 0.0, 0.01}
    share = float((drawn == 0).mean())  # 7/27: two or three of three draws are the least, and as many the largest
    assert share == pytest.approx(13 / 27, abs=0.03)


def test_a_p_is_as_small_as_processes_and_rounds_allow() -> None:
    chance = np.random.default_rng(8)
    one, few, many = (timings.chance(made(chance, slower=1.5, processes=n, luck=0.005)) for n in (1, 3, 9))
    assert one is not None and few is not None and many is not None
    assert one < 1e-3, "of one process the luck of its rounds alone, and less than the draws can count"
    assert many < few < 0.05, "of three processes not much less: Student's t has two degrees of freedom"
    assert timings.chance(made(chance, processes=1, rounds=3)) is None


def test_a_control_that_is_off_marks_the_timing() -> None:
    chance = np.random.default_rng(2)
    assert not any("control" in reason for reason in timings.instability(made(chance, processes=9, noise=0.01)))
    (reason, *_) = timings.instability(made(chance, control=1.2))
    assert "the A/A control is 1.19" in reason and "and not 1" in reason


def test_what_else_makes_a_timing_unreliable() -> None:
    chance = np.random.default_rng(3)
    values = made(chance)
    reasons = "; ".join(timings.instability(changed(values, throttled="power cap")))
    assert "the clock was held back: power cap" in reasons
    ceilings = Ceilings(flops_per_s=1e9, bytes_per_s=1e9)
    impossible = values.model_copy(update={"flops": 10**12, "bytes": 1, "ceilings": ceilings})
    assert any("times the measured ceiling" in r for r in timings.instability(impossible))


def test_what_moved_the_baseline_beside_it_makes_no_ratio_unreliable() -> None:
    """A machine that was three times slower in one of its processes: the latency is ±100 %, and the ratio is good."""
    values = made(np.random.default_rng(9), processes=5, noise=0.01, luck=0.001)
    slow = [
        p.model_copy(update={name: tuple(3 * ms for ms in getattr(p, name))
                             for name in ("latencies_ms", "baseline_ms", "control_ms")}) if n < 2 else p
        for n, p in enumerate(values.processes)
    ]  # fmt: skip
    moved = values.model_copy(update={"processes": tuple(slow)})
    assert timings.latency(moved).half_width > 0.5 and timings.instability(moved) == ()
    even = moved.model_copy(update={"processes": moved.processes[1:3]})
    medians = [statistics.median(process.latencies_ms) for process in even.processes]
    assert timings.latency(even).estimate == pytest.approx(sum(medians) / 2), "as the record has it"
    alone = changed(moved, baseline_ms=(), control_ms=())
    assert timings.instability(alone)[0].startswith(timings.WIDE)
    beside = changed(moved, foreign_threads=3.2)
    assert timings.instability(beside) == (), "the ratio holds beside other processes, too"
    assert timings.instability(changed(alone, foreign_threads=3.2))[1] == timings.BESIDE


def test_of_one_sample_nothing_is_said() -> None:
    values = made(np.random.default_rng(4), processes=1, rounds=1)
    interval = timings.latency(values)
    assert math.isnan(interval.low) and math.isnan(interval.high)
    assert "fewer than 6 samples give no interval" in timings.instability(values)
    assert timings.ratio(values.model_copy(update={"processes": ()})) is None


def test_outliers_are_counted_and_kept() -> None:
    steady = made(np.random.default_rng(5), processes=1, rounds=50, noise=0.0)
    timing = changed(steady, latencies_ms=(1.0, 1.01, 1.02, 1.03) * 10 + (9.0, 8.0))
    assert timings.outliers(timing) == 2
    assert timings.latency(timing).estimate == pytest.approx(1.02, abs=0.01)


def test_rates_are_fractions_of_what_the_device_was_seen_to_do() -> None:
    values = made(np.random.default_rng(6)).model_copy(
        update={"latency_ms_p50": 2.0, "flops": 4_000, "bytes": 1_000,
                "ceilings": Ceilings(flops_per_s=8e6, bytes_per_s=1e6)}
    )  # fmt: skip
    rates = timings.rate(values)
    assert (rates.flops_per_s, rates.bytes_per_s, rates.intensity) == (2e6, 5e5, 4.0)
    assert (rates.of_flops, rates.of_bytes, rates.of_roofline) == (0.25, 0.5, 0.5)
    assert timings.rate(values.model_copy(update={"flops": None})) == timings.Rates()
