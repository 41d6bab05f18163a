"""The choice of attention kernel and tiles: a pure function of (tokens, width, dtype, direction, card).

Never of a timing at run time: the order of the sums, and so their bits, depends on the choice. What a tuning run finds
(``python -m tools.tune_attention``) is written into :data:`TUNED` by hand, and is then the same everywhere.
"""

import itertools
from typing import NamedTuple

import torch

LEAST = 16  # The least side of a tile that tl.dot takes


class Whole(NamedTuple):
    """Tiles of the kernels that hold one side of a head whole (``attention_whole``).

    Forward, keys and values are whole and queries come in blocks; backward, queries are whole and keys come in blocks.
    """

    segments: tuple[int, ...]  # The whole side, cut: one to three descending powers of two that cover N
    rows: int  # Size of a block of the other side
    narrow: bool
    """Whether the last block is cut to the least power of two that holds what is left, and compiled by itself."""
    pairs: int  # (image, head) pairs that one program computes, one after another
    warps: int
    stages: int
    registers: int | None = None
    """Most registers of a thread: a limit that the compiler is given. None: what the compiler finds best."""


class Split(NamedTuple):
    """Tiles of the kernels for a power of two of tokens and one more (``attention_split``)."""

    rows: int  # Size of a block of queries forward, and of keys backward: a power of two that divides N - 1
    pairs: int  # (image, head) pairs that one program computes, one after another
    warps: int
    stages: int
    registers: int | None = None
    """Most registers of a thread: a limit that the compiler is given. None: what the compiler finds best."""


class Streamed(NamedTuple):
    """Tiles of the kernels that keep a block of one side and stream the other past it (``attention_streamed``)."""

    held: int  # Rows that a program keeps on the chip: queries, or keys where it computes dK and dV
    streamed: int  # Rows of the other side that it takes at each step; the last step is as narrow as what is left
    warps: int
    stages: int


Plan = Whole | Split | Streamed


def power_of_two(size: int) -> int:
    """The least power of two that is a tile's side and not less than ``size``."""
    return max(LEAST, 1 << (size - 1).bit_length())


def segments(tokens: int) -> tuple[int, ...]:
    """One to three descending powers of two that cover ``tokens`` and waste least: 197 = 128 + 64 + 16."""
    sizes = [LEAST << i for i in range(power_of_two(tokens).bit_length() - LEAST.bit_length(), -1, -1)]
    choices = itertools.chain.from_iterable(itertools.combinations(sizes, count) for count in (1, 2, 3))
    return min((cut for cut in choices if sum(cut) >= tokens), key=lambda cut: (sum(cut), len(cut)))


def blocks(tokens: int, size: int, narrow: bool) -> tuple[int, int]:
    """``tokens`` in blocks of ``size``: how many, and the size of a narrow one for what is left, or 0.

    Where there is none and ``size`` does not divide ``tokens``, the last block is padded.
    """
    whole, left = divmod(tokens, size)
    rest = power_of_two(left) if left else 0
    if left and (not narrow or rest >= size):
        return whole + 1, 0
    return whole, rest


_IN_HALVES: dict[tuple[int, int, bool], Plan] = {
    (65, 64, False): Split(rows=64, pairs=1, warps=4, stages=1),
    (65, 64, True): Whole((64, 16), rows=32, narrow=False, pairs=1, warps=4, stages=2, registers=168),
    (65, 32, False): Split(rows=64, pairs=2, warps=4, stages=2),
    (65, 32, True): Split(rows=64, pairs=1, warps=4, stages=1, registers=128),
    (197, 64, False): Whole((256,), rows=64, narrow=True, pairs=1, warps=4, stages=3),
    (197, 64, True): Whole((256,), rows=64, narrow=False, pairs=1, warps=8, stages=2),
    (257, 64, False): Streamed(held=64, streamed=64, warps=4, stages=3),
    (257, 64, True): Whole((256, 16), rows=64, narrow=False, pairs=1, warps=8, stages=2),
    (577, 64, False): Streamed(held=64, streamed=64, warps=4, stages=3),
    (577, 64, True): Streamed(held=64, streamed=32, warps=4, stages=3),
}

