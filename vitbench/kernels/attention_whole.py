"""Attention with one side of a head whole on the chip: for the lengths that ViTs have, there is no online softmax.

Forward, for each head and each block of its queries against all keys, with S = scale · Q Kᵀ:

    m_i = max_j S_ij,   L_i = m_i + log Σ_j exp(S_ij - m_i),   O_i = Σ_j exp(S_ij - m_i) V_j / Σ_j exp(S_ij - m_i)

The softmax is the textbook's: nothing is rescaled, as the maximum is known before the first exponential.

Backward, with P recomputed from L once, D_i = Σ_c dO_ic O_ic, and all five products made from it in one program a head:

    dV = Pᵀ dO,   dP = dO Vᵀ,   dS = P ∘ (dP - D),   dQ = scale · dS K,   dK = scale · dSᵀ Q

All queries, their dO and their dQ stay on the chip while the keys go by in blocks, each of which leaves with its dK and
dV done: one accumulator is kept where holding the keys would take two. No second pass, no atomics: the same inputs give
the same bits. Exponentials are powers of two, log2(e) being folded into the scale, and L is stored in base 2 as well.

A power of two is what a tile's side must be, and what a ViT's length never is. So the whole side is cut into up to
three segments (65 = 64 + 16, 197 = 128 + 64 + 16, 257 = 256 + 16, the last padded), and the other into blocks of one
size and, where the plan says so, a narrow last one, which is compiled by itself.

Source: FlashAttention, Dao et al. 2022, arXiv 2205.14135, appendix B, for the formulas; the layout is our own.
"""

# ruff: noqa: N803, PLR0917 - a kernel takes each stride by itself, and what is fixed at compile time in capitals

import triton.language as tl

from vitbench.kernels import attention_tiles
from vitbench.kernels.attention_memory import (
    Options,
    compile_options,
    dropout_factor,
    dropout_stream,
    jit,
    probabilities,
    read,
    scores,
    write,
)
from vitbench.kernels.attention_tiles import Whole


