"""Fused attention in Triton, forward and backward: the N × N scores never leave the chip.

Forward, for each head, with S = scale · Q Kᵀ and rows of S handled in blocks of keys (online softmax):

    m_i = max_j S_ij,   L_i = m_i + log Σ_j exp(S_ij - m_i),   O = P V,   P_ij = exp(S_ij - L_i)

Backward, with P recomputed from L, and D_i = Σ_c dO_ic O_ic (= Σ_j P_ij dP_ij):

    dV = Pᵀ dO,   dP = dO Vᵀ,   dS = P ∘ (dP - D),   dQ = scale · dS K,   dK = scale · dSᵀ Q

Each program owns the rows that it writes, so there are no atomics: the same inputs give the same bits.
Exponentials are powers of two, log2(e) being folded into the scale, and L is stored in base 2 as well.

Source: FlashAttention-2, Dao 2023, arXiv 2307.08691, §3.1, algorithms 1 and 2. exp2 in the place of exp is
also in Triton's tutorial "Fused Attention". Written from the formulas.
"""

# ruff: noqa: N803, PLR0917 - a kernel takes each stride by itself, and what is fixed at compile time in capitals

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

WIDTHS = (16, 32, 64, 80, 96, 128)
"""Head widths K that the kernel takes."""

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""Types that the kernel takes; sums are float32 in all of them."""

LOG2_E = math.log2(math.e)

_jit: Callable[[Callable[..., Any]], Any] = triton.jit  # triton has no types; this gives the decorator one


class Tiles(NamedTuple):
    """How one kernel is cut up."""

    held: int
    """Rows that a program keeps on the chip: queries, or keys where it computes dK and dV."""
    streamed: int
    """Rows of the other side that it takes at each step."""
    warps: int
    stages: int


def tiles(tokens: int, width: int, dtype: torch.dtype, backward: bool) -> Tiles:
    """Tile sizes from the shape alone.

    Never from a timing: the order of the sums, and so their bits, depends on them.

    A ViT's sequences are short and odd (65, 197, 257, 577), so a large tile may be mostly padding. A tile is
    taken to cost its rows plus 32 more for what it costs at any size (its start, and the other side streamed
    past it), and the size is the one with the least total. The largest sizes are those at which every kernel,
    as compiled for compute capabilities 8.6 and 9.0, needs at most 96 KiB of shared memory and keeps its
    accumulators in registers. None of this has been tuned for speed.
    """
    exact = dtype.itemsize == 4  # true float32 is twice the bytes, and bypasses the tensor cores
    if backward:
        largest_held, largest_streamed = 64, 16 if exact else 32
    else:
        largest_held, largest_streamed = (64, 32) if exact else (128, 64)
    held, streamed = _fit(tokens, largest_held), _fit(tokens, largest_streamed)
    return Tiles(held, streamed, warps=8 if exact or width > 64 else 4, stages=2)


def _fit(tokens: int, largest: int) -> int:
    """The power of two from 16 (the least that tl.dot takes) to ``largest`` whose tiles cost least."""
    sizes = [size for size in (128, 64, 32, 16) if size <= largest]
    return min(sizes, key=lambda size: math.ceil(tokens / size) * (size + 32))


@_jit
def _read(pointer, stride, rows, columns, N: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows of an (N, K) matrix, zero beyond its edges."""
    inside = (rows < N)[:, None] & (columns < K)[None, :]
    return tl.load(pointer + rows[:, None] * stride + columns[None, :], mask=inside, other=0.0)


@_jit
def _write(pointer, stride, rows, columns, N: tl.constexpr, K: tl.constexpr, tile):  # type: ignore[no-untyped-def]
    """Rows into an (N, K) matrix, what lies beyond its edges left out."""
    inside = (rows < N)[:, None] & (columns < K)[None, :]
    tile = tile.to(pointer.dtype.element_ty)
    tl.store(pointer + rows[:, None] * stride + columns[None, :], tile, mask=inside)


