"""Plans worth timing for a shape: what a tuning run tries. A pure function; nothing here runs."""

from itertools import product

import torch

from vitbench.kernels.attention_tiles import LEAST, Plan, Split, Streamed, Whole, choose, power_of_two, segments

MOST_WHOLE = 320  # Padded tokens beyond which whole rows are not tried: what they take spills far out of the registers
_STREAMED: dict[bool, tuple[tuple[int, ...], ...]] = {
    False: ((64, 128), (32, 64, 128), (4, 8), (2, 3)),
    True: ((32, 64), (16, 32), (8,), (2,)),
}
"""Held, streamed, warps and stages, by whether the type is float32."""


def candidates(tokens: int, width: int, dtype: torch.dtype, backward: bool, capability_major: int = 9) -> list[Plan]:
    """Distinct plans, the present choice first, then those that differ least from what was reasoned.

    In float32, whose products bypass the tensor cores, the choice and some streamed plans alone.
    """
    helds, streams, warps, stages = _STREAMED[dtype.itemsize > 2]
    plans: list[Plan] = [choose(tokens, width, dtype, backward, capability_major)]
    if dtype.itemsize <= 2:
        plans += _split(tokens, backward)
        plans += _whole_backward(tokens) if backward else _whole_forward(tokens)
    for held, streamed, warp, stage in product(helds, streams, warps, stages):
        if max(held, streamed) <= power_of_two(tokens) and not (held == 128 and streamed == 128 and warp == 4):
            plans.append(Streamed(held, streamed, warp, stage))
    return list(dict.fromkeys(plans))


def _cuts(tokens: int) -> list[tuple[int, ...]]:
    """The segments that waste least, and one power of two for all, whose products are more but simpler."""
    return list(dict.fromkeys([segments(tokens), (power_of_two(tokens),)]))


def _split(tokens: int, backward: bool) -> list[Plan]:
    """At most 16 plans, where the tokens are a power of two and one more: those of one pair a program come first."""
    side = tokens - 1
    if side != power_of_two(side) or side > MOST_WHOLE:
        return []
    if backward:
        rows = (64, 32) if side == 64 else (min(side, 32), 16)
        loops: tuple[tuple[int, int, int | None], ...] = ((1, 1, None), (1, 1, 128), (4, 1, None), (4, 2, None))
    else:
        rows = (min(side, 64), min(side, 128))
        loops = ((1, 1, None), (2, 2, None), (4, 2, None), (8, 3, None))
    warps = (4, 8) if side > 32 else (1, 4)
    return list(
        dict.fromkeys(
            Split(size, pairs, warp, stages, registers)
            for pairs, stages, registers in loops
            for size in rows
            for warp in warps
            if size >= LEAST
        )
    )


def _whole_forward(tokens: int) -> list[Plan]:
    shapes = [
        (128, True, 8), (64, False, 4), (64, True, 4), (64, True, 8), (32, True, 2), (32, True, 4), (16, False, 2),
    ]  # fmt: skip
    return [
        Whole(cut, rows, narrow, pairs, warps, stages)
        for cut in _cuts(tokens)
        for rows, narrow, warps in shapes
        for pairs, stages in ((1, 2), (1, 3), (2, 2), (4, 3))
        if sum(cut) <= MOST_WHOLE and rows <= power_of_two(tokens) and not (pairs > 1 and sum(cut) > 128)
    ]


def _whole_backward(tokens: int) -> list[Plan]:
    shapes = [
        (32, False, 4), (32, False, 8), (16, False, 4), (16, False, 8), (64, True, 4), (64, False, 8), (32, True, 4),
    ]  # fmt: skip
    # 168 registers a thread are the most with which three programs of four warps share a multiprocessor.
    limited: list[Plan] = [
        Whole(segments(tokens), 32, False, 1, 4, 2, registers) for registers in (168, 128) if tokens <= 80
    ]
    return [
        Whole(cut, rows, narrow, pairs, warps, stages)
        for cut in _cuts(tokens)
        for rows, narrow, warps in shapes
        for pairs, stages in ((1, 2), (2, 2), (1, 1))
        if sum(cut) <= MOST_WHOLE and not (pairs > 1 and sum(cut) > 128)
    ] + limited
