"""Rounds: warm each variant up until it is steady, then time all of them in each of many rounds."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vitbench.clock import Clock, Lap

WINDOW = 3  # Iterations whose median is compared with that of as many before them
TOLERANCE = 0.03  # Two windows whose medians differ by less, as a fraction, are steady
WARMUP_SECONDS = 5.0  # After which warm-up gives up waiting for steadiness, and says so
SHORTEST_MS = 2.0
"""A value from a CPU is the mean of as many consecutive calls as last so long: a timer tick, a first touch of cold code
and a switch of context then weigh little."""

MOST_CALLS = 200


@dataclass(frozen=True)
class Warmup:
    """How the iterations before the clock went."""

    first_ms: float  # the very first, by the host's clock: compiling and autotuning included
    iterations: int  # how many there were
    last_ms: float  # median of the last few
    steady: bool  # whether they ended because latencies had become steady, and not because time was up


def warm_up(call: Callable[[], object], clock: Clock, least: int, budget_s: float = WARMUP_SECONDS) -> Warmup:
    """Iterate until the medians of two successive windows agree, at least ``least`` times, for at most ``budget_s``."""
    first_ms = clock.lap(call).wall_ms
    laps: list[float] = []
    deadline = time.monotonic() + budget_s
    while True:
        laps.append(clock.lap(call).device_ms)
        steady = len(laps) >= 2 * WINDOW and _agree(laps[-2 * WINDOW : -WINDOW], laps[-WINDOW:])
        if (steady and len(laps) >= least) or time.monotonic() > deadline:
            return Warmup(first_ms, len(laps) + 1, statistics.median(laps[-WINDOW:]), steady)


def _agree(before: list[float], after: list[float]) -> bool:
    old, new = statistics.median(before), statistics.median(after)
    return abs(new - old) <= TOLERANCE * old


def calls_for(latency_ms: float, clock: Clock) -> int:
    """Consecutive calls that make one value: one on a GPU, whose events are exact and whose cache is to be cold."""
    if clock.buffer is not None:
        return 1
    return max(1, min(MOST_CALLS, round(SHORTEST_MS / latency_ms))) if latency_ms > 0 else MOST_CALLS


def interleave(
    calls: Mapping[str, Callable[[], object]], clock: Clock, *, rounds: int, seed: int, repeat: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, list[Lap]]:  # fmt: skip
    """One lap of each variant in each round, in an order drawn anew for each.

    A drift of the machine falls on all variants, and none always runs behind the same other one: Google benchmark
    measured 40 % less run-to-run variance from it (its ``--benchmark_enable_random_interleaving``).

    Args:
        calls: name → what is timed.
        clock: of their device.
        rounds: number of rounds.
        seed: of the orders.
        repeat: consecutive calls that make a lap, the same for all variants.
        progress: called with the name of each variant before its turn.

    Returns:
        Name → its laps, in the order of the rounds: laps of one index are neighbours in time.
    """
    order, chance = list(calls), random.Random(seed)
    laps: dict[str, list[Lap]] = {name: [] for name in order}
    for _ in range(rounds):
        chance.shuffle(order)
        for name in order:
            progress(name)
            laps[name].append(clock.lap(calls[name], repeat))
    return laps
