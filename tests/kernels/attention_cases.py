"""Cases of fused attention, measured beside torch's own: errors of output and gradients, and those that are allowed."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from vitbench.kernels import attention_tiles
from vitbench.kernels.attention import INTERPRETED, WIDTHS, backward_by, forward_by, fused_attention
from vitbench.kernels.attention_tiles import Plan, Split, Streamed, Whole, choose

LONG = 196
LENGTHS = (1, 16, 17, 49, 64, 65, 196, 197, 256, 257, 576, 577, 1025)
SEED = (5 << 32) + 7
Function = Callable[[Tensor, Tensor, Tensor, float], Tensor]


@dataclass(frozen=True)
class Case:
    """One evaluation of output and gradients."""

    tokens: int
    dtype: torch.dtype
    width: int = 32
    images: int = 2
    heads: int = 2
    magnitude: float = 1.0  # What queries and keys are multiplied with
    opposed: bool = False  # All scores are negative: with a magnitude, so far below 0 that exp(0 - L) overflows
    scale: float | None = None  # None is 1 / √K
    layout: Literal["projection", "separate", "different", "sliced"] = "projection"
    """Views of one projection; contiguous; each of q, k and v with strides of its own; of every other row and image."""
    grad: Literal["contiguous", "transposed", "expanded"] = "contiguous"  # How the output's gradient lies in memory
    dropout: float = 0.0
    kernel: Literal["chosen", "whole", "several", "split", "several split", "streamed"] = "chosen"
    """Which kernel: the operator's choice, or one in particular; several (image, head) pairs to a program."""

    @property
    def set(self) -> str:
        """Cases that are interpreted together: of one type, long sequences and kernels that are not the operator's
        choice apart from the others."""
        kind = "long" if self.tokens >= LONG else "named" if self.kernel != "chosen" else "short"
        return f"{str(self.dtype).removeprefix('torch.')}, {kind}"


def cases(dtype: torch.dtype) -> dict[str, Case]:
    """Every case of one type, by name. Of two images where it is about how they lie in memory, or large scores: of
    a few rare errors in one image the largest says little.
    """
    one = functools.partial(Case, dtype=dtype, images=1)
    by_name = {f"{tokens} tokens": one(tokens) for tokens in LENGTHS[:-3]}
    by_name |= {f"{tokens} tokens": one(tokens, width=16, heads=1) for tokens in LENGTHS[-3:]}
    for tokens in (1, 17, 65, 197, 257):
        by_name[f"{tokens} tokens, whole"] = replace(by_name[f"{tokens} tokens"], kernel="whole")
        by_name[f"{tokens} tokens, streamed"] = replace(by_name[f"{tokens} tokens"], kernel="streamed")
    by_name |= {f"width {width}": one(17, width=width) for width in WIDTHS}
    by_name |= {f"width {width}, whole": one(65, width=width, kernel="whole") for width in WIDTHS}
    by_name |= {f"{tokens} tokens, split": one(tokens, kernel="split") for tokens in (17, 33, 65, 257)}
    by_name |= {f"width {width}, split": one(65, width=width, kernel="split") for width in WIDTHS}
    special = {
        "large scores": Case(65, dtype, magnitude=30.0),
        "large negative scores": Case(65, dtype, magnitude=30.0, opposed=True),
        "negative scale": Case(65, dtype, scale=-0.2),
        "zero scale": Case(65, dtype, scale=0.0),
        "separate inputs": Case(49, dtype, layout="separate"),
        "different inputs": Case(49, dtype, layout="different"),
        "sliced inputs": Case(49, dtype, layout="sliced"),
        "transposed gradient": Case(49, dtype, grad="transposed"),
        "expanded gradient": Case(49, dtype, grad="expanded"),
    }
    by_name |= special | {f"{name}, whole": replace(case, kernel="whole") for name, case in special.items()}
    by_name |= {f"{name}, split": replace(case, tokens=65, kernel="split") for name, case in special.items()}
    for kernel in ("chosen", "whole", "several", "split", "several split", "streamed"):
        by_name[f"dropout, {kernel}"] = Case(65, dtype, dropout=0.3, kernel=kernel)
    by_name |= {f"{tokens} tokens, dropout": one(tokens, dropout=0.1) for tokens in (17, 197)}
    by_name |= {f"{tokens} tokens of width 64, dropout": one(tokens, width=64, dropout=0.1) for tokens in (65, 197)}
    for heads in (1, 3):
        by_name[f"{heads} heads, several at once"] = Case(65, dtype, heads=heads, kernel="several")
        by_name[f"{heads} heads, several at once, split"] = Case(65, dtype, heads=heads, kernel="several split")
    return {f"{str(dtype).removeprefix('torch.')}, {name}": case for name, case in by_name.items()}


