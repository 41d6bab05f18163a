"""Attention over 2^k + 1 tokens: those of a grid and one class token.

The tokens 0 … M-1, M = N-1 a power of two, form full tiles with no mask; token M, the last, is called the extra one.
(Attention is the same for any order of the tokens, so where the class token stands is no concern of the kernel.)
With S = scale · Q Kᵀ, each product has a full part of M × M, a column (all queries, the extra key), a row (the extra
query, all keys) and a corner. On Hopper's tensor cores a result has 64 rows, but may have as few as 8 columns. Hence
no tile has the extra token on its long side. The column is Q · kᵀ, (M, 16), of which one column counts:

    Sₑ = Q kᵀ,   O += exp(Sₑ - L) v,   dPₑ = dO vᵀ,   dQ += dSₑ k,   dk = Qᵀ dSₑ,   dv = dOᵀ Pₑ

and the row is taken upright, K · qᵀ, (M, 16) as well, with results of shape (K, 16):

    Sᵣ = K qᵀ,   o = Vᵀ exp(Sᵣ - l),   dPᵣ = V doᵀ,   dV += Pᵣ do,   dK += dSᵣ q,   dq = Kᵀ dSᵣ

In the place of the other 15 of the 16, k, v, q and do are zero, or where that serves the sums, repeated. The corner is
a product of vectors. Softmax, exponentials, L in base 2, D and the packed gradients are those of ``attention_whole``.
All of a head is on the chip at once. Backward, the keys come in blocks, of which there is one where M is at most 64.
"""

# ruff: noqa: N803, PLR0917 - a kernel takes each stride by itself, and what is fixed at compile time in capitals

import triton
import triton.language as tl

from vitbench.kernels.attention_memory import (
    Options,
    compile_options,
    dropout_factor,
    dropout_stream,
    fast_log2,
    jit,
    probabilities,
    read,
    scores,
    store_in_place,
    write,
)
from vitbench.kernels.attention_tiles import Split


