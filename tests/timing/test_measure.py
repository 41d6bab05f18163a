"""The timer: what it counts, and that it sees what is there."""

from __future__ import annotations

import pytest
import torch

from tests.small import MODEL, time_trial
from vitbench.spec import TimeSpec
from vitbench.store import Samples
from vitbench.timing.measure import Size, combine, gate, measure

CPU = torch.device("cpu")
SIZE = Size(parameters=1, forward_flops=2)


@pytest.mark.parametrize("mode", ["inference", "train"])
def test_every_iteration_is_kept_and_warm_up_is_not(mode: str) -> None:
    trial = time_trial(mode=mode, protocol=TimeSpec(rounds=1, warmup=3, iterations=7))
    gate(trial, CPU)
    samples = measure(trial, CPU)
    assert len(samples.latencies_ms) == 7 and min(samples.latencies_ms) > 0 and samples.first_ms > 0


def test_a_larger_model_takes_longer() -> None:
    """Ten times the blocks in one run; the lower quartile, and a wide margin, for machines with other work."""
    protocol = TimeSpec(rounds=1, warmup=3, iterations=15)
    small, large = (
        combine(t, gate(t, CPU), [measure(t, CPU)])
        for t in (time_trial(MODEL.model_copy(update={"depth": d, "dim": 64}), protocol=protocol) for d in (2, 20))
    )
    assert large.latency_ms_p25 > 3 * small.latency_ms_p25
    assert large.forward_flops > 8 * small.forward_flops and large.parameters > 8 * small.parameters


def test_the_statistic_is_the_median_of_process_medians() -> None:
    processes = [
        Samples(latencies_ms=latencies, first_ms=first, peak_memory_mib=peak)
        for latencies, first, peak in (
            ((1.0, 1.0, 50.0), 9.0, 5.0),
            ((2.0, 2.0, 2.0), 7.0, 6.0),
            ((8.0, 8.0, 8.0), 8.0, 4.0),
        )
    ]
    values = combine(time_trial(), SIZE, processes)
    assert values.latency_ms_p50 == 2.0 and (values.process_ms_min, values.process_ms_max) == (1.0, 8.0)
    assert values.images_per_s == 8 / 2.0 * 1000 and values.first_ms == 8.0 and values.peak_memory_mib == 6.0
    assert values.latency_ms_p25 == 2.0 and values.latency_ms_p75 == 8.0


def test_one_sample_is_its_own_quartile() -> None:
    values = combine(time_trial(), SIZE, [Samples(latencies_ms=(3.0,), first_ms=1.0, peak_memory_mib=0.0)])
    assert values.latency_ms_p25 == values.latency_ms_p50 == values.latency_ms_p75 == 3.0
