"""Fused attention, forward and backward, as operators of PyTorch: the N × N scores never leave the chip.

Two operators for q, k and v by themselves (``vitbench::attention_forward``, ``…_backward``), and two for the
projection that the three are parts of, whose gradient then comes out whole (``vitbench::attention_packed_forward``,
``…_backward``).
What runs, and how it is cut up, :mod:`vitbench.kernels.attention_tiles` decides from the shape and the card.

Source: FlashAttention, Dao et al. 2022, arXiv 2205.14135; FlashAttention-2, Dao 2023, arXiv 2307.08691.
"""

# ruff: noqa: PLR0917 - an operator takes its tensors by position

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from vitbench.kernels import attention_split, attention_streamed, attention_whole
from vitbench.kernels.attention_memory import INTERPRETED, LOG2_E
from vitbench.kernels.attention_tiles import Plan, Split, Streamed, Whole, choose

WIDTHS = (16, 32, 64, 80, 96, 128)  # Head widths K that the kernels take
DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # Types that the kernels take; sums are float32 in all of them
_PAIRS = {Whole: attention_whole, Split: attention_split}
"""Kernels of which one program has one image's head, or several, to itself."""


def _forward_of_pairs(
    plan: Whole | Split, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float, allow_tf32: bool,
    dropout: float, seed: Tensor | None,
) -> None:  # fmt: skip
    """Write ``out`` (B, N, H, K) and ``lse`` (B, H, N), base 2, from q, k and v (B, H, N, K)."""
    B, H, N, K = q.shape
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    kernels: Any = _PAIRS[type(plan)]
    kernels.forward_kernel[(-(-B * H // plan.pairs),)](
        q, k, v, out, lse, seed, *strides, H, B * H, abs(scale) * LOG2_E,
        **kernels.options(plan, N, K, scale < 0, allow_tf32, dropout),
    )  # fmt: skip


def _backward_of_pairs(
    plan: Whole | Split, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grads: Tensor,
    scale: float, allow_tf32: bool, dropout: float, seed: Tensor | None,
) -> None:  # fmt: skip
    """Write ``grads`` (B, N, 3, H, K) from ``grad`` (B, N, H, K) and what the forward took and gave."""
    B, H, N, K = q.shape
    strides = (*grad.stride()[:3], *q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    kernels: Any = _PAIRS[type(plan)]
    kernels.backward_kernel[(-(-B * H // plan.pairs),)](
        grad, q, k, v, out, lse, grads, seed, *strides, H, B * H, scale, abs(scale) * LOG2_E,
        **kernels.options(plan, N, K, scale < 0, allow_tf32, dropout),
    )  # fmt: skip


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, allow_tf32: bool = False, dropout: float = 0.0
) -> Tensor:
    """Attention of every head: softmax(Q Kᵀ · scale) V, differentiable once in q, k and v.

    Under autocast the inputs are cast to its type, as those of torch's own attention are.

    Args:
        q: (B, H, N, K) queries, of any strides except that the last dimension's is 1: views of one projection
            (B, N, 3, H, K) are read where they lie. float32, float16 or bfloat16.
        k: (B, H, N, K) keys, likewise.
        v: (B, H, N, K) values, likewise.
        scale: what the scores are multiplied with, commonly 1 / √K.
        allow_tf32: let float32 be multiplied as TF32 (10 bits of mantissa). Without it, float32 is true float32.
        dropout: probability with which an element of the softmax is dropped; the others are divided by one less it.
            What is dropped follows from a number that each call draws from the device's own stream of torch.

    Returns:
        (B, N, H, K), contiguous: heads side by side, ready for ``.flatten(2)`` and the output projection.

    Raises:
        ValueError: shapes, types or devices differ, the head width is not in :data:`WIDTHS`, the type is not
            in :data:`DTYPES`, the last dimension's stride is not 1, one image spans 2^31 elements or more, or
            ``dropout`` is not in [0, 1).
        RuntimeError: the tensors are not on a CUDA device and Triton is not in interpreter mode, or it is and
            they are bfloat16.
    """
    q, k, v = (_cast(x) for x in (q, k, v))
    if q.ndim != 4 or not q.shape == k.shape == v.shape:
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(f"q, k and v must have one shape (B, H, N, K), not {shapes}")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k and v must have one type of {DTYPES}, not {q.dtype}, {k.dtype}, {v.dtype}")
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k and v must be on one device, not {q.device}, {k.device}, {v.device}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check(name, x)
    out: Tensor = attention_forward(q, k, v, scale, allow_tf32, dropout, _seed(q, dropout))[0]
    return out


def fused_attention_packed(qkv: Tensor, scale: float, *, allow_tf32: bool = False, dropout: float = 0.0) -> Tensor:
    """:func:`fused_attention` of a projection's output as it is; its gradient is made whole, with no copy.

    Args:
        qkv: (B, N, 3, H, K) queries, keys and values, of any strides except that the last dimension's is 1.
        scale: what the scores are multiplied with, commonly 1 / √K.
        allow_tf32: let float32 be multiplied as TF32. Without it, float32 is true float32.
        dropout: probability with which an element of the softmax is dropped.

    Returns:
        (B, N, H, K), contiguous.

    Raises:
        ValueError: another shape, a head width not in :data:`WIDTHS`, a type not in :data:`DTYPES`, a last dimension
            whose stride is not 1, or ``dropout`` not in [0, 1).
        RuntimeError: as :func:`fused_attention` does.
    """
    qkv = _cast(qkv)
    if qkv.ndim != 5 or qkv.shape[2] != 3:
        raise ValueError(f"qkv must have the shape (B, N, 3, H, K), not {tuple(qkv.shape)}")
    _check("qkv", qkv)
    out: Tensor = attention_packed_forward(qkv, scale, allow_tf32, dropout, _seed(qkv, dropout))[0]
    return out


def _seed(x: Tensor, dropout: float) -> Tensor | None:
    """A number by which a call drops, (1,) int64 on the device, so that a CUDA graph draws anew at each replay."""
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must be in [0, 1), not {dropout}")
    # The bound fits an int32: a larger one torch 2.11 compiles to the same seed in every layer and step.
    return torch.randint(2**31 - 1, (1,), device=x.device) if dropout else None


def _cast(x: Tensor) -> Tensor:
    """Autocast's type where that is on. An operator cannot ask for it by itself: its registration fixes one type."""
    device = x.device.type
    if device in ("cuda", "cpu") and torch.is_autocast_enabled(device) and x.dtype in DTYPES:
        return x.to(torch.get_autocast_dtype(device))
    return x


def _check(name: str, x: Tensor) -> None:
    if x.shape[-1] not in WIDTHS:
        raise ValueError(f"the triton kernel takes head widths {WIDTHS}, not {x.shape[-1]}")
    if x.dtype not in DTYPES:
        raise ValueError(f"{name} must have one type of {DTYPES}, not {x.dtype}")
    if x.stride(-1) != 1:
        raise ValueError(f"the last dimension of {name} must have stride 1, not {x.stride(-1)}")


def forward_by(
    plan: Plan, q: Tensor, k: Tensor, v: Tensor, scale: float, allow_tf32: bool = False, dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """O (B, N, H, K) and L (B, H, N), float32 and base 2, by the kernel and tiles that ``plan`` names."""
    _refuse_far_apart(q, k, v)
    _refuse_where_it_cannot_run(q)
    out, lse = _forward_outputs(q)
    if out.numel():
        with torch.accelerator.device_index(q.device.index):  # triton launches on the current device
            by_streaming = isinstance(plan, Streamed)
            launch: Callable[..., None] = attention_streamed.launch_forward if by_streaming else _forward_of_pairs
            launch(plan, q, k, v, out, lse, scale, allow_tf32, dropout, seed)
    return out, lse


def backward_by(
    plan: Plan, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float,
    allow_tf32: bool = False, dropout: float = 0.0, seed: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """dQ, dK and dV side by side, (B, N, 3, H, K), from dO (B, N, H, K) and what the forward took and gave."""
    _refuse_far_apart(q, k, v)
    _refuse_where_it_cannot_run(q)
    grads = _backward_output(q)
    if grads.numel():
        if grad.stride(-1) != 1 or _far_apart(grad.transpose(1, 2)):  # such as of a sum: one number, expanded
            grad = grad.contiguous()
        with torch.accelerator.device_index(q.device.index):
            out, lse = out.contiguous(), lse.contiguous()
            by_streaming = isinstance(plan, Streamed)
            launch: Callable[..., None] = attention_streamed.launch_backward if by_streaming else _backward_of_pairs
            launch(plan, grad, q, k, v, out, lse, grads, scale, allow_tf32, dropout, seed)
    return grads


def _forward_outputs(q: Tensor) -> tuple[Tensor, Tensor]:
    """O (B, N, H, K) and L (B, H, N), not yet written."""
    B, H, N, K = q.shape
    return q.new_empty(B, N, H, K), q.new_empty(B, H, N, dtype=torch.float32)


def _backward_output(q: Tensor) -> Tensor:
    """(B, N, 3, H, K), not yet written: the layout of a projection that q, k and v commonly are views of."""
    B, H, N, K = q.shape
    return q.new_empty(B, N, 3, H, K)


def _far_apart(x: Tensor) -> bool:
    """Whether an image of (B, H, N, K) exceeds the 2^31 elements that the offsets of its heads and tokens span."""
    _, H, N, _ = x.shape
    return max(H * x.stride(1), N * x.stride(2)) >= 2**31


def _refuse_far_apart(*parts: Tensor) -> None:
    if any(map(_far_apart, parts)):
        strides = ", ".join(str(x.stride()) for x in parts)
        raise ValueError(f"one image's heads and tokens must lie within 2^31 elements; the strides are {strides}")


def _refuse_where_it_cannot_run(q: Tensor) -> None:
    if not (q.is_cuda or INTERPRETED):
        raise RuntimeError(
            "the triton kernel needs CUDA tensors, or TRITON_INTERPRET=1 (set before triton is imported); "
            f"these tensors are on {q.device}"
        )
    if INTERPRETED and q.dtype == torch.bfloat16:
        # It keeps bfloat16 as uint16, and its tl.dot multiplies the bit patterns as whole numbers.
        raise RuntimeError("triton's interpreter cannot multiply bfloat16: use float32 or float16 there")


@functools.cache
def capability_major(device: torch.device) -> int:
    """Major number of its compute capability, on which the plan depends; 9 where nothing is compiled."""
    if device.type != "cuda" or INTERPRETED or not torch.cuda.is_available():
        return 9
    return torch.cuda.get_device_capability(device)[0]


def _plan(q: Tensor, backward: bool) -> Plan:
    *_, N, K = q.shape
    return choose(N, K, q.dtype, backward, capability_major(q.device))


def _parts(qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Views (B, H, N, K) of q, k and v in (B, N, 3, H, K)."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


@torch.library.custom_op("vitbench::attention_forward", mutates_args=())
def attention_forward(
    q: Tensor, k: Tensor, v: Tensor, scale: float, allow_tf32: bool = False, dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """O (B, N, H, K) and L (B, H, N), float32 and base 2. Shapes are checked in :func:`fused_attention`."""
    return forward_by(_plan(q, backward=False), q, k, v, scale, allow_tf32, dropout, seed)


@torch.library.custom_op("vitbench::attention_backward", mutates_args=())
def attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float, allow_tf32: bool = False,
    dropout: float = 0.0, seed: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """dQ, dK and dV side by side, (B, N, 3, H, K), from dO (B, N, H, K) and what the forward saved."""
    return backward_by(_plan(q, backward=True), grad, q, k, v, out, lse, scale, allow_tf32, dropout, seed)


@torch.library.custom_op("vitbench::attention_packed_forward", mutates_args=())
def attention_packed_forward(
    qkv: Tensor, scale: float, allow_tf32: bool = False, dropout: float = 0.0, seed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """O (B, N, H, K) and L (B, H, N) from (B, N, 3, H, K)."""
    q, k, v = _parts(qkv)
    return forward_by(_plan(q, backward=False), q, k, v, scale, allow_tf32, dropout, seed)


@torch.library.custom_op("vitbench::attention_packed_backward", mutates_args=())
def attention_packed_backward(
    grad: Tensor, qkv: Tensor, out: Tensor, lse: Tensor, scale: float, allow_tf32: bool = False, dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The projection's gradient (B, N, 3, H, K), from dO (B, N, H, K) and what the forward saved."""
    q, k, v = _parts(qkv)
    return backward_by(_plan(q, backward=True), grad, q, k, v, out, lse, scale, allow_tf32, dropout, seed)


attention_forward.register_fake(lambda q, *rest: _forward_outputs(q))
attention_backward.register_fake(lambda grad, q, *rest: _backward_output(q))
attention_packed_forward.register_fake(lambda qkv, *rest: _forward_outputs(_parts(qkv)[0]))
attention_packed_backward.register_fake(lambda grad, qkv, *rest: _backward_output(_parts(qkv)[0]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save the tensors of either forward, what it gave, and its options."""
    *tensors, scale, allow_tf32, dropout, seed = inputs
    ctx.options = scale, allow_tf32, dropout
    out, lse = output
    ctx.save_for_backward(*tensors, out, lse, seed)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)  # none is wanted for lse


def _differentiate(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
    """Gradients of q, k and v, each (B, H, N, K): views of one buffer."""
    *saved, seed = ctx.saved_tensors
    return *_parts(attention_backward(grad, *saved, *ctx.options, seed)), *[None] * 4


def _differentiate_packed(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
    """Gradient of the projection, (B, N, 3, H, K)."""
    *saved, seed = ctx.saved_tensors
    return attention_packed_backward(grad, *saved, *ctx.options, seed), *[None] * 4


attention_forward.register_autograd(_differentiate, setup_context=_save)
attention_packed_forward.register_autograd(_differentiate_packed, setup_context=_save)


def _folded(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The vmap rule of an operator whose every tensor, in and out, begins with B: the mapped dimension joins B.

    Of several seeds the first is read: what is dropped depends on the pair, too.
    """

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        def fold(x: Any, dim: int | None) -> Any:
            if not isinstance(x, Tensor):
                return x
            spread = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            folded = spread.flatten(0, 1)
            return folded if folded.stride(-1) == 1 else folded.contiguous()

        done = operator(*(fold(x, dim) for x, dim in zip(args, in_dims, strict=True)))
        unfold: Callable[[Tensor], Tensor] = lambda x: x.unflatten(0, (info.batch_size, -1))  # noqa: E731
        if isinstance(done, Tensor):
            return unfold(done), 0
        return tuple(map(unfold, done)), (0,) * len(done)

    return rule


for _operator in (attention_forward, attention_backward, attention_packed_forward, attention_packed_backward):
    _operator.register_vmap(_folded(_operator))


@register_flop_formula([torch.ops.vitbench.attention_forward, torch.ops.vitbench.attention_packed_forward])
def _(*inputs: Any, out_shape: tuple[torch.Size, ...]) -> int:
    """Two products of N × N × K for each head, counted as torch counts its own: 2 for a multiply and add."""
    B, N, H, K = out_shape[0]
    return 4 * B * H * N * N * K


@register_flop_formula([torch.ops.vitbench.attention_backward, torch.ops.vitbench.attention_packed_backward])
def _(grad: torch.Size, *rest: Any, out_shape: torch.Size) -> int:
    """Five products, as torch counts: scores, dP, dV, dQ, dK. Where two kernels both do the first two, once counts."""
    B, N, H, K = grad
    return 10 * B * H * N * N * K
