"""Fronts: what nothing surpasses, and what of that is told by costs which are known within their spread."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vitbench.analysis.front import NO, PERHAPS, YES, CostSamples, distinguishable, known, standings, unsurpassed

CELLS = st.dictionaries(st.text("abcdefgh", min_size=1), st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1)
SPREAD = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=6)


@given(CELLS, st.booleans())
def test_the_front_is_what_no_cell_surpasses(cells: dict[str, tuple[int, int]], cheap: bool) -> None:
    cost, gain = ({name: float(pair[i]) for name, pair in cells.items()} for i in (0, 1))

    def no_worse(first: str, second: str) -> bool:
        affordable = cost[first] <= cost[second] if cheap else cost[first] >= cost[second]
        return affordable and gain[first] >= gain[second]

    best = unsurpassed(cost, gain, cheap=cheap)
    for name in cells:
        surpassed = any(no_worse(o, name) and not no_worse(name, o) for o in cells)
        equal = [b for b in best if (cost[b], gain[b]) == (cost[name], gain[name])]
        assert bool(equal) != surpassed, "one of each pair that nothing surpasses, and no other"
    assert len({(cost[b], gain[b]) for b in best}) == len(best)


@given(SPREAD)
def test_yes_and_no_hold_wherever_costs_lie_within_their_intervals_and_perhaps_does_not(
    cells: list[tuple[int, int, int]],
) -> None:
    low, high = np.array([c[0] for c in cells], float), np.array([c[0] + c[1] for c in cells], float)
    gain = np.array([c[2] for c in cells], float)
    answers: list[set[bool]] = [set() for _ in cells]
    for ends in itertools.product((0, 1), repeat=len(cells)):
        cost = np.where(ends, high, low)
        for cell in range(len(cells)):
            no_worse = (cost <= cost[cell]) & (gain >= gain[cell])
            better = (cost < cost[cell]) | (gain > gain[cell])
            answers[cell].add(not (no_worse & better).any())
    words = {frozenset({True}): YES, frozenset({False}): NO, frozenset({True, False}): PERHAPS}
    assert standings(CostSamples(low, high), gain) == [words[frozenset(each)] for each in answers]


def test_of_two_cells_the_cheaper_is_told_by_every_seed_that_both_have() -> None:
    nan = math.nan
    # A slow hour made the third seed of all of them dear: their ranges overlap, and yet a is cheaper each time.
    repeated = np.array([[1.0, 1.1, 8.0], [2.0, 2.1, 9.0], [1.9, 2.2, nan], [nan, nan, 1.0]])
    cost = CostSamples(np.nanmin(repeated, axis=1), np.nanmax(repeated, axis=1), repeated)
    assert cost.less(1).tolist() == [True, False, False, False], "one shared seed tells nothing"
    assert cost.more(0).tolist() == [False, True, True, False]
    assert standings(cost, np.array([1.0, 2.0, 3.0, 0.0])) == [YES, PERHAPS, YES, PERHAPS]
    assert distinguishable(cost) and known(cost)


def test_costs_of_a_single_run_or_without_an_interval_tell_nothing() -> None:
    once = np.array([[1.0], [2.0]])
    for cost in (CostSamples(once[:, 0], once[:, 0], once), CostSamples(*np.full((2, 2), math.nan))):
        assert not known(cost) and not distinguishable(cost)
    same = np.array([[5.0, 5.0], [5.0, 5.0]])
    equal = CostSamples(same[:, 0], same[:, 0], same)
    assert known(equal) and not distinguishable(equal)
    assert standings(equal, np.array([1.0, 2.0])) == [NO, YES], "the same cost each time, and less for it"
