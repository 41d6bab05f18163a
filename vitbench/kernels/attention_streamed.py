"""Attention with one side streamed past a block of the other: for any length, the N × N scores never leave the chip.

Forward, for each head, with S = scale · Q Kᵀ and rows of S handled in blocks of keys (online softmax):

    m_i = max_j S_ij,   L_i = m_i + log Σ_j exp(S_ij - m_i),   O = P V,   P_ij = exp(S_ij - L_i)

Backward, with P recomputed from L, and D_i = Σ_c dO_ic O_ic (= Σ_j P_ij dP_ij), in two kernels:

    dV = Pᵀ dO,   dP = dO Vᵀ,   dS = P ∘ (dP - D),   dQ = scale · dS K,   dK = scale · dSᵀ Q

Each program owns the rows that it writes, so there are no atomics: the same inputs give the same bits.
Exponentials are powers of two, log2(e) being folded into the scale, and L is stored in base 2 as well.
The streamed side goes by in whole blocks, which need no mask, and a narrow one for what is left.

Source: FlashAttention-2, Dao 2023, arXiv 2307.08691, §3.1, algorithms 1 and 2. exp2 in the place of exp is
also in Triton's tutorial "Fused Attention". Written from the formulas.
"""

# ruff: noqa: N803, PLR0917 - a kernel takes each stride by itself, and what is fixed at compile time in capitals

import triton
import triton.language as tl
from torch import Tensor

from vitbench.kernels import attention_tiles
from vitbench.kernels.attention_memory import (
    LOG2_E,
    Options,
    compile_options,
    dropout_factor,
    dropout_stream,
    jit,
    probabilities,
    read,
    write,
)
from vitbench.kernels.attention_tiles import Streamed


