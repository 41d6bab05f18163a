"""Checks of fused attention beside those of its numbers: each raises, and is given the device's name."""

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tests.kernels.attention_cases import (
    Case,
    differentiated,
    factors,
    gradient,
    inputs,
    ours,
    plain,
    projection,
    seed_of,
)
from vitbench.components.attention.triton import Triton
from vitbench.components.contracts import SelfAttention
from vitbench.config.model import ModelSpec
from vitbench.kernels.attention import (
    attention_backward,
    attention_forward,
    attention_packed_backward,
    attention_packed_forward,
    fused_attention,
    fused_attention_packed,
)
from vitbench.kernels.attention_memory import LOG2_E

SCALE = 32**-0.5


def gives_the_same_bits_twice_and_from_every_layout(device: str) -> None:
    kernels = ("chosen", "whole", "several", "streamed")
    for dtype, kernel in (*product((torch.float32, torch.float16), kernels), (torch.float16, "split")):
        results = [
            ours(case, inputs(case, device), gradient(case, device), SCALE)
            for case in (
                Case(65, dtype, images=1, kernel=kernel),
                Case(65, dtype, images=1, kernel=kernel),
                Case(65, dtype, images=1, kernel=kernel, layout="separate"),
            )
        ]
        for name, first in results[0].items():
            assert torch.equal(first, results[1][name]), f"{name} differs from run to run"
            assert torch.equal(first, results[2][name]), f"{name} differs with the layout"


def gives_a_projection_its_gradient_whole(device: str) -> None:
    for layout in ("projection", "sliced"):
        case = Case(49, torch.float16, layout=layout)
        qkv, grad = projection(case, device).requires_grad_(), gradient(case, device)
        apart = differentiated(fused_attention, inputs(case, device), grad, SCALE)
        out = fused_attention_packed(qkv, SCALE)
        (packed,) = torch.autograd.grad(out, qkv, grad)
        assert torch.equal(out, apart["out"])
        assert packed.is_contiguous()
        for part, name in zip(packed.permute(2, 0, 3, 1, 4), ("dq", "dk", "dv"), strict=True):
            assert torch.equal(part, apart[name]), name


def writes_heads_side_by_side(device: str) -> None:
    out = fused_attention(*inputs(Case(17, torch.float32), device), 1.0)
    assert out.shape == (2, 17, 2, 32)
    assert out.is_contiguous()


def takes_an_empty_batch(device: str) -> None:
    qkv = torch.zeros(0, 17, 3, 2, 32, device=device, requires_grad=True)
    apart = fused_attention(*qkv.permute(2, 0, 3, 1, 4).unbind(0), 1.0)
    for out in (apart, fused_attention_packed(qkv, 1.0)):
        assert out.shape == (0, 17, 2, 32)
        (grad,) = torch.autograd.grad(out.sum(), qkv)
        assert grad.shape == qkv.shape


def takes_float32_as_tf32_where_asked(device: str) -> None:
    q, k, v = (x.detach() for x in inputs(Case(65, torch.float32), device))
    exact, fast = (fused_attention(q, k, v, SCALE, allow_tf32=allowed) for allowed in (False, True))
    torch.testing.assert_close(fast, exact, rtol=0, atol=0.01)
    qkv = torch.stack((q, k, v)).permute(1, 3, 0, 2, 4)
    assert torch.equal(fused_attention_packed(qkv, SCALE, allow_tf32=True), fast)


