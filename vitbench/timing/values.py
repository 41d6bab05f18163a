"""Values: what the processes of a timing give, and what a record has of them. No torch: the driver has none."""

import statistics
from collections.abc import Sequence

from vitbench.config.base import Strict
from vitbench.config.trial import TimeTrial
from vitbench.store import Ceilings, Samples, TimeValues

FEW = 4  # Samples below which there are no quartiles: they would be the samples themselves


class Sizes(Strict):
    """Numbers that are counted of a trial."""

    parameters: int  # of what is timed
    forward_flops: int  # of one image's forward pass through the part (or model) that is timed
    flops: int  # of an iteration
    bytes: int  # that an iteration must move


class Alone(Strict):
    """Results of a variant in a fresh process of its own."""

    sizes: Sizes
    first_ms: float
    peak_memory_mib: float
    peak_reserved_mib: float | None
    energy_mj_per_image: float | None
    largest_batch: int | None
    drift: float | None = None


class Panel(Strict):
    """Results of one process for each of the variants that it had: trial id → samples."""

    samples: dict[str, Samples]
    ceilings: Ceilings


def combine(
    trial: TimeTrial, by_itself: Alone, processes: Sequence[Samples], *, baseline: str | None = None,
    ceilings: Ceilings | None = None,
) -> TimeValues:  # fmt: skip
    """One trial's processes as the values of its record.

    The statistic is the median of the processes' medians: a process that was unlucky as a whole counts once.
    """
    medians = [statistics.median(p.latencies_ms) for p in processes]
    pooled = sorted(latency for p in processes for latency in p.latencies_ms)
    quartiles = statistics.quantiles(pooled, n=4, method="inclusive") if len(pooled) >= FEW else (None, None, None)
    p50 = statistics.median(medians)
    return TimeValues(
        latency_ms_p50=p50,
        latency_ms_p25=quartiles[0],
        latency_ms_p75=quartiles[2],
        process_ms_min=min(medians),
        process_ms_max=max(medians),
        images_per_s=trial.batch_size / p50 * 1000,
        **by_itself.model_dump(exclude={"sizes"}),
        **by_itself.sizes.model_dump(),
        ceilings=ceilings,
        baseline=baseline,
        processes=tuple(processes),
    )
