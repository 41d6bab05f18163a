"""Warm-up until steady; rounds in which each variant has a turn, in fresh orders."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import torch

from vitbench.clock import Clock, Lap
from vitbench.timing.rounds import WINDOW, calls_for, interleave, warm_up


class Told(Clock):
    """A clock that reads its latencies from a list, and runs the call."""

    def __init__(self, latencies_ms: Iterator[float]) -> None:
        super().__init__(torch.device("cpu"), flush=False)
        self.latencies_ms = latencies_ms

    def lap(self, call: Callable[[], object], calls: int = 1) -> Lap:
        for _ in range(calls):
            call()
        value = next(self.latencies_ms)
        return Lap(value, value)


def nothing() -> None:
    return None


def test_warm_up_lasts_until_the_latency_is_steady() -> None:
    falling = itertools.chain([900.0], (100.0 * 0.9**i for i in range(20)), itertools.repeat(10.0))
    warmth = warm_up(nothing, Told(falling), least=3, budget_s=60)
    assert warmth.first_ms == 900.0 and warmth.steady
    assert warmth.iterations > 20 and warmth.last_ms < 100.0 * 0.9**15
    at_once = warm_up(nothing, Told(itertools.repeat(5.0)), least=3)
    assert at_once.steady and at_once.iterations == 1 + 2 * WINDOW
    assert warm_up(nothing, Told(itertools.repeat(5.0)), least=40).iterations == 41


def test_warm_up_gives_up_and_says_so() -> None:
    growing = (1.3**i for i in itertools.count())
    warmth = warm_up(nothing, Told(growing), least=2, budget_s=0.0)
    assert not warmth.steady and warmth.iterations == 2


def test_each_variant_has_one_turn_in_each_round_and_no_fixed_neighbour() -> None:
    turns: list[str] = []
    names = ["a", "b", "c", "d"]
    calls = {name: (lambda name=name: turns.append(name)) for name in names}
    clock = Told(iter([float(i) for i in range(1000)]))
    laps = interleave(calls, clock, rounds=50, seed=1)
    orders = [tuple(turns[start : start + 4]) for start in range(0, 200, 4)]
    assert all(sorted(order) == names for order in orders)
    assert len(set(orders)) > 10
    before = Counter(orders[i][orders[i].index("b") - 1] for i in range(50) if orders[i][0] != "b")
    assert set(before) == {"a", "c", "d"}
    for i, order in enumerate(orders):
        for place, name in enumerate(order):
            assert laps[name][i].device_ms == 4 * i + place, "a lap went to another variant or another round"
    again: list[str] = []
    interleave({n: (lambda n=n: again.append(n)) for n in names}, Told(itertools.repeat(1.0)), rounds=50, seed=1)
    assert again == turns, "a seed is an order"


def test_short_calls_are_timed_several_at_a_time() -> None:
    clock = Clock(torch.device("cpu"), flush=False)
    assert calls_for(0.1, clock) == 20
    assert calls_for(50.0, clock) == 1
    assert calls_for(0.0, clock) == calls_for(1e-9, clock) == 200