@jit
def _highest(products, keys, N: tl.constexpr, INSIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Each query's highest unscaled score."""
    if not INSIDE:
        products = tl.where((keys < N)[None, :], products, float("-inf"))
    return tl.max(products, 1)


@jit
def _weights(products, scale2, shift, keys, N: tl.constexpr, INSIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """2^(scores · scale2 - shift): one multiply-add and one exponential an element. 0 for keys beyond N."""
    exponents = products * scale2 - shift[:, None]
    if not INSIDE:
        exponents = tl.where((keys < N)[None, :], exponents, float("-inf"))
    return tl.exp2(exponents)


@jit
def _mix(  # type: ignore[no-untyped-def]
    q, q_n, out, lse, rows, columns, k0, v0, k1, v1, k2, v2, stream, H, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, INSIDE: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr,
    FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """O and L of one block of queries."""
    q_tile = read(q, q_n, rows, columns, N, K, PADDED, INSIDE)
    s0 = scores(q_tile, k0, FLIPPED, PRECISION)
    keys0 = tl.arange(0, FIRST)
    highest = _highest(s0, keys0, N, FIRST <= N)
    if SECOND:
        s1 = scores(q_tile, k1, FLIPPED, PRECISION)
        keys1 = FIRST + tl.arange(0, SECOND)
        highest = tl.maximum(highest, _highest(s1, keys1, N, FIRST + SECOND <= N))
    if THIRD:
        s2 = scores(q_tile, k2, FLIPPED, PRECISION)
        keys2 = FIRST + SECOND + tl.arange(0, THIRD)
        highest = tl.maximum(highest, _highest(s2, keys2, N, FIRST + SECOND + THIRD <= N))
    # Key 0 exists, so this is finite for every row, padded queries (all zero) included. scale2 is not negative.
    highest = highest * scale2
    p0 = _weights(s0, scale2, highest, keys0, N, FIRST <= N)
    total = tl.sum(p0, 1)
    p0 *= dropout_factor(stream, rows[:, None], keys0[None, :], DROPPED)
    mixed = tl.dot(p0.to(v0.dtype), v0, input_precision=PRECISION)
    if SECOND:
        p1 = _weights(s1, scale2, highest, keys1, N, FIRST + SECOND <= N)
        total += tl.sum(p1, 1)
        p1 *= dropout_factor(stream, rows[:, None], keys1[None, :], DROPPED)
        mixed = tl.dot(p1.to(v1.dtype), v1, mixed, input_precision=PRECISION)
    if THIRD:
        p2 = _weights(s2, scale2, highest, keys2, N, FIRST + SECOND + THIRD <= N)
        total += tl.sum(p2, 1)
        p2 *= dropout_factor(stream, rows[:, None], keys2[None, :], DROPPED)
        mixed = tl.dot(p2.to(v2.dtype), v2, mixed, input_precision=PRECISION)
    write(out, H * K, rows, columns, mixed * (1.0 / total)[:, None], N, K, PADDED, INSIDE)
    tl.store(lse + rows, highest + tl.log2(total), mask=rows < N)


@jit
def forward_kernel(  # type: ignore[no-untyped-def]
    q, k, v, out, lse, seed,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, pairs, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, REST: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr, PAIRS: tl.constexpr,
    FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """O and L of PAIRS (image, head) pairs. Keys and values are read once."""
    columns = tl.arange(0, PADDED)
    for turn in range(PAIRS):
        # Beyond the last pair it is computed once more, by the program that also did so before: the same bits.
        pair = tl.minimum(tl.program_id(0) * PAIRS + turn, pairs - 1)
        b = (pair // H).to(tl.int64)
        h = pair % H
        stream = dropout_stream(seed, pair, DROPPED)
        q_pair = q + b * q_b + h * q_h
        k_pair = k + b * k_b + h * k_h
        v_pair = v + b * v_b + h * v_h
        out_pair = out + (b * N * H + h) * K
        lse_pair = lse + (b * H + h) * N
        keys = tl.arange(0, FIRST)
        k0 = read(k_pair, k_n, keys, columns, N, K, PADDED, FIRST <= N)
        v0 = read(v_pair, v_n, keys, columns, N, K, PADDED, FIRST <= N)
        k1, v1, k2, v2 = k0, v0, k0, v0  # absent segments are never looked at
        if SECOND:
            keys = FIRST + tl.arange(0, SECOND)
            k1 = read(k_pair, k_n, keys, columns, N, K, PADDED, FIRST + SECOND <= N)
            v1 = read(v_pair, v_n, keys, columns, N, K, PADDED, FIRST + SECOND <= N)
        if THIRD:
            keys = FIRST + SECOND + tl.arange(0, THIRD)
            k2 = read(k_pair, k_n, keys, columns, N, K, PADDED, FIRST + SECOND + THIRD <= N)
            v2 = read(v_pair, v_n, keys, columns, N, K, PADDED, FIRST + SECOND + THIRD <= N)
        if REST:  # first, so that what its narrow product keeps in registers is gone when the loop begins
            last = BLOCKS * ROWS + tl.arange(0, REST)
            _mix(
                q_pair, q_n, out_pair, lse_pair, last, columns, k0, v0, k1, v1, k2, v2, stream, H, scale2,
                N, K, PADDED, False, FIRST, SECOND, THIRD, FLIPPED, DROPPED, PRECISION,
            )  # fmt: skip
        for block in range(BLOCKS):
            rows = block * ROWS + tl.arange(0, ROWS)
            _mix(
                q_pair, q_n, out_pair, lse_pair, rows, columns, k0, v0, k1, v1, k2, v2, stream, H, scale2,
                N, K, PADDED, BLOCKS * ROWS <= N, FIRST, SECOND, THIRD, FLIPPED, DROPPED, PRECISION,
            )  # fmt: skip


@jit
def _differentiate(  # type: ignore[no-untyped-def]
    q_tile, g_tile, logs, d, dq, k_tile, v_tile, stream, start, keys, scale2,
    INSIDE: tl.constexpr, UPRIGHT: tl.constexpr, FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dQ with the contribution of a block of keys to a segment of queries added, and that block's dK and dV alone.

    ``start``: number of the segment's first query.
    """
    products = scores(q_tile, k_tile, FLIPPED, PRECISION)
    weights = probabilities(products, scale2, logs[:, None], INSIDE)
    dp = tl.dot(g_tile, tl.trans(v_tile), input_precision=PRECISION)
    queries = start + tl.arange(0, q_tile.shape[0])
    factor = dropout_factor(stream, queries[:, None], keys[None, :], DROPPED)
    ds = (weights * (dp * factor - d[:, None])).to(q_tile.dtype)
    weights = (weights * factor).to(g_tile.dtype)
    if UPRIGHT:
        dv = tl.dot(tl.trans(weights), g_tile, input_precision=PRECISION)
        dk = tl.dot(tl.trans(ds), q_tile, input_precision=PRECISION)
    else:
        dv = tl.trans(tl.dot(tl.trans(g_tile), weights, input_precision=PRECISION))
        dk = tl.trans(tl.dot(tl.trans(q_tile), ds, input_precision=PRECISION))
    dq = tl.dot(ds, k_tile, dq, input_precision=PRECISION)
    return dq, dk, dv


@jit
def _differentiate_block(  # type: ignore[no-untyped-def]
    k, k_n, v, v_n, dk_out, dv_out, keys, columns,
    q0, g0, logs0, d0, dq0, q1, g1, logs1, d1, dq1, q2, g2, logs2, d2, dq2, stream, H, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, SIZE: tl.constexpr, INSIDE: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr,
    FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dK and dV of one block of keys, written; and dQ of every segment, with what the block adds."""
    k_tile = read(k, k_n, keys, columns, N, K, PADDED, INSIDE)
    v_tile = read(v, v_n, keys, columns, N, K, PADDED, INSIDE)
    # Hopper's tensor cores multiply at full rate where the result has 64 rows: so its longer side
    # is upright.
    UPRIGHT: tl.constexpr = SIZE > PADDED
    dq0, dk, dv = _differentiate(
        q0, g0, logs0, d0, dq0, k_tile, v_tile, stream, 0, keys, scale2, INSIDE, UPRIGHT, FLIPPED, DROPPED, PRECISION
    )
    # Each segment's sums are its own: were one the start of the next, Triton would lay all warps along their 64 rows,
    # and with 8 warps do the work twice.
    if SECOND:
        dq1, dk1, dv1 = _differentiate(
            q1, g1, logs1, d1, dq1, k_tile, v_tile, stream, FIRST, keys, scale2,
            INSIDE, UPRIGHT, FLIPPED, DROPPED, PRECISION,
        )  # fmt: skip
        dk += dk1
        dv += dv1
    if THIRD:
        dq2, dk2, dv2 = _differentiate(
            q2, g2, logs2, d2, dq2, k_tile, v_tile, stream, FIRST + SECOND, keys, scale2,
            INSIDE, UPRIGHT, FLIPPED, DROPPED, PRECISION,
        )  # fmt: skip
        dk += dk2
        dv += dv2
    write(dk_out, 3 * H * K, keys, columns, dk * scale, N, K, PADDED, INSIDE)
    write(dv_out, 3 * H * K, keys, columns, dv, N, K, PADDED, INSIDE)
    return dq0, dq1, dq2


@jit
def _read_queries(  # type: ignore[no-untyped-def]
    q, q_n, grad, g_n, out, lse, columns, H,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, START: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Q, dO, L, D and an empty dQ of a segment of queries."""
    rows = START + tl.arange(0, SIZE)
    q_tile = read(q, q_n, rows, columns, N, K, PADDED, START + SIZE <= N)
    g_tile = read(grad, g_n, rows, columns, N, K, PADDED, START + SIZE <= N)
    o_tile = read(out, H * K, rows, columns, N, K, PADDED, START + SIZE <= N)
    d = tl.sum(g_tile.to(tl.float32) * o_tile.to(tl.float32), 1)
    logs = tl.load(lse + rows, mask=rows < N, other=float("inf"))  # padded queries: P = 0
    return q_tile, g_tile, logs, d, tl.zeros((SIZE, PADDED), tl.float32)


@jit
def backward_kernel(  # type: ignore[no-untyped-def]
    grad, q, k, v, out, lse, grads, seed,
    g_b, g_n, g_h,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, pairs, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, REST: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr, PAIRS: tl.constexpr,
    FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dQ, dK and dV of PAIRS (image, head) pairs. Here the segments are of queries, and the blocks of keys."""
    columns = tl.arange(0, PADDED)
    for turn in range(PAIRS):
        pair = tl.minimum(tl.program_id(0) * PAIRS + turn, pairs - 1)  # as in the forward
        b = (pair // H).to(tl.int64)
        h = pair % H
        stream = dropout_stream(seed, pair, DROPPED)
        q_pair = q + b * q_b + h * q_h
        k_pair = k + b * k_b + h * k_h
        v_pair = v + b * v_b + h * v_h
        grad_pair = grad + b * g_b + h * g_h
        out_pair = out + (b * N * H + h) * K
        lse_pair = lse + (b * H + h) * N
        dq_pair = grads + (b * N * 3 * H + h) * K
        dk_pair = dq_pair + H * K
        dv_pair = dk_pair + H * K
        q0, g0, logs0, d0, dq0 = _read_queries(
            q_pair, q_n, grad_pair, g_n, out_pair, lse_pair, columns, H, N, K, PADDED, 0, FIRST
        )
        q1, g1, logs1, d1, dq1 = q0, g0, logs0, d0, dq0  # absent segments are never looked at
        q2, g2, logs2, d2, dq2 = q0, g0, logs0, d0, dq0
        if SECOND:
            q1, g1, logs1, d1, dq1 = _read_queries(
                q_pair, q_n, grad_pair, g_n, out_pair, lse_pair, columns, H, N, K, PADDED, FIRST, SECOND
            )
        if THIRD:
            q2, g2, logs2, d2, dq2 = _read_queries(
                q_pair, q_n, grad_pair, g_n, out_pair, lse_pair, columns, H, N, K, PADDED, FIRST + SECOND, THIRD
            )
        if REST:
            last = BLOCKS * ROWS + tl.arange(0, REST)
            dq0, dq1, dq2 = _differentiate_block(
                k_pair, k_n, v_pair, v_n, dk_pair, dv_pair, last, columns,
                q0, g0, logs0, d0, dq0, q1, g1, logs1, d1, dq1, q2, g2, logs2, d2, dq2, stream, H, scale, scale2,
                N, K, PADDED, REST, False, FIRST, SECOND, THIRD, FLIPPED, DROPPED, PRECISION,
            )  # fmt: skip
        for block in range(BLOCKS):
            keys = block * ROWS + tl.arange(0, ROWS)
            dq0, dq1, dq2 = _differentiate_block(
                k_pair, k_n, v_pair, v_n, dk_pair, dv_pair, keys, columns,
                q0, g0, logs0, d0, dq0, q1, g1, logs1, d1, dq1, q2, g2, logs2, d2, dq2, stream, H, scale, scale2,
                N, K, PADDED, ROWS, BLOCKS * ROWS <= N, FIRST, SECOND, THIRD, FLIPPED, DROPPED, PRECISION,
            )  # fmt: skip
        rows = tl.arange(0, FIRST)
        write(dq_pair, 3 * H * K, rows, columns, dq0 * scale, N, K, PADDED, FIRST <= N)
        if SECOND:
            rows1 = FIRST + tl.arange(0, SECOND)
            write(dq_pair, 3 * H * K, rows1, columns, dq1 * scale, N, K, PADDED, FIRST + SECOND <= N)
        if THIRD:
            rows2 = FIRST + SECOND + tl.arange(0, THIRD)
            write(dq_pair, 3 * H * K, rows2, columns, dq2 * scale, N, K, PADDED, FIRST + SECOND + THIRD <= N)


def options(plan: Whole, tokens: int, width: int, flipped: bool, allow_tf32: bool, dropout: float) -> Options:
    """Compile options of the kernels. ``flipped``: the scale is negative, and the scores change sign instead."""
    count, rest = attention_tiles.blocks(tokens, plan.rows, plan.narrow)
    first, second, third = (*plan.segments, 0, 0)[:3]
    return {
        **compile_options(plan, tokens, width, allow_tf32, dropout),
        "ROWS": plan.rows,
        "BLOCKS": count,
        "REST": rest,
        "FIRST": first,
        "SECOND": second,
        "THIRD": third,
        "PAIRS": plan.pairs,
        "FLIPPED": flipped,
        "maxnreg": plan.registers,
    }
