"""Variants alone and side by side, and the sum of their processes."""

import pytest

from tests.timing.test_subject import CPU, trial
from vitbench.config import TimeSpec, TimeTrial
from vitbench.store import Samples
from vitbench.timing import measure
from vitbench.timing.measure import alone, side_by_side
from vitbench.timing.sizes import Sizes
from vitbench.timing.values import Alone, combine

ALONE = Alone(
    sizes=Sizes(parameters=1, forward_flops=2, flops=16, bytes=3), first_ms=8.0, peak_memory_mib=6.0,
    peak_reserved_mib=None, energy_mj_per_image=None, largest_batch=None,
)  # fmt: skip


def short(mode: str = "inference", **changes: object) -> TimeTrial:
    protocol = TimeSpec(rounds=1, warmup=3, iterations=7)
    return trial("model", mode, **changes).model_copy(update={"protocol": protocol})


@pytest.mark.parametrize("mode", ["inference", "train"])
def test_alone_it_is_checked_and_sized(mode: str) -> None:
    result = alone(short(mode), CPU)
    assert result.first_ms > 0 and result.peak_memory_mib >= 0 and result.sizes.parameters > 0
    assert result.energy_mj_per_image is None and result.peak_reserved_mib is None, "a CPU has no such counters"


def test_energy_is_that_of_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "energy_mj", lambda *_: 5.0)
    assert alone(short(), CPU).energy_mj_per_image == 5.0 / 8


def test_on_a_cpu_no_launch_is_hidden() -> None:
    part = short().model_copy(update={"level": "mlp"})
    (samples,) = side_by_side(part, [part], CPU, 0).samples.values()
    assert samples.hidden_launches is None


def test_every_round_of_every_variant_is_kept_beside_the_baseline_and_its_control() -> None:
    baseline, other = short(attention="batched"), short(attention="sdpa")
    ids: list[str] = []
    panel = side_by_side(baseline, [baseline, other], CPU, 0, ids.append)
    assert panel.samples.keys() == {baseline.id, other.id} and set(ids) == {baseline.id, other.id}
    first, second = panel.samples[baseline.id], panel.samples[other.id]
    for samples in (first, second):
        assert len(samples.latencies_ms) == len(samples.baseline_ms) == len(samples.control_ms) == 7
        assert min(samples.latencies_ms) > 0 and samples.calls >= 1 and samples.warmup_iterations
    assert first.latencies_ms == first.baseline_ms == second.baseline_ms
    assert first.control_ms != first.baseline_ms and second.latencies_ms != second.baseline_ms
    alone_with_it = side_by_side(baseline, [other], CPU, 1)
    assert alone_with_it.samples.keys() == {other.id}


def test_each_process_has_an_order_of_its_own() -> None:
    """Turns have one order when a process is made again, and another one in another process."""
    baseline, *others = (short(attention=name) for name in ("batched", "sdpa", "per_head"))

    def turns(process: int) -> list[str]:
        ids: list[str] = []
        side_by_side(baseline, others, CPU, process, ids.append)
        return ids

    first, again, second = turns(0), turns(0), turns(1)
    assert first == again != second and sorted(first) == sorted(second)


def test_a_larger_model_takes_longer() -> None:
    """Ten times the blocks in one run; a wide margin, for machines with other work."""
    small, large = (short(depth=depth, dim=64) for depth in (2, 20))
    samples = side_by_side(small, [small, large], CPU, 0).samples
    assert min(samples[large.id].latencies_ms) > 3 * min(samples[small.id].latencies_ms)


def processes(*latencies: tuple[float, ...]) -> list[Samples]:
    return [Samples(latencies_ms=of, first_ms=1.0) for of in latencies]


def test_the_statistic_is_the_median_of_process_medians() -> None:
    values = combine(short(), ALONE, processes((1.0, 1.0, 50.0), (2.0, 2.0, 2.0), (8.0, 8.0, 8.0)))
    assert values.latency_ms_p50 == 2.0
    assert (values.process_ms_min, values.process_ms_max) == (1.0, 8.0), "the least is not the largest"
    assert values.images_per_s == 8 / 2.0 * 1000 and values.first_ms == 8.0 and values.peak_memory_mib == 6.0
    assert values.latency_ms_p25 == 2.0 and values.latency_ms_p75 == 8.0


def test_a_few_samples_have_no_quartiles() -> None:
    values = combine(short(), ALONE, processes((3.0,)))
    assert values.latency_ms_p50 == 3.0 and values.latency_ms_p25 is values.latency_ms_p75 is None