@jit
def _place(seed, H, N: tl.constexpr, HELD: tl.constexpr, DROPPED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Which (image, head, rows) a program owns, and the pair's random numbers.

    Neighbours share the head: what they stream is in the cache. One grid axis, since the others end at 65535. The
    image's index has 64 bits for the offsets it multiplies.
    """
    held_blocks = tl.cdiv(N, HELD)
    program = tl.program_id(0)
    pair = program // held_blocks
    rows = (program % held_blocks) * HELD + tl.arange(0, HELD)
    return (pair // H).to(tl.int64), pair % H, rows, dropout_stream(seed, pair, DROPPED)


@jit
def _take_keys(  # type: ignore[no-untyped-def]
    q_tile, k, k_n, v, v_n, rows, keys, columns, highest, total, mixed, stream, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, INSIDE: tl.constexpr,
    DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One step of the online softmax."""
    k_tile = read(k, k_n, keys, columns, N, K, PADDED, INSIDE)
    scores = tl.dot(q_tile, tl.trans(k_tile), input_precision=PRECISION) * scale2
    if not INSIDE:
        scores = tl.where((keys < N)[None, :], scores, float("-inf"))
    # Every step has a key that exists, so `now` is finite for every row, padded queries (all zero) included: no
    # -inf - -inf below.
    now = tl.maximum(highest, tl.max(scores, 1))
    shrink = tl.exp2(highest - now)
    weights = tl.exp2(scores - now[:, None])
    v_tile = read(v, v_n, keys, columns, N, K, PADDED, INSIDE)
    total = total * shrink + tl.sum(weights, 1)
    mixed = mixed * shrink[:, None]
    weights *= dropout_factor(stream, rows[:, None], keys[None, :], DROPPED)
    mixed = tl.dot(weights.to(v_tile.dtype), v_tile, mixed, input_precision=PRECISION)
    return now, total, mixed


@jit
def forward_kernel(  # type: ignore[no-untyped-def]
    q, k, v, out, lse, seed,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, HELD: tl.constexpr,
    STREAMED: tl.constexpr, BLOCKS: tl.constexpr, REST: tl.constexpr,
    DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """O and L of a block of queries: FlashAttention-2, algorithm 1."""
    b, h, rows, stream = _place(seed, H, N, HELD, DROPPED)
    columns = tl.arange(0, PADDED)
    k += b * k_b + h * k_h
    v += b * v_b + h * v_h
    q_tile = read(q + b * q_b + h * q_h, q_n, rows, columns, N, K, PADDED, N % HELD == 0)
    highest = tl.full((HELD,), float("-inf"), tl.float32)
    total = tl.zeros((HELD,), tl.float32)
    mixed = tl.zeros((HELD, PADDED), tl.float32)
    for block in range(BLOCKS):
        keys = block * STREAMED + tl.arange(0, STREAMED)
        highest, total, mixed = _take_keys(
            q_tile, k, k_n, v, v_n, rows, keys, columns, highest, total, mixed, stream, scale2,
            N, K, PADDED, BLOCKS * STREAMED <= N, DROPPED, PRECISION,
        )  # fmt: skip
    if REST:
        last = BLOCKS * STREAMED + tl.arange(0, REST)
        highest, total, mixed = _take_keys(
            q_tile, k, k_n, v, v_n, rows, last, columns, highest, total, mixed, stream, scale2,
            N, K, PADDED, False, DROPPED, PRECISION,
        )  # fmt: skip
    write(out + (b * N * H + h) * K, H * K, rows, columns, mixed / total[:, None], N, K, PADDED, N % HELD == 0)
    tl.store(lse + (b * H + h) * N + rows, highest + tl.log2(total), mask=rows < N)


@jit
def _query_step(  # type: ignore[no-untyped-def]
    q_tile, g_tile, logs, d, dq, k, k_n, v, v_n, rows, keys, columns, stream, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, INSIDE: tl.constexpr,
    DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dQ with what a block of keys adds to it."""
    k_tile = read(k, k_n, keys, columns, N, K, PADDED, INSIDE)
    v_tile = read(v, v_n, keys, columns, N, K, PADDED, INSIDE)
    scores = tl.dot(q_tile, tl.trans(k_tile), input_precision=PRECISION)
    weights = probabilities(scores, scale2, logs[:, None], INSIDE)
    dp = tl.dot(g_tile, tl.trans(v_tile), input_precision=PRECISION)
    ds = weights * (dp * dropout_factor(stream, rows[:, None], keys[None, :], DROPPED) - d[:, None])
    return tl.dot(ds.to(k_tile.dtype), k_tile, dq, input_precision=PRECISION)


@jit
def query_kernel(  # type: ignore[no-untyped-def]
    grad, q, k, v, out, lse, delta, grads, seed,
    g_b, g_n, g_h,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, HELD: tl.constexpr,
    STREAMED: tl.constexpr, BLOCKS: tl.constexpr, REST: tl.constexpr,
    DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dQ of a block of queries, and their D, which the other half of the backward reads."""
    b, h, rows, stream = _place(seed, H, N, HELD, DROPPED)
    columns = tl.arange(0, PADDED)
    k += b * k_b + h * k_h
    v += b * v_b + h * v_h
    q_tile = read(q + b * q_b + h * q_h, q_n, rows, columns, N, K, PADDED, N % HELD == 0)
    g_tile = read(grad + b * g_b + h * g_h, g_n, rows, columns, N, K, PADDED, N % HELD == 0)
    o_tile = read(out + (b * N * H + h) * K, H * K, rows, columns, N, K, PADDED, N % HELD == 0)
    d = tl.sum(g_tile.to(tl.float32) * o_tile.to(tl.float32), 1)
    tl.store(delta + (b * H + h) * N + rows, d, mask=rows < N)
    logs = tl.load(lse + (b * H + h) * N + rows, mask=rows < N, other=float("inf"))  # padded queries: P = 0
    dq = tl.zeros((HELD, PADDED), tl.float32)
    for block in range(BLOCKS):
        keys = block * STREAMED + tl.arange(0, STREAMED)
        dq = _query_step(
            q_tile, g_tile, logs, d, dq, k, k_n, v, v_n, rows, keys, columns, stream, scale2,
            N, K, PADDED, BLOCKS * STREAMED <= N, DROPPED, PRECISION,
        )  # fmt: skip
    if REST:
        last = BLOCKS * STREAMED + tl.arange(0, REST)
        dq = _query_step(
            q_tile, g_tile, logs, d, dq, k, k_n, v, v_n, rows, last, columns, stream, scale2,
            N, K, PADDED, False, DROPPED, PRECISION,
        )  # fmt: skip
    write(grads + (b * N * 3 * H + h) * K, 3 * H * K, rows, columns, dq * scale, N, K, PADDED, N % HELD == 0)


@jit
def _key_value_step(  # type: ignore[no-untyped-def]
    k_tile, v_tile, dk, dv, q, q_n, grad, g_n, lse, delta, keys, rows, columns, stream, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, INSIDE: tl.constexpr,
    ALL_KEYS: tl.constexpr, DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dK and dV with what a block of queries adds. Scores are held transposed, as both products need them."""
    q_tile = read(q, q_n, rows, columns, N, K, PADDED, INSIDE)
    g_tile = read(grad, g_n, rows, columns, N, K, PADDED, INSIDE)
    logs = tl.load(lse + rows, mask=rows < N, other=float("inf"))  # padded queries: P = 0
    d = tl.load(delta + rows, mask=rows < N, other=0.0)
    scores = tl.dot(k_tile, tl.trans(q_tile), input_precision=PRECISION)
    weights = probabilities(scores, scale2, logs[None, :], ALL_KEYS)
    factor = dropout_factor(stream, rows[None, :], keys[:, None], DROPPED)
    dv = tl.dot((weights * factor).to(g_tile.dtype), g_tile, dv, input_precision=PRECISION)
    dp = tl.dot(v_tile, tl.trans(g_tile), input_precision=PRECISION)
    ds = weights * (dp * factor - d[None, :])
    dk = tl.dot(ds.to(q_tile.dtype), q_tile, dk, input_precision=PRECISION)
    return dk, dv


@jit
def key_value_kernel(  # type: ignore[no-untyped-def]
    grad, q, k, v, lse, delta, grads, seed,
    g_b, g_n, g_h,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, HELD: tl.constexpr,
    STREAMED: tl.constexpr, BLOCKS: tl.constexpr, REST: tl.constexpr,
    DROPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dK and dV of a block of keys."""
    b, h, keys, stream = _place(seed, H, N, HELD, DROPPED)
    columns = tl.arange(0, PADDED)
    q += b * q_b + h * q_h
    grad += b * g_b + h * g_h
    lse += (b * H + h) * N
    delta += (b * H + h) * N
    k_tile = read(k + b * k_b + h * k_h, k_n, keys, columns, N, K, PADDED, N % HELD == 0)
    v_tile = read(v + b * v_b + h * v_h, v_n, keys, columns, N, K, PADDED, N % HELD == 0)
    dk = tl.zeros((HELD, PADDED), tl.float32)
    dv = tl.zeros((HELD, PADDED), tl.float32)
    for block in range(BLOCKS):
        rows = block * STREAMED + tl.arange(0, STREAMED)
        dk, dv = _key_value_step(
            k_tile, v_tile, dk, dv, q, q_n, grad, g_n, lse, delta, keys, rows, columns, stream, scale2,
            N, K, PADDED, BLOCKS * STREAMED <= N, N % HELD == 0, DROPPED, PRECISION,
        )  # fmt: skip
    if REST:
        last = BLOCKS * STREAMED + tl.arange(0, REST)
        dk, dv = _key_value_step(
            k_tile, v_tile, dk, dv, q, q_n, grad, g_n, lse, delta, keys, last, columns, stream, scale2,
            N, K, PADDED, False, N % HELD == 0, DROPPED, PRECISION,
        )  # fmt: skip
    dk_out = grads + ((b * N * 3 + 1) * H + h) * K
    write(dk_out, 3 * H * K, keys, columns, dk * scale, N, K, PADDED, N % HELD == 0)
    write(dk_out + H * K, 3 * H * K, keys, columns, dv, N, K, PADDED, N % HELD == 0)


def options(plan: Streamed, tokens: int, width: int, allow_tf32: bool, dropout: float) -> Options:
    """Compile options of the kernels.

    N is among it: a ViT keeps to one or two sequence lengths, and the loops get a length known to the compiler. (In
    Triton 3.6 with NumPy 2.4, moreover, the interpreter cannot loop up to a number that is not known to it.)
    """
    count, rest = attention_tiles.blocks(tokens, plan.streamed, narrow=True)
    return {
        **compile_options(plan, tokens, width, allow_tf32, dropout),
        "HELD": plan.held,
        "STREAMED": plan.streamed,
        "BLOCKS": count,
        "REST": rest,
    }


def launch_forward(
    plan: Streamed, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float, allow_tf32: bool,
    dropout: float, seed: Tensor | None,
) -> None:  # fmt: skip
    """Write ``out`` (B, N, H, K) and ``lse`` (B, H, N), base 2, from q, k and v (B, H, N, K)."""
    B, H, N, K = q.shape
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    grid = (B * H * triton.cdiv(N, plan.held),)
    compiled_with = options(plan, N, K, allow_tf32, dropout)
    forward_kernel[grid](q, k, v, out, lse, seed, *strides, H, scale * LOG2_E, **compiled_with)


def launch_backward(
    plan: Streamed, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grads: Tensor,
    scale: float, allow_tf32: bool, dropout: float, seed: Tensor | None,
) -> None:  # fmt: skip
    """Write ``grads`` (B, N, 3, H, K) from ``grad`` (B, N, H, K) and what the forward took and gave."""
    B, H, N, K = q.shape
    delta = lse.new_empty(lse.shape)
    strides = (*grad.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    rest = (seed, *strides, H, scale, scale * LOG2_E)
    compiled_with = options(plan, N, K, allow_tf32, dropout)
    grid = (B * H * triton.cdiv(N, plan.held),)
    query_kernel[grid](grad, q, k, v, out, lse, delta, grads, *rest, **compiled_with)
    key_value_kernel[grid](grad, q, k, v, lse, delta, grads, *rest, **compiled_with)