@contextmanager
def quiet_opcheck() -> Iterator[None]:
    """Opcheck itself asks for the .grad of copies that are no leaves."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
        yield


def passes_opcheck(device: str) -> None:
    q, k, v = inputs(Case(17, torch.float32), device)
    with quiet_opcheck():
        torch.library.opcheck(attention_forward, (q, k, v, 0.2))
        q, k, v = q.detach(), k.detach(), v.detach()
        out, lse = attention_forward(q, k, v, 0.2)
        for case in (Case(17, torch.float32, grad=layout) for layout in ("contiguous", "transposed", "expanded")):
            torch.library.opcheck(attention_backward, (gradient(case, device), q, k, v, out, lse, 0.2))


def passes_opcheck_with_a_projection(device: str) -> None:
    for layout in ("projection", "sliced"):
        case = Case(17, torch.float32, layout=layout)
        qkv = projection(case, device)
        with quiet_opcheck():
            torch.library.opcheck(attention_packed_forward, (qkv.requires_grad_(), 0.2))
            out, lse = attention_packed_forward(qkv.detach(), 0.2)
            torch.library.opcheck(attention_packed_backward, (gradient(case, device), qkv.detach(), out, lse, 0.2))


def passes_opcheck_with_dropout(device: str) -> None:
    case = Case(17, torch.float32)
    options, qkv = (0.2, False, 0.5, seed_of(7, device)), projection(case, device).requires_grad_()
    with quiet_opcheck():
        torch.library.opcheck(attention_forward, (*inputs(case, device), *options))
        torch.library.opcheck(attention_packed_forward, (qkv, *options))


def drops_at_random(device: str) -> None:
    """As many as asked, in every row and column alike; no two neighbours, heads, images or seeds have to do with each
    other: a correlation of n pairs of independent numbers has a deviation of 1 / √n."""
    images, heads, tokens, p = 4, 3, 65, 0.25
    same, *others = (
        factors(seed_of(number, device), images, heads, tokens, p).cpu() == 0 for number in (7, 8, 7 + (1 << 32))
    )
    assert abs(float(same.double().mean()) - p) < 4 * (p * (1 - p) / same.numel()) ** 0.5
    for dims in ((0, 1, 2), (0, 1, 3)):
        share = same.double().mean(dim=dims)
        assert float((share - p).abs().max()) < 4.5 * (p * (1 - p) * tokens / same.numel()) ** 0.5
    shifted = [torch.roll(same, step, dim) for dim in range(4) for step in (1, 2)]
    for other in (*shifted, same.transpose(-2, -1), *others):
        together = torch.stack((same.flatten(), other.flatten())).double()
        assert abs(float(torch.corrcoef(together)[0, 1])) < 4 * same.numel() ** -0.5


def drops_anew_at_each_call_and_again_after_the_seed(device: str) -> None:
    case = Case(17, torch.float32)
    packed, apart = (fused_attention_packed, (projection(case, device),)), (fused_attention, inputs(case, device))
    for function, given in (packed, apart):
        torch.manual_seed(0)
        first, second = (function(*given, SCALE, dropout=0.2) for _ in range(2))
        for again in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
            torch.manual_seed(0)
            assert torch.equal(again(*given, SCALE, dropout=0.2), first)
        assert not torch.equal(second, first)
        assert torch.equal(function(*given, SCALE, dropout=0.0), function(*given, SCALE))


def stores_the_log_sum_exp_in_base_2(device: str) -> None:
    q, k, v = (x.detach() for x in inputs(Case(65, torch.float16), device))
    _, lse = attention_forward(q, k, v, 0.2)
    true = (q.double() @ k.double().transpose(-2, -1) * 0.2).logsumexp(-1) * LOG2_E
    assert lse.dtype == torch.float32
    assert lse.is_contiguous()
    torch.testing.assert_close(lse.double(), true, rtol=1e-6, atol=1e-6)


def runs_under_autocast(device: str) -> None:
    torch.manual_seed(0)
    project, tokens = nn.Linear(64, 3 * 64).to(device), torch.randn(2, 17, 64, device=device)
    results = []
    for function in (fused_attention, plain, lambda q, k, v, s: fused_attention(q.float(), k.float(), v, s)):
        with torch.autocast(device, torch.float16):
            qkv = project(tokens).unflatten(-1, (3, 2, 32)).permute(2, 0, 3, 1, 4)
            out = function(*qkv.unbind(0), SCALE)
        assert out.dtype == torch.float16
        (grad,) = torch.autograd.grad(out.float().square().sum(), project.weight)
        results.append((out, grad))
    (out, grad), (plain_out, plain_grad), (rotated_out, rotated_grad) = results
    torch.testing.assert_close(out, plain_out, rtol=0.01, atol=0.002)
    torch.testing.assert_close(grad, plain_grad, rtol=0.01, atol=0.01 * float(plain_grad.abs().max()))
    assert torch.equal(out, rotated_out)
    assert torch.equal(grad, rotated_grad)
    with torch.autocast(device, torch.float16):
        assert fused_attention_packed(torch.zeros(1, 5, 3, 2, 32, device=device), 1.0).dtype == torch.float16


def is_one_node_of_a_compiled_graph(device: str, backend: str = "aot_eager") -> None:
    case = Case(17, torch.float32)
    grad = gradient(case, device)
    compiled = torch.compile(fused_attention, backend=backend, fullgraph=True)
    eager = differentiated(fused_attention, inputs(case, device), grad, SCALE)
    for name, value in differentiated(compiled, inputs(case, device), grad, SCALE).items():
        assert torch.equal(value, eager[name]), name
    packed = torch.compile(fused_attention_packed, backend=backend, fullgraph=True)
    results = []
    for function in (fused_attention_packed, packed):
        qkv = projection(case, device).requires_grad_()
        results.append(torch.autograd.grad(function(qkv, SCALE), qkv, grad)[0])
    assert torch.equal(*results)
    with torch.autocast(device, torch.float16):
        assert torch.equal(packed(qkv.detach(), SCALE), fused_attention_packed(qkv.detach(), SCALE))


def counts_flops_as_torch_does(device: str) -> None:
    q, k, v = inputs(Case(17, torch.float32), device)
    qkv = projection(Case(17, torch.float32), device).requires_grad_()
    for call in (lambda: fused_attention(q, k, v, 1.0), lambda: fused_attention_packed(qkv, 1.0)):
        with FlopCounterMode(display=False) as counter:
            out = call()
        assert counter.get_total_flops() == 4 * 2 * 2 * 17 * 17 * 32
        with FlopCounterMode(display=False) as counter:
            out.backward(torch.ones_like(out))
        assert counter.get_total_flops() == 10 * 2 * 2 * 17 * 17 * 32


def maps_over_any_dimension(device: str) -> None:
    """torch.vmap of the operator, for each choice of mapped dimensions, beside a loop."""
    chance = torch.Generator().manual_seed(0)
    sizes = (2, 2, 17, 16)

    def argument(dim: int | None) -> Tensor:
        shape = list(sizes)
        if dim is not None:
            shape.insert(dim, 3)
        return torch.randn(shape, generator=chance).to(device)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # copied, so that the last dimension has stride 1 in whichever order the mapped one comes
        return fused_attention(q.contiguous(), k.contiguous(), v.contiguous(), 0.25)

    for dims in ((0, 0, 0), (1, None, None), (None, 0, 2), (3, 4, None), (None, None, 4), (2, 1, 0)):
        given = tuple(map(argument, dims))
        mapped = torch.vmap(attend, in_dims=dims)(*given)
        for i in range(3):
            one = (x if dim is None else x.select(dim, i) for x, dim in zip(given, dims, strict=True))
            assert torch.equal(mapped[i], attend(*one)), dims
    qkv = torch.randn(2, 17, 3, 3, 2, 16, generator=chance).to(device)
    mapped = torch.vmap(lambda x: fused_attention_packed(x, 0.25), in_dims=2, out_dims=1)(qkv)
    for i in range(3):
        assert torch.equal(mapped[:, i], fused_attention_packed(qkv[:, :, i], 0.25))


def takes_a_batch_of_gradients(device: str) -> None:
    """The backward operators mapped: over dO, with all else shared."""
    case = Case(17, torch.float32)
    grads = torch.stack([gradient(case, device), gradient(case, device).flip(0), gradient(case, device).flip(1)])
    qkv, apart = projection(case, device).requires_grad_(), inputs(case, device)
    for out, leaves in ((fused_attention_packed(qkv, SCALE), (qkv,)), (fused_attention(*apart, SCALE), apart)):
        together = torch.autograd.grad(out, leaves, grads, is_grads_batched=True, retain_graph=True)
        for i, grad in enumerate(grads):
            alone = torch.autograd.grad(out, leaves, grad, retain_graph=True)
            for batch, one in zip(together, alone, strict=True):
                assert torch.equal(batch[i], one)


def refuses_a_second_derivative(device: str) -> None:
    q, k, v = inputs(Case(17, torch.float32), device)
    (dq,) = torch.autograd.grad(fused_attention(q, k, v, 1.0).square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        dq.sum().backward()


def is_the_component_of_that_name(device: str) -> None:
    """With and without rotated or normed queries and keys, beside the formula."""

    class Plain(SelfAttention):
        def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return plain(q, k, v, self.scale).transpose(1, 2)

    qkv = torch.randn(2, 17, 3 * 64, generator=torch.Generator().manual_seed(0)).to(device)
    turned = torch.randn(2, 17, 32, generator=torch.Generator().manual_seed(1)).to(device)
    for rotation, qk_norm in product((None, turned), ("none", "rmsnorm")):
        spec, outcomes = ModelSpec(dim=64, heads=2, qk_norm=qk_norm), []
        for kind in (Triton, Plain):
            leaf, attention = qkv.clone().requires_grad_(), kind(spec).to(device)
            for norm in (attention.q_norm, attention.k_norm):
                nn.init.constant_(norm.norm.weight, 1.5) if qk_norm != "none" else None
            out = attention.core(leaf, rotation)
            outcomes.append((out.detach(), torch.autograd.grad(out.square().sum(), leaf)[0]))
        (out, grad), (plain_out, plain_grad) = outcomes
        torch.testing.assert_close(out, plain_out, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(grad, plain_grad, rtol=1e-5, atol=1e-4)
        attention = Triton(spec.model_copy(update={"attention_dropout": 0.5})).to(device)
        assert not torch.equal(attention.core(qkv, rotation), attention.core(qkv, rotation)), (
            "in training nothing is dropped"
        )
        assert torch.equal(attention.eval().core(qkv, rotation), attention.core(qkv, rotation))


CHECKS: dict[str, Callable[[str], None]] = {
    check.__name__: check
    for check in (
        gives_the_same_bits_twice_and_from_every_layout,
        gives_a_projection_its_gradient_whole,
        writes_heads_side_by_side,
        takes_an_empty_batch,
        takes_float32_as_tf32_where_asked,
        passes_opcheck,
        passes_opcheck_with_a_projection,
        passes_opcheck_with_dropout,
        drops_at_random,
        drops_anew_at_each_call_and_again_after_the_seed,
        stores_the_log_sum_exp_in_base_2,
        runs_under_autocast,
        is_one_node_of_a_compiled_graph,
        counts_flops_as_torch_does,
        maps_over_any_dimension,
        takes_a_batch_of_gradients,
        refuses_a_second_derivative,
        is_the_component_of_that_name,
    )
}


def refuses_bfloat16(device: str) -> None:
    q, k, v = inputs(Case(17, torch.bfloat16), device)
    with pytest.raises(RuntimeError, match="bfloat16"):
        fused_attention(q, k, v, 1.0)


INTERPRETED_CHECKS = CHECKS | {refuses_bfloat16.__name__: refuses_bfloat16}


def runs_in_a_cuda_graph(device: str) -> None:
    """Forward and backward, captured once and replayed on other numbers."""
    case = Case(65, torch.bfloat16)
    qkv, grad = projection(case, device).requires_grad_(), gradient(case, device)

    def step(leaf: Tensor) -> tuple[Tensor, Tensor]:
        out = fused_attention_packed(leaf, SCALE)
        return out, torch.autograd.grad(out, leaf, grad)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(qkv)  # compiles
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(qkv)
    with torch.no_grad():
        qkv.copy_(qkv.flip(0) * 0.5)
    graph.replay()
    fresh = qkv.detach().requires_grad_()  # torch warns of a leaf whose gradient has been on another stream
    for value, eager in zip(captured, step(fresh), strict=True):
        assert torch.equal(value, eager)


def drops_anew_at_each_replay_and_when_compiled(device: str) -> None:
    """A CUDA graph, and what Inductor makes of it, whose own random numbers are not those of an eager call."""
    qkv = projection(Case(65, torch.bfloat16), device)
    call = functools.partial(fused_attention_packed, qkv, SCALE, dropout=0.2)
    compiled = torch.compile(call, fullgraph=True)
    assert not torch.equal(compiled(), compiled())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    replays = []
    for _ in range(2):
        graph.replay()
        replays.append(out.clone())
    assert not torch.equal(*replays)


def is_one_node_of_an_inductor_graph(device: str) -> None:
    is_one_node_of_a_compiled_graph(device, "inductor")


NATIVE_CHECKS = CHECKS | {
    check.__name__: check
    for check in (
        runs_in_a_cuda_graph, drops_anew_at_each_replay_and_when_compiled, is_one_node_of_an_inductor_graph,
    )
}  # fmt: skip
