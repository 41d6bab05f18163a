"""What is asked of the fused attention kernel: cases measured beside plain attention, and checks that raise.

Run as a script, with TRITON_INTERPRET=1, it asks all of it on the CPU in Triton's interpreter, and prints a line
of JSON for each. A process of its own, since Triton reads the variable once, as the kernels are defined. On a
CUDA device the tests import it, and ask the compiled kernels the same.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vitbench.kernels import attention
from vitbench.kernels.attention import attention_backward, attention_forward, fused_attention

B, H = 2, 2


@dataclass(frozen=True)
class Case:
    """One evaluation of output and gradients. B = H = 2."""

    tokens: int
    dtype: torch.dtype
    width: int = 32
    magnitude: float = 1.0
    """What queries and keys are multiplied with."""
    opposed: bool = False
    """All scores are negative: with a magnitude, so far below 0 that exp(0 - L) overflows."""
    layout: Literal["projection", "separate", "different"] = "projection"
    """Views of one projection; contiguous tensors; each of q, k and v with strides of its own."""
    grad: Literal["contiguous", "transposed", "expanded"] = "contiguous"
    """How the output's gradient lies in memory."""


def cases(dtype: torch.dtype) -> dict[str, Case]:
    """Every case of one type, by name."""
    found = {f"{tokens} tokens": Case(tokens, dtype) for tokens in (1, 16, 17, 49, 64, 65, 196, 197, 257)}
    found |= {f"width {width}": Case(17, dtype, width) for width in attention.WIDTHS}
    found |= {
        "large scores": Case(65, dtype, magnitude=30.0),
        "large negative scores": Case(65, dtype, magnitude=30.0, opposed=True),
        "separate inputs": Case(49, dtype, layout="separate"),
        "different inputs": Case(49, dtype, layout="different"),
        "transposed gradient": Case(49, dtype, grad="transposed"),
        "expanded gradient": Case(49, dtype, grad="expanded"),
    }
    return {f"{str(dtype).removeprefix('torch.')}, {name}": case for name, case in found.items()}


INTERPRETED_CASES = cases(torch.float32) | cases(torch.float16)
NATIVE_CASES = INTERPRETED_CASES | cases(torch.bfloat16)  # the interpreter cannot multiply bfloat16


def projection(case: Case, device: str) -> Tensor:
    """(B, N, 3, H, K), the same numbers on every device."""
    chance = torch.Generator().manual_seed(0)
    qkv = torch.randn(B, case.tokens, 3, H, case.width, generator=chance)
    qkv[:, :, :2] *= case.magnitude
    if case.opposed:
        qkv[:, :, 0] = qkv[:, :, 0].abs()
        qkv[:, :, 1] = -qkv[:, :, 1].abs()
    return qkv.to(device, case.dtype)


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
    grad = torch.randn(B, case.tokens, H, case.width, generator=chance).to(device, case.dtype)
    if case.grad == "transposed":
        return grad.transpose(1, 2).contiguous().transpose(1, 2)
    if case.grad == "expanded":
        return grad[:1, :1, :1, :1].expand_as(grad)
    return grad