TUNED: dict[tuple[int, int, torch.dtype, bool], Plan] = {
    (tokens, width, dtype, backward): plan
    for (tokens, width, backward), plan in _IN_HALVES.items()
    for dtype in (torch.bfloat16, torch.float16)
}
"""(N, K, dtype, backward) → plan: the fastest that was right on a H100 (Triton 3.6, bfloat16; docs/kernel-notes.md)."""


class Room(NamedTuple):
    """How much of a head the whole kernels hold: padded head width → rows, padded.

    Up to the limits the compiler spills nothing to memory (tested at the limits for 9.0 and 8.9; 136 bytes at 10.0).
    """

    keys: dict[int, int]
    """Most keys that the forward holds; the scores against them are in registers."""
    queries: dict[int, int]
    """Most queries that the backward holds; their dQ, and P and dP against a block of keys, are in registers."""


LARGE = Room({16: 272, 32: 272, 64: 272, 128: 144}, {16: 272, 32: 256, 64: 272, 128: 80})
"""Compute capability 9 and 10: products read their operands from shared memory, of which a program can have 227 KiB."""

SMALL = Room({16: 144, 32: 144, 64: 128, 128: 128}, {16: 144, 32: 144, 64: 144, 128: 64})
"""8 and 12: operands are in registers, too, and a program has 99 KiB of shared memory, or 163 (8.0)."""


SPLIT_FORWARD = frozenset({65, 129})
"""Tokens for which the split forward, as compiled for 9.0, has fewer instructions and barriers than the whole one at
K ≤ 64. Shorter, its tiles are too small for Hopper's wide instruction; longer, it takes all registers."""


def choose(tokens: int, width: int, dtype: torch.dtype, backward: bool, capability_major: int = 9) -> Plan:
    """The entry of :data:`TUNED` on cards of compute capability 9, or else the rule's plan.

    The rule follows what won there. It takes the split kernel where that is less work, the whole kernel up to the
    limits above, and the streamed kernel elsewhere, which in float32 is everywhere: true float32 products bypass the
    tensor cores, and take several times the registers.
    """
    if capability_major == 9 and (tuned := TUNED.get((tokens, width, dtype, backward))) is not None:
        return tuned
    room = LARGE if capability_major in (9, 10) else SMALL
    cut, padded = segments(tokens), power_of_two(width)
    if room is LARGE and dtype.itemsize <= 2 and not backward and tokens in SPLIT_FORWARD and padded <= 64:
        return Split(rows=64, pairs=1, warps=4, stages=1)
    if dtype.itemsize > 2 or sum(cut) > (room.queries if backward else room.keys)[padded]:
        return _streamed(tokens, width, dtype, backward)
    if backward:  # two stages, since Triton 3.6 gets the loop wrong that is not pipelined (docs/kernel-notes.md)
        many = sum(cut) > 80 or padded > 64
        return Whole(cut, min(32, power_of_two(tokens)), narrow=False, pairs=1, warps=8 if many else 4, stages=2)
    rows = min(64, power_of_two(tokens))
    return Whole(cut, rows, narrow=True, pairs=1, warps=4 if rows == 64 else 2, stages=2)


def _streamed(tokens: int, width: int, dtype: torch.dtype, backward: bool) -> Streamed:
    """Sizes whose tiles cost least, a tile costing its rows plus 32 more for what it costs at any size.

    The largest are those at which every kernel, as compiled for compute capabilities 8.6 and 9.0, needs at most 96 KiB
    of shared memory and keeps its accumulators in registers.
    """
    exact = dtype.itemsize == 4  # true float32 is twice the bytes, and bypasses the tensor cores
    held, streamed = _fit(tokens, 64), _fit(tokens, (16 if exact else 32) * (1 if backward else 2))
    large = exact or width > 64
    return Streamed(held, streamed, warps=8 if large else 4, stages=2 if large else 3)


def _fit(tokens: int, largest: int) -> int:
    """The power of two from 16 to ``largest`` whose tiles cost least."""
    sizes = [size for size in (64, 32, 16) if size <= largest]
    return min(sizes, key=lambda size: -(-tokens // size) * (size + 32))
