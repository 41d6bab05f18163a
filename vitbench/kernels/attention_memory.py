"""Masked loads and stores of rows, dropout, and compile options, shared by all attention kernels."""

# ruff: noqa: N803, PLR0917 - a kernel takes each stride by itself, and what is fixed at compile time in capitals

import math
from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice

from vitbench.kernels.attention_tiles import Plan

LOG2_E = math.log2(math.e)  # Exponentials are powers of two: this is folded into the scale
Options = dict[str, float | bool | str | None]  # Compile-time parameter of a kernel, or the compiler's → its value
jit: Callable[[Callable[..., Any]], Any] = triton.jit  # triton has no types; this gives the decorator one


@jit
def read(  # type: ignore[no-untyped-def]
    pointer, stride, rows, columns, N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, INSIDE: tl.constexpr
):
    """Rows of an (N, K) matrix, zero beyond its edges. ``INSIDE``: no row is beyond them, and none is masked."""
    # Columns before rows: what they add to an address is then computed once, not once for each row.
    places = pointer + columns[None, :] + rows[:, None] * stride
    if INSIDE and K == PADDED:
        tile = tl.load(places)
    else:
        tile = tl.load(places, mask=(rows < N)[:, None] & (columns < K)[None, :], other=0.0)
    return tile


@jit
def write(  # type: ignore[no-untyped-def]
    pointer, stride, rows, columns, tile, N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, INSIDE: tl.constexpr
):
    """Rows into an (N, K) matrix, what lies beyond its edges left out."""
    places = pointer + columns[None, :] + rows[:, None] * stride
    tile = tile.to(pointer.dtype.element_ty)
    if INSIDE and K == PADDED:
        tl.store(places, tile)
    else:
        tl.store(places, tile, mask=(rows < N)[:, None] & (columns < K)[None, :])


@jit
def scores(q_tile, k_tile, FLIPPED: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """Unscaled scores, (queries, keys). ``FLIPPED``: the scale is negative, and what is made of it is its size."""
    products = tl.dot(q_tile, tl.trans(k_tile), input_precision=PRECISION)
    if FLIPPED:
        products = -products
    return products


@jit
def probabilities(products, scale2, logs, INSIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """P from unscaled scores, and from L as broadcasts to them, for the backward. ``INSIDE``: no key is beyond N.

    A padded key's score is 0, and 2^(0 - L) overflows where all true scores are far below 0. Probabilities are at most
    1, and so is the padded key's here: its K and V are 0, hence it adds nothing to dQ, and its own dK and dV are not
    written. A mask would say the same, and take registers that the longest rows have not to spare.
    """
    exponents = products * scale2 - logs
    if not INSIDE:
        exponents = tl.minimum(exponents, 0.0)
    return tl.exp2(exponents)


@jit
def _scrambled(x):  # type: ignore[no-untyped-def]
    """A permutation of all 32-bit numbers in which each bit depends on each. Source: fmix32 of MurmurHash3, Appleby."""
    x ^= x >> 16
    x *= 0x85EBCA6B
    x ^= x >> 13
    x *= 0xC2B2AE35
    return x ^ (x >> 16)


@jit
def dropout_stream(seed, pair, DROPPED: tl.constexpr):  # type: ignore[no-untyped-def]
    """The start of an (image, head) pair's random numbers. ``seed``: pointer to an int64, or None without dropout."""
    stream = pair.to(tl.uint32)
    if DROPPED:
        number = tl.load(seed).to(tl.uint64)
        stream = _scrambled(number.to(tl.uint32) ^ _scrambled((number >> 32).to(tl.uint32) ^ stream))
    return stream


@jit
def dropout_factor(stream, queries, keys, DROPPED: tl.constexpr):  # type: ignore[no-untyped-def]
    """The factor of each element of P under dropout: 0 with probability p = ``DROPPED`` / 2^32, else 1 / (1 - p).

    It depends on the pair, the query and the key alone, so the backward drops the same elements as the forward, however
    each is tiled. It takes a quarter of Philox's instructions. ``queries`` and ``keys`` have shapes that broadcast.
    """
    factor = 1.0
    if DROPPED:
        row = _scrambled(stream + tl.cast(queries, tl.uint32))
        drawn = _scrambled(row + tl.cast(keys, tl.uint32) * 0x9E3779B9)
        factor = tl.where(drawn < tl.full([], DROPPED, tl.uint32), 0.0, 1.0 / (1.0 - DROPPED / 4294967296))
    return factor


def compile_options(plan: Plan, tokens: int, width: int, allow_tf32: bool, dropout: float) -> Options:
    """Compile options of every kernel."""
    return {
        "DROPPED": round(dropout * 2**32),
        "N": tokens,
        "K": width,
        "PADDED": triton.next_power_of_2(width),
        "PRECISION": "tf32" if allow_tf32 else "ieee",  # of float32 operands; those of 16 bits are exact in both
        "num_warps": plan.warps,
        "num_stages": plan.stages,
        # Triton changes its default for a · b + c in one rounding with version 3.10, and warns of it in 3.9.
        "enable_fp_fusion": True,
    }


INTERPRETED = not isinstance(read, triton.runtime.JITFunction)
"""TRITON_INTERPRET was set when this module was imported: the interpreter runs the kernels, on any device."""


if INTERPRETED:

    @jit
    def fast_log2(x):  # type: ignore[no-untyped-def]
        """The base-2 logarithm."""
        return tl.log2(x)

    @jit
    def store_in_place(places, values):  # type: ignore[no-untyped-def]
        """Store float32. The interpreter runs no assembly."""
        tl.store(places, values)

else:

    @jit
    def fast_log2(x):  # type: ignore[no-untyped-def]
        """The base-2 logarithm to 2^-22: one instruction, where the exact one takes 35."""
        return libdevice.fast_log2f(x)

    @jit
    def store_in_place(places, values):  # type: ignore[no-untyped-def]
        """Store float32 from the threads that hold it: tl.store would first move it to others, through shared memory.

        Several threads may hold a value, and then all store it.
        """
        tl.inline_asm_elementwise(
            "st.global.f32 [$1], $2; mov.f32 $0, $2;", "=f,l,f", [places.to(tl.int64), values],
            dtype=tl.float32, is_pure=False, pack=1,
        )  # fmt: skip