def plain(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The formula, score matrix and all."""
    return ((q @ k.transpose(-2, -1) * scale).softmax(dim=-1) @ v).transpose(1, 2)


def differentiated(
    function: Callable[[Tensor, Tensor, Tensor, float], Tensor], qkv: tuple[Tensor, ...], grad: Tensor
) -> dict[str, Tensor]:
    """Output and gradients."""
    q, k, v = qkv
    out = function(q, k, v, q.shape[-1] ** -0.5)
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), grad)
    return {"out": out.detach(), "dq": dq, "dk": dk, "dv": dv}


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

    Allowed is twice the largest error of plain attention in the same type, both against plain attention in
    float64, plus 4 · eps · max |true value|. The true dq and dk of a single token are zero, differences of equal
    numbers: there the value is dv's. Where scores are large, the gradients are allowed another
    eps(float32) · max |score| · max |true value|: P is recomputed from L, which is rounded to float32.
    """
    qkv, grad = inputs(case, device), gradient(case, device)
    with poisoned():
        ours = differentiated(fused_attention, qkv, grad)
    theirs = differentiated(plain, qkv, grad)
    exact = tuple(x.detach().double().requires_grad_() for x in qkv)
    true = differentiated(plain, exact, grad.double())
    q, k, _ = (x.detach() for x in exact)
    score = float((q @ k.transpose(-2, -1)).abs().max()) * case.width**-0.5

    def measured(name: str) -> dict[str, float]:
        like = "dv" if case.tokens == 1 and name in ("dq", "dk") else name
        floor = 4 * torch.finfo(case.dtype).eps
        if case.magnitude > 1 and name != "out":
            floor += torch.finfo(torch.float32).eps * score
        plain_error = float((theirs[name] - true[name]).abs().max())
        return {
            "error": float((ours[name] - true[name]).abs().max()),
            "allowed": 2 * plain_error + floor * float(true[like].abs().max()),
        }

    return {name: measured(name) for name in true}


def gives_the_same_bits_twice_and_from_every_layout(device: str) -> None:
    for dtype in (torch.float32, torch.float16):
        results = [
            differentiated(fused_attention, inputs(case, device), gradient(case, device))
            for case in (Case(65, dtype), Case(65, dtype), Case(65, dtype, layout="separate"))
        ]
        for name, first in results[0].items():
            assert torch.equal(first, results[1][name]), f"{name} differs from run to run"
            assert torch.equal(first, results[2][name]), f"{name} differs with the layout"


def writes_heads_side_by_side(device: str) -> None:
    out = fused_attention(*inputs(Case(17, torch.float32), device), 1.0)
    assert out.shape == (B, 17, H, 32)
    assert out.is_contiguous()


def takes_an_empty_batch(device: str) -> None:
    qkv = torch.zeros(0, 17, 3, H, 32, device=device, requires_grad=True)
    out = fused_attention(*qkv.permute(2, 0, 3, 1, 4).unbind(0), 1.0)
    assert out.shape == (0, 17, H, 32)
    (grad,) = torch.autograd.grad(out.sum(), qkv)
    assert grad.shape == qkv.shape


def passes_opcheck(device: str) -> None:
    q, k, v = inputs(Case(17, torch.float32), device)
    with warnings.catch_warnings():
        # opcheck itself asks for the .grad of copies that are no leaves
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
        torch.library.opcheck(attention_forward, (q, k, v, 0.2))
        q, k, v = q.detach(), k.detach(), v.detach()
        out, lse = attention_forward(q, k, v, 0.2)
        for case in (Case(17, torch.float32, grad=layout) for layout in ("contiguous", "transposed", "expanded")):
            torch.library.opcheck(attention_backward, (gradient(case, device), q, k, v, out, lse, 0.2))


def stores_the_log_sum_exp_in_base_2(device: str) -> None:
    q, k, v = (x.detach() for x in inputs(Case(65, torch.float16), device))
    _, lse = attention_forward(q, k, v, 0.2)
    true = (q.double() @ k.double().transpose(-2, -1) * 0.2).logsumexp(-1) * attention.LOG2_E
    assert lse.dtype == torch.float32
    assert lse.is_contiguous()
    torch.testing.assert_close(lse.double(), true, rtol=1e-6, atol=1e-6)


def runs_under_autocast(device: str) -> None:
    torch.manual_seed(0)
    project, tokens = nn.Linear(64, 3 * 64).to(device), torch.randn(B, 17, 64, device=device)
    results = []
    for function in (fused_attention, plain):
        with torch.autocast(device, torch.float16):
            qkv = project(tokens).unflatten(-1, (3, H, 32)).permute(2, 0, 3, 1, 4)
            out = function(*qkv.unbind(0), 32**-0.5)
        assert out.dtype == torch.float16
        (grad,) = torch.autograd.grad(out.float().square().sum(), project.weight)
        results.append((out, grad))
    (ours, our_grad), (theirs, their_grad) = results
    torch.testing.assert_close(ours, theirs, rtol=0.01, atol=0.002)
    torch.testing.assert_close(our_grad, their_grad, rtol=0.01, atol=0.01 * float(their_grad.abs().max()))


def is_one_node_of_a_compiled_graph(device: str) -> None:
    case = Case(17, torch.float32)
    compiled = torch.compile(fused_attention, backend="aot_eager", fullgraph=True)
    grad = gradient(case, device)
    for name, eager in differentiated(fused_attention, inputs(case, device), grad).items():
        assert torch.equal(differentiated(compiled, inputs(case, device), grad)[name], eager), name


def counts_flops_as_torch_does(device: str) -> None:
    q, k, v = inputs(Case(17, torch.float32), device)
    with FlopCounterMode(display=False) as counter:
        out = fused_attention(q, k, v, 1.0)
    assert counter.get_total_flops() == 4 * B * H * 17 * 17 * 32
    with FlopCounterMode(display=False) as counter:
        out.backward(torch.ones_like(out))
    assert counter.get_total_flops() == 10 * B * H * 17 * 17 * 32


def refuses_a_second_derivative(device: str) -> None:
    q, k, v = inputs(Case(17, torch.float32), device)
    (dq,) = torch.autograd.grad(fused_attention(q, k, v, 1.0).square().sum(), q, create_graph=True)
    try:
        dq.sum().backward()
    except RuntimeError as error:
        assert "no autograd formula" in str(error)
    else:
        raise AssertionError("differentiated twice")


CHECKS: dict[str, Callable[[str], None]] = {
    check.__name__: check
    for check in (
        gives_the_same_bits_twice_and_from_every_layout,
        writes_heads_side_by_side,
        takes_an_empty_batch,
        passes_opcheck,
        stores_the_log_sum_exp_in_base_2,
        runs_under_autocast,
        is_one_node_of_a_compiled_graph,
        counts_flops_as_torch_does,
        refuses_a_second_derivative,
    )
}


def refuses_bfloat16(device: str) -> None:
    q, k, v = inputs(Case(17, torch.bfloat16), device)
    try:
        fused_attention(q, k, v, 1.0)
    except RuntimeError as error:
        assert "bfloat16" in str(error)
    else:
        raise AssertionError("bfloat16 was taken")


INTERPRETED_CHECKS = CHECKS | {refuses_bfloat16.__name__: refuses_bfloat16}


def main() -> None:
    """Print a line for each case and each check."""
    assert attention.INTERPRETED
    for name, case in INTERPRETED_CASES.items():
        report(name, lambda case=case: evaluate(case, "cpu"))
    for name, check in INTERPRETED_CHECKS.items():
        report(name, lambda check=check: check("cpu"))


def report(name: str, run: Callable[[], object]) -> None:
    """Print the result, or the failure."""
    try:
        line = {"name": name, "result": run(), "failure": None}
    except Exception:
        line = {"name": name, "result": None, "failure": traceback.format_exc()}
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