@_jit
def _place(H, N: tl.constexpr, HELD: tl.constexpr):  # type: ignore[no-untyped-def]
    """Which (image, head, rows) a program owns. Neighbours share the head: what they stream is in the cache.

    One grid axis, since the others end at 65535. The image's index has 64 bits for the offsets it multiplies.
    """
    blocks = tl.cdiv(N, HELD)
    program = tl.program_id(0)
    pair = program // blocks
    return (pair // H).to(tl.int64), pair % H, (program % blocks) * HELD + tl.arange(0, HELD)


@_jit
def _forward_kernel(  # type: ignore[no-untyped-def]
    q, k, v, out, lse,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, HELD: tl.constexpr, STREAMED: tl.constexpr,
):  # fmt: skip
    """O and L of a block of queries: FlashAttention-2, algorithm 1."""
    b, h, rows = _place(H, N, HELD)
    columns = tl.arange(0, PADDED)
    k += b * k_b + h * k_h
    v += b * v_b + h * v_h
    q_tile = _read(q + b * q_b + h * q_h, q_n, rows, columns, N, K)
    highest = tl.full((HELD,), float("-inf"), tl.float32)
    total = tl.zeros((HELD,), tl.float32)
    mixed = tl.zeros((HELD, PADDED), tl.float32)
    for start in range(0, N, STREAMED):
        keys = start + tl.arange(0, STREAMED)
        k_tile = _read(k, k_n, keys, columns, N, K)
        scores = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale2
        scores = tl.where((keys < N)[None, :], scores, float("-inf"))
        # Key 0 is in the first block, so `now` is finite for every row, padded queries (all zero) included:
        # no -inf - -inf below.
        now = tl.maximum(highest, tl.max(scores, 1))
        shrink = tl.exp2(highest - now)
        weights = tl.exp2(scores - now[:, None])
        v_tile = _read(v, v_n, keys, columns, N, K)
        total = total * shrink + tl.sum(weights, 1)
        mixed = mixed * shrink[:, None]
        mixed = tl.dot(weights.to(v_tile.dtype), v_tile, mixed, input_precision="ieee")
        highest = now
    _write(out + (b * N * H + h) * K, H * K, rows, columns, N, K, mixed / total[:, None])
    tl.store(lse + (b * H + h) * N + rows, highest + tl.log2(total), mask=rows < N)


@_jit
def _query_kernel(  # type: ignore[no-untyped-def]
    grad, q, k, v, out, lse, delta, grads,
    g_b, g_n, g_h,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, HELD: tl.constexpr, STREAMED: tl.constexpr,
):  # fmt: skip
    """dQ of a block of queries, and their D, which the other half of the backward reads."""
    b, h, rows = _place(H, N, HELD)
    columns = tl.arange(0, PADDED)
    k += b * k_b + h * k_h
    v += b * v_b + h * v_h
    q_tile = _read(q + b * q_b + h * q_h, q_n, rows, columns, N, K)
    g_tile = _read(grad + b * g_b + h * g_h, g_n, rows, columns, N, K)
    o_tile = _read(out + (b * N * H + h) * K, H * K, rows, columns, N, K)
    d = tl.sum(g_tile.to(tl.float32) * o_tile.to(tl.float32), 1)
    tl.store(delta + (b * H + h) * N + rows, d, mask=rows < N)
    logs = tl.load(lse + (b * H + h) * N + rows, mask=rows < N, other=float("inf"))  # padded queries: P = 0
    dq = tl.zeros((HELD, PADDED), tl.float32)
    for start in range(0, N, STREAMED):
        keys = start + tl.arange(0, STREAMED)
        k_tile = _read(k, k_n, keys, columns, N, K)
        v_tile = _read(v, v_n, keys, columns, N, K)
        scores = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale2
        # A padded key's score is 0, and exp2(0 - L) overflows where all true scores are far below 0.
        scores = tl.where((keys < N)[None, :], scores, float("-inf"))
        weights = tl.exp2(scores - logs[:, None])
        dp = tl.dot(g_tile, tl.trans(v_tile), input_precision="ieee")
        ds = weights * (dp - d[:, None])
        dq = tl.dot(ds.to(k_tile.dtype), k_tile, dq, input_precision="ieee")
    _write(grads + (b * N * 3 * H + h) * K, 3 * H * K, rows, columns, N, K, dq * scale)


@_jit
def _key_value_kernel(  # type: ignore[no-untyped-def]
    grad, q, k, v, lse, delta, grads,
    g_b, g_n, g_h,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    H, scale, scale2,
    N: tl.constexpr, K: tl.constexpr, PADDED: tl.constexpr, HELD: tl.constexpr, STREAMED: tl.constexpr,
):  # fmt: skip
    """dK and dV of a block of keys. Scores are held transposed, key by query, as both products need them."""
    b, h, keys = _place(H, N, HELD)
    columns = tl.arange(0, PADDED)
    q += b * q_b + h * q_h
    grad += b * g_b + h * g_h
    lse += (b * H + h) * N
    delta += (b * H + h) * N
    k_tile = _read(k + b * k_b + h * k_h, k_n, keys, columns, N, K)
    v_tile = _read(v + b * v_b + h * v_h, v_n, keys, columns, N, K)
    dk = tl.zeros((HELD, PADDED), tl.float32)
    dv = tl.zeros((HELD, PADDED), tl.float32)
    for start in range(0, N, STREAMED):
        rows = start + tl.arange(0, STREAMED)
        q_tile = _read(q, q_n, rows, columns, N, K)
        g_tile = _read(grad, g_n, rows, columns, N, K)
        logs = tl.load(lse + rows, mask=rows < N, other=float("inf"))  # padded queries: P = 0
        d = tl.load(delta + rows, mask=rows < N, other=0.0)
        scores = tl.dot(k_tile, tl.trans(q_tile), input_precision="ieee") * scale2
        scores = tl.where((keys < N)[:, None], scores, float("-inf"))
        weights = tl.exp2(scores - logs[None, :])
        dv = tl.dot(weights.to(g_tile.dtype), g_tile, dv, input_precision="ieee")
        dp = tl.dot(v_tile, tl.trans(g_tile), input_precision="ieee")
        ds = weights * (dp - d[None, :])
        dk = tl.dot(ds.to(q_tile.dtype), q_tile, dk, input_precision="ieee")
    _write(grads + ((b * N * 3 + 1) * H + h) * K, 3 * H * K, keys, columns, N, K, dk * scale)
    _write(grads + ((b * N * 3 + 2) * H + h) * K, 3 * H * K, keys, columns, N, K, dv)


INTERPRETED = not isinstance(_forward_kernel, triton.runtime.JITFunction)
"""TRITON_INTERPRET was set when this module was imported: the interpreter runs the kernels, on any device."""


def fused_attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attention of every head in one kernel: softmax(Q Kᵀ · scale) V, differentiable in q, k and v.

    Args:
        q: (B, H, N, K) queries, of any strides except that the last dimension's is 1: views of one projection
            (B, N, 3, H, K) are read where they lie. float32 (computed in true float32), float16 or bfloat16.
        k: (B, H, N, K) keys, likewise.
        v: (B, H, N, K) values, likewise.
        scale: what the scores are multiplied with, commonly 1 / √K.

    Returns:
        (B, N, H, K), contiguous: heads side by side, ready for ``.flatten(2)`` and the output projection.

    Raises:
        ValueError: shapes, types or devices differ, the head width is not in :data:`WIDTHS`, the type is not
            in :data:`DTYPES`, or the last dimension's stride is not 1.
        RuntimeError: the tensors are not on a CUDA device and Triton is not in interpreter mode, or it is and
            they are bfloat16.

    Source: FlashAttention-2, Dao 2023, arXiv 2307.08691.
    """
    if q.ndim != 4 or not q.shape == k.shape == v.shape:
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(f"q, k and v must have one shape (B, H, N, K), not {shapes}")
    if q.shape[-1] not in WIDTHS:
        raise ValueError(f"the triton kernel takes head widths {WIDTHS}, not {q.shape[-1]}")
    if q.dtype not in DTYPES or not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k and v must have one type of {DTYPES}, not {q.dtype}, {k.dtype}, {v.dtype}")
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k and v must be on one device, not {q.device}, {k.device}, {v.device}")
    if any(x.stride(-1) != 1 for x in (q, k, v)):
        raise ValueError("the last dimension of q, k and v must have stride 1")
    out: Tensor = attention_forward(q, k, v, scale)[0]
    return out


def _forward_outputs(q: Tensor) -> tuple[Tensor, Tensor]:
    """O (B, N, H, K) and L (B, H, N), not yet written."""
    B, H, N, K = q.shape
    return q.new_empty(B, N, H, K), q.new_empty(B, H, N, dtype=torch.float32)


def _backward_output(q: Tensor) -> Tensor:
    """(B, N, 3, H, K), not yet written: the layout of a projection that q, k and v commonly are views of."""
    B, H, N, K = q.shape
    return q.new_empty(B, N, 3, H, K)


def _refuse_where_it_cannot_run(q: Tensor) -> None:
    if not (q.is_cuda or INTERPRETED):
        raise RuntimeError(
            "the triton kernel needs CUDA tensors, or TRITON_INTERPRET=1 (set before triton is imported); "
            f"these tensors are on {q.device}"
        )
    if INTERPRETED and q.dtype == torch.bfloat16:
        # It keeps bfloat16 as uint16, and its tl.dot multiplies the bit patterns as whole numbers.
        raise RuntimeError("triton's interpreter cannot multiply bfloat16: use float32 or float16 there")


def _options(q: Tensor, backward: bool) -> dict[str, int]:
    """What the kernels are compiled with.

    N is among it: a ViT keeps to one or two sequence lengths, and the loops get a length known to the compiler. (In
    Triton 3.6 with NumPy 2.4, moreover, the interpreter cannot loop up to a number that is not known to it.)
    """
    *_, N, K = q.shape
    held, streamed, warps, stages = tiles(N, K, q.dtype, backward)
    sizes = {"N": N, "K": K, "PADDED": triton.next_power_of_2(K), "HELD": held, "STREAMED": streamed}
    # Triton changes its default for a · b + c in one rounding with version 3.10, and warns of it in 3.9.
    return sizes | {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}


@torch.library.custom_op("vitbench::attention_forward", mutates_args=())
def attention_forward(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """O (B, N, H, K) and L (B, H, N), float32 and base 2. Shapes are checked in :func:`fused_attention`."""
    _refuse_where_it_cannot_run(q)
    B, H, N, _ = q.shape
    out, lse = _forward_outputs(q)
    if out.numel() == 0:
        return out, lse
    options = _options(q, backward=False)
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    with torch.accelerator.device_index(q.device.index):  # triton launches on the current device
        grid = (B * H * triton.cdiv(N, options["HELD"]),)
        _forward_kernel[grid](q, k, v, out, lse, *strides, H, scale * LOG2_E, **options)
    return out, lse


@torch.library.custom_op("vitbench::attention_backward", mutates_args=())
def attention_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float) -> Tensor:
    """dQ, dK and dV side by side, (B, N, 3, H, K), from dO (B, N, H, K) and what the forward saved."""
    _refuse_where_it_cannot_run(q)
    B, H, N, _ = q.shape
    grads = _backward_output(q)
    if grads.numel() == 0:
        return grads
    if grad.stride(-1) != 1:  # such as the gradient of a sum: one number, expanded
        grad = grad.contiguous()
    delta = torch.empty_like(lse)
    options = _options(q, backward=True)
    strides = (*grad.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    rest = (*strides, H, scale, scale * LOG2_E)
    with torch.accelerator.device_index(q.device.index):
        grid = (B * H * triton.cdiv(N, options["HELD"]),)
        _query_kernel[grid](grad, q, k, v, out, lse, delta, grads, *rest, **options)
        _key_value_kernel[grid](grad, q, k, v, lse, delta, grads, *rest, **options)
    return grads


@attention_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    return _forward_outputs(q)


@attention_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float) -> Tensor:
    return _backward_output(q)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.scale = inputs
    out, lse = output
    ctx.save_for_backward(q, k, v, out, lse)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)  # none is wanted for lse


def _differentiate(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, Tensor, Tensor, None]:
    """Gradients of q, k and v, each (B, H, N, K): views of one buffer."""
    q, k, v, out, lse = ctx.saved_tensors
    grads = attention_backward(grad, q, k, v, out, lse, ctx.scale)
    dq, dk, dv = grads.permute(2, 0, 3, 1, 4).unbind(0)
    return dq, dk, dv, None


attention_forward.register_autograd(_differentiate, setup_context=_save)


@register_flop_formula(torch.ops.vitbench.attention_forward)
def _forward_flops(q: torch.Size, k: torch.Size, v: torch.Size, scale: float, out_shape: Any = None) -> int:
    """Two products of N × N × K for each head, counted as torch counts its own: 2 for a multiply and add."""
    B, H, N, K = q
    return 4 * B * H * N * N * K


@register_flop_formula(torch.ops.vitbench.attention_backward)
def _backward_flops(
    grad: torch.Size,
    q: torch.Size,
    k: torch.Size,
    v: torch.Size,
    out: torch.Size,
    lse: torch.Size,
    scale: float,
    out_shape: Any = None,
) -> int:
    """Five products, as torch counts: scores, dP, dV, dQ, dK. Both kernels do the first two; once counts."""
    B, H, N, K = q
    return 10 * B * H * N * N * K