# Each kernel, layout, magnitude and dropout in float16, too; the interpreter cannot multiply bfloat16.
INTERPRETED_CASES = cases(torch.float32) | {
    name: case
    for name, case in cases(torch.float16).items()
    if case.tokens <= LONG + 1 and (case.width == 32 or case.dropout)
}
NATIVE_CASES = {
    name: case
    for dtype in (torch.float32, torch.float16, torch.bfloat16)
    for name, case in cases(dtype).items()
    if not (dtype == torch.float32 and case.kernel.endswith("split"))  # never chosen, minutes to compile
}


def projection(case: Case, device: str) -> Tensor:
    """(B, N, 3, H, K), the same numbers on every device."""
    chance = torch.Generator().manual_seed(0)
    qkv = torch.randn(case.images, case.tokens, 3, case.heads, case.width, generator=chance)
    qkv[:, :, :2] *= case.magnitude
    if case.opposed:
        qkv[:, :, 0] = qkv[:, :, 0].abs()
        qkv[:, :, 1] = -qkv[:, :, 1].abs()
    qkv = qkv.to(device, case.dtype)
    if case.layout != "sliced":
        return qkv
    larger = torch.full(
        (2 * case.images, 2 * case.tokens, 3, case.heads, case.width), torch.nan, dtype=case.dtype, device=device
    )
    larger[::2, ::2] = qkv
    return larger[::2, ::2]