@jit
def _write_extra(pointer, columns, tile, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Column 0 of a (PADDED, 16) tile, as a row of K."""
    lanes = tl.arange(0, 16)
    places = pointer + columns[:, None] + 0 * lanes[None, :]
    tl.store(places, tile.to(pointer.dtype.element_ty), mask=(columns < K)[:, None] & (lanes == 0)[None, :])


@jit
def _extra_query(  # type: ignore[no-untyped-def]
    upright, q_extra, out, lse, columns, k_main, v_main, k_extra, v_extra, stream, scale2,
    K: tl.constexpr, PADDED: tl.constexpr, FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """O and L of the extra query.

    ``upright``: (SIDE,), its scores against the other keys. ``q_extra`` and ``k_extra``: (16, PADDED), the extra query
    and key 16 times; ``v_extra``: once, then zeros.

    Each warp holds all scores of a row in its lanes, in 16 rows that are the same: no sum of it crosses warps.
    """
    SIDE: tl.constexpr = k_main.shape[0]
    row = tl.broadcast_to(upright[None, :], (16, SIDE))
    corner = tl.sum(q_extra.to(tl.float32) * k_extra.to(tl.float32), 1)
    if FLIPPED:
        corner = -corner
    highest = tl.maximum(tl.max(row, 1), corner) * scale2
    weights = tl.exp2(row * scale2 - highest[:, None])
    weight = tl.exp2(corner * scale2 - highest)
    total = fast_log2(tl.sum(weights, 1) + weight)
    weights *= dropout_factor(stream, SIDE, tl.arange(0, SIDE)[None, :], DROPPED)
    weight *= dropout_factor(stream, SIDE, SIDE, DROPPED)
    weights = (weights * tl.exp2(-total)[:, None]).to(v_main.dtype)
    weight = tl.broadcast_to((weight * tl.exp2(-total))[:, None], (16, 16)).to(v_main.dtype)
    mixed = tl.dot(tl.trans(v_main), tl.trans(weights), input_precision=PRECISION)
    mixed = tl.dot(tl.trans(v_extra), tl.trans(weight), mixed, input_precision=PRECISION)
    _write_extra(out, columns, mixed, K)
    store_in_place(lse + 0 * tl.arange(0, 16), highest + total)


@jit
def forward_kernel(  # type: ignore[no-untyped-def]
    q, k, v, out, lse, seed,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, pairs, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, SIDE: tl.constexpr,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, PAIRS: tl.constexpr,
    FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """O and L of PAIRS (image, head) pairs: SIDE = N-1 keys whole, queries in blocks of ROWS, and the extra ones."""
    columns = tl.arange(0, PADDED)
    keys = tl.arange(0, SIDE)
    lanes = tl.arange(0, 16)
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
        k_main = read(k_pair, k_n, keys, columns, N, K, PADDED, True)
        v_main = read(v_pair, v_n, keys, columns, N, K, PADDED, True)
        q_extra = read(q_pair + SIDE * q_n, 0, lanes, columns, 16, K, PADDED, True)
        k_extra = read(k_pair + SIDE * k_n, 0, lanes, columns, 16, K, PADDED, True)
        v_extra = read(v_pair + SIDE * v_n, v_n, lanes, columns, 1, K, PADDED, False)
        q_tile, s_extra = k_main, tl.zeros((ROWS,), tl.float32)
        if BLOCKS == 1:  # here, so that all that is read is under way at once, and waited for once
            q_tile = read(q_pair, q_n, keys, columns, N, K, PADDED, True)
        upright = tl.max(scores(k_main, q_extra, FLIPPED, PRECISION), 1)  # 16 columns that are the same
        if BLOCKS == 1:
            s_extra = tl.max(scores(q_tile, k_extra, FLIPPED, PRECISION), 1)
        _extra_query(
            upright, q_extra, out_pair + SIDE * H * K, lse_pair + SIDE, columns,
            k_main, v_main, k_extra, v_extra, stream, scale2, K, PADDED, FLIPPED, DROPPED, PRECISION,
        )  # fmt: skip
        for block in range(BLOCKS):
            rows = block * ROWS + tl.arange(0, ROWS)
            tile = q_tile
            if BLOCKS > 1:
                tile = read(q_pair, q_n, rows, columns, N, K, PADDED, True)
                s_extra = tl.max(scores(tile, k_extra, FLIPPED, PRECISION), 1)
            s = scores(tile, k_main, FLIPPED, PRECISION)
            highest = tl.maximum(tl.max(s, 1), s_extra) * scale2
            p = tl.exp2(s * scale2 - highest[:, None])
            p_extra = tl.exp2(s_extra * scale2 - highest)
            total = fast_log2(tl.sum(p, 1) + p_extra)
            p *= dropout_factor(stream, rows[:, None], keys[None, :], DROPPED)
            p_extra *= dropout_factor(stream, rows, SIDE, DROPPED)
            p_extra = tl.broadcast_to(p_extra[:, None], (ROWS, 16)).to(v_main.dtype)
            mixed = tl.dot(p_extra, v_extra, input_precision=PRECISION)
            mixed = tl.dot(p.to(v_main.dtype), v_main, mixed, input_precision=PRECISION)
            write(out_pair, H * K, rows, columns, mixed * tl.exp2(-total)[:, None], N, K, PADDED, True)
            store_in_place(lse_pair + rows, highest + total)


@jit
def _add(a0, b0, c0, a1, b1, c1):  # type: ignore[no-untyped-def]
    return a0 + a1, b0 + b1, c0 + c1


@jit
def _read_vector(pointer, columns, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """One row of K, (PADDED), float32, zero beyond its end."""
    return tl.load(pointer + columns, mask=columns < K, other=0.0).to(tl.float32)


@jit
def _corner(  # type: ignore[no-untyped-def]
    q_vector, k_vector, v_vector, g_vector, o_vector, log, factor, scale2, FLIPPED: tl.constexpr
):
    """P, after dropout, and dS of the extra query and the extra key, and D of the extra query."""
    s, dp, d = tl.reduce((q_vector * k_vector, g_vector * v_vector, g_vector * o_vector), 0, _add)
    if FLIPPED:
        s = -s
    p = tl.exp2(s * scale2 - log)
    return p * factor, p * (dp * factor - d), d


@jit
def _differentiate_block(  # type: ignore[no-untyped-def]
    q_main, g_main, logs, d_main, q_extra, g_extra, log, d_extra, k_tile, v_tile, dq_main, dq_extra,
    dk_out, dv_out, stride, keys, columns, stream, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr,
    FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dK and dV of a block of keys, written; and both dQ, with what the block adds."""
    p = probabilities(scores(q_main, k_tile, FLIPPED, PRECISION), scale2, logs[:, None], True)
    dp = tl.dot(g_main, tl.trans(v_tile), input_precision=PRECISION)
    factor = dropout_factor(stream, tl.arange(0, N - 1)[:, None], keys[None, :], DROPPED)
    factor_row = dropout_factor(stream, N - 1, keys[:, None], DROPPED)
    ds = (p * (dp * factor - d_main[:, None])).to(q_main.dtype)
    p = (p * factor).to(q_main.dtype)
    # The extra query, upright: (keys, 16).
    p_row = probabilities(scores(k_tile, q_extra, FLIPPED, PRECISION), scale2, log, False)
    dp_row = tl.dot(v_tile, tl.trans(g_extra), input_precision=PRECISION)
    ds_row = (p_row * (dp_row * factor_row - d_extra)).to(q_main.dtype)
    p_row = (p_row * factor_row).to(q_main.dtype)
    dq_extra = tl.dot(tl.trans(k_tile), ds_row, dq_extra, input_precision=PRECISION)
    # Each result is written before the next is begun: one accumulator is in registers at a time.
    dv = tl.dot(tl.trans(p), g_main, input_precision=PRECISION)
    dv = tl.dot(p_row, g_extra, dv, input_precision=PRECISION)
    write(dv_out, stride, keys, columns, dv, N, K, PADDED, True)
    if keys.shape[0] < N - 1 or PADDED < 64:
        dk = tl.dot(tl.trans(ds), q_main, input_precision=PRECISION)
        dk = tl.dot(ds_row, q_extra, dk, input_precision=PRECISION)
    else:  # dS is read where dKᵀ is made from shared memory, not kept in registers meanwhile: 114 of them, for 143
        dk = tl.dot(tl.trans(q_main), ds, input_precision=PRECISION)
        dk = tl.trans(tl.dot(tl.trans(q_extra), tl.trans(ds_row), dk, input_precision=PRECISION))
    write(dk_out, stride, keys, columns, dk * scale, N, K, PADDED, True)
    dq_main = tl.dot(ds, k_tile, dq_main, input_precision=PRECISION)
    return dq_main, dq_extra


@jit
def _differentiate_extra_key(  # type: ignore[no-untyped-def]
    q_main, g_main, logs, d_main, k_extra, v_extra, dq_main, dk_out, dv_out, dk_corner, dv_corner, columns, factor,
    scale, scale2, K: tl.constexpr, FLIPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dK and dV of the extra key, written with what the extra query adds; and dQ, with what the extra key adds."""
    p = probabilities(scores(q_main, k_extra, FLIPPED, PRECISION), scale2, logs[:, None], False)
    dp = tl.dot(g_main, tl.trans(v_extra), input_precision=PRECISION)
    ds = (p * (dp * factor - d_main[:, None])).to(q_main.dtype)
    dv = tl.dot(tl.trans(g_main), (p * factor).to(q_main.dtype), input_precision=PRECISION)
    _write_extra(dv_out, columns, dv + dv_corner[:, None], K)
    dk = tl.dot(tl.trans(q_main), ds, input_precision=PRECISION)
    _write_extra(dk_out, columns, (dk + dk_corner[:, None]) * scale, K)
    return tl.dot(ds, k_extra, dq_main, input_precision=PRECISION)


@jit
def backward_kernel(  # type: ignore[no-untyped-def]
    grad, q, k, v, out, lse, grads, seed,
    g_b, g_n, g_h,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, pairs, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, SIDE: tl.constexpr,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, PAIRS: tl.constexpr,
    FLIPPED: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dQ, dK and dV of PAIRS (image, head) pairs: SIDE = N-1 queries whole, keys in blocks of ROWS, the extra ones.

    Where zeros stand for the extra query, or key, P is 2^(0 - L), held at most 1: it is multiplied with zeros alone, or
    what is made of it is not written.
    """
    columns = tl.arange(0, PADDED)
    queries = tl.arange(0, SIDE)
    lanes = tl.arange(0, 16)
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

        q_main = read(q_pair, q_n, queries, columns, N, K, PADDED, True)
        g_main = read(grad_pair, g_n, queries, columns, N, K, PADDED, True)
        o_main = read(out_pair, H * K, queries, columns, N, K, PADDED, True)
        d_main = tl.sum(g_main.to(tl.float32) * o_main.to(tl.float32), 1)
        logs = tl.load(lse_pair + queries)

        q_pair_extra = q_pair + SIDE * q_n
        k_pair_extra = k_pair + SIDE * k_n
        v_pair_extra = v_pair + SIDE * v_n
        grad_pair_extra = grad_pair + SIDE * g_n
        q_extra = read(q_pair_extra, q_n, lanes, columns, 1, K, PADDED, False)
        k_extra = read(k_pair_extra, k_n, lanes, columns, 1, K, PADDED, False)
        v_extra = read(v_pair_extra, v_n, lanes, columns, 1, K, PADDED, False)
        g_extra = read(grad_pair_extra, g_n, lanes, columns, 1, K, PADDED, False)
        log = tl.load(lse_pair + SIDE)
        q_vector = _read_vector(q_pair_extra, columns, K)
        k_vector = _read_vector(k_pair_extra, columns, K)
        v_vector = _read_vector(v_pair_extra, columns, K)
        g_vector = _read_vector(grad_pair_extra, columns, K)
        o_vector = _read_vector(out_pair + SIDE * H * K, columns, K)
        corner = dropout_factor(stream, SIDE, SIDE, DROPPED)
        p_corner, ds_corner, d_extra = _corner(
            q_vector, k_vector, v_vector, g_vector, o_vector, log, corner, scale2, FLIPPED
        )

        dq_main = tl.zeros((SIDE, PADDED), tl.float32)
        dq_extra = tl.zeros((PADDED, 16), tl.float32)
        for block in range(BLOCKS):
            keys = block * ROWS + tl.arange(0, ROWS)
            k_tile = read(k_pair, k_n, keys, columns, N, K, PADDED, True)
            v_tile = read(v_pair, v_n, keys, columns, N, K, PADDED, True)
            dq_main, dq_extra = _differentiate_block(
                q_main, g_main, logs, d_main, q_extra, g_extra, log, d_extra, k_tile, v_tile, dq_main, dq_extra,
                dk_pair, dv_pair, 3 * H * K, keys, columns, stream, scale, scale2,
                N, K, PADDED, FLIPPED, DROPPED, PRECISION,
            )  # fmt: skip
        last = SIDE * 3 * H * K
        _write_extra(dq_pair + last, columns, (dq_extra + (ds_corner * k_vector)[:, None]) * scale, K)
        dq_main = _differentiate_extra_key(
            q_main, g_main, logs, d_main, k_extra, v_extra, dq_main, dk_pair + last, dv_pair + last,
            ds_corner * q_vector, p_corner * g_vector, columns, dropout_factor(stream, queries[:, None], SIDE, DROPPED),
            scale, scale2, K, FLIPPED, PRECISION,
        )  # fmt: skip
        write(dq_pair, 3 * H * K, queries, columns, dq_main * scale, N, K, PADDED, True)


def options(plan: Split, tokens: int, width: int, flipped: bool, allow_tf32: bool, dropout: float) -> Options:
    """Compile options of the kernels. ``flipped``: the scale is negative, and the scores change sign instead."""
    side = tokens - 1
    if side % plan.rows or side != triton.next_power_of_2(side):
        raise ValueError(f"{plan} takes a power of two of tokens and one more, not {tokens}")
    return {
        **compile_options(plan, tokens, width, allow_tf32, dropout),
        "SIDE": side,
        "ROWS": plan.rows,
        "BLOCKS": side // plan.rows,
        "PAIRS": plan.pairs,
        "FLIPPED": flipped,
        "maxnreg": plan.registers,
    }