def inputs(case: Case, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v: leaves (B, H, N, K)."""
    q, k, v = projection(case, device).permute(2, 0, 3, 1, 4).unbind(0)
    if case.layout == "separate":
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    if case.layout == "different":
        q, v = q.contiguous(), v.transpose(1, 2).contiguous().transpose(1, 2)
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def gradient(case: Case, device: str) -> Tensor:
    """Gradient of the output (B, N, H, K)."""
    chance = torch.Generator().manual_seed(1)
    grad = torch.randn(case.images, case.tokens, case.heads, case.width, generator=chance).to(device, case.dtype)
    if case.grad == "transposed":
        return grad.transpose(1, 2).contiguous().transpose(1, 2)
    if case.grad == "expanded":
        return grad[:1, :1, :1, :1].expand_as(grad)
    return grad


def plain(q: Tensor, k: Tensor, v: Tensor, scale: float, factor: Tensor | float = 1.0) -> Tensor:
    """The formula, score matrix and all. ``factor``: of dropout, (B, H, N, N)."""
    return (((q @ k.transpose(-2, -1) * scale).softmax(dim=-1) * factor).to(v.dtype) @ v).transpose(1, 2)


def seed_of(number: int, device: str) -> Tensor:
    """A seed as the operators take it."""
    return torch.tensor([number], device=device)


def factors(seed: Tensor, images: int, heads: int, tokens: int, dropout: float) -> Tensor:
    """What dropout multiplies the softmax with, (B, H, N, N), as one kernel of float32 has it.

    All scores are 0, and each value picks a key: what comes out is the softmax of N equal scores, dropped in part.
    """
    plan, parts = Streamed(64, 64, 4, 2), []
    at_once = 128 if INTERPRETED else 32  # Keys: the compiler would spill 11 KiB a thread of 128, in 13 seconds
    zeros = torch.zeros(images, heads, tokens, at_once, device=seed.device)
    for start in range(0, tokens, at_once):
        picks = torch.eye(tokens, device=seed.device)[:, start : start + at_once]
        v = torch.nn.functional.pad(picks, (0, at_once - picks.shape[1])).expand_as(zeros)
        out, _ = forward_by(plan, zeros, zeros, v, 1.0, dropout=dropout, seed=seed)
        parts.append(out.transpose(1, 2)[..., : picks.shape[1]])
    return (torch.cat(parts, dim=-1) > 0) / (1.0 - dropout)


def differentiated(function: Function, qkv: tuple[Tensor, ...], grad: Tensor, scale: float) -> dict[str, Tensor]:
    """Output and gradients."""
    q, k, v = qkv
    out = function(q, k, v, scale)
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), grad)
    return {"out": out.detach(), "dq": dq, "dk": dk, "dv": dv}


def ours(case: Case, qkv: tuple[Tensor, ...], grad: Tensor, scale: float) -> dict[str, Tensor]:
    """Output and gradients by the kernel that the case names."""
    if case.kernel == "chosen" and not case.dropout:
        return differentiated(fused_attention, qkv, grad, scale)
    cut, most = attention_tiles.segments(case.tokens), attention_tiles.power_of_two(case.tokens)
    pairs = 4 if case.kernel.startswith("several") else 1
    side = case.tokens - 1
    forward: Plan
    backward: Plan
    if case.kernel == "chosen":
        forward, backward = (choose(case.tokens, case.width, case.dtype, backward=way) for way in (False, True))
    elif case.kernel == "streamed":
        forward, backward = Streamed(min(most, 64), min(most, 64), 4, 2), Streamed(min(most, 32), min(most, 64), 4, 2)
    elif case.kernel.endswith("split"):  # in one block, and in two or more
        forward, backward = Split(min(side, 64), pairs, 4, 2), Split(min(side, 32), pairs, 4, 1)
    else:  # two stages: what Triton 3.6 makes of a backward whose loop is not pipelined is wrong (docs/kernel-notes.md)
        forward = Whole(cut, min(most, 64), True, pairs, 4, 2)
        backward = Whole(cut, min(most, 32), False, min(pairs, 2), 8 if pairs == 1 else 4, 2)
    q, k, v = (x.detach() for x in qkv)
    drops = {"dropout": case.dropout, "seed": seed_of(SEED, str(q.device)) if case.dropout else None}
    out, lse = forward_by(forward, q, k, v, scale, **drops)
    dq, dk, dv = backward_by(backward, grad, q, k, v, out, lse, scale, **drops).permute(2, 0, 3, 1, 4).unbind(0)
    return {"out": out, "dq": dq, "dk": dk, "dv": dv}


@contextmanager
def poisoned() -> Iterator[None]:
    """Memory that is allocated and not written reads as NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        if not torch.empty(1).new_empty(1000).isnan().all():
            raise AssertionError("fresh memory is not filled with NaN")
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def evaluate(case: Case, device: str) -> dict[str, dict[str, float]]:
    """The kernel's largest error in the output and in each gradient, and the largest that is allowed.

    Allowed is twice the largest error of plain PyTorch in the same type, both against plain attention in float64, plus
    (4 · eps + eps(float32) · max |score|) · max |true value|: a score of that size, in float32, is not known better.
    The true dq and dk of a single token are zero, differences of equal numbers: there the value is dv's.
    """
    qkv, grad = inputs(case, device), gradient(case, device)
    scale = case.width**-0.5 if case.scale is None else case.scale
    factor: Tensor | float = 1.0
    if case.dropout:
        factor = factors(seed_of(SEED, device), case.images, case.heads, case.tokens, case.dropout)
    with poisoned():
        measured = ours(case, qkv, grad, scale)
    formula = functools.partial(plain, factor=factor)
    same_type = differentiated(formula, qkv, grad, scale)
    exact = tuple(x.detach().double().requires_grad_() for x in qkv)
    true = differentiated(formula, exact, grad.double(), scale)
    q, k, _ = (x.detach() for x in exact)
    score = float((q @ k.transpose(-2, -1)).abs().max()) * abs(scale)

    def judged(name: str) -> dict[str, float]:
        like = "dv" if case.tokens == 1 and name in ("dq", "dk") else name
        floor = 4 * torch.finfo(case.dtype).eps + torch.finfo(torch.float32).eps * score
        plainly = float((same_type[name] - true[name]).abs().max())
        return {
            "error": float((measured[name] - true[name]).abs().max()),
            "allowed": 2 * plainly + floor * float(true[like].abs().max()),
        }

    return {name: judged(name) for name in true}
