"""The fused attention kernel against the formula, within the errors of plain attention in the same type."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import vitbench

# Triton is a dependency on Linux on x86-64 alone, and the imports below need it.
triton = pytest.importorskip("triton")
# ruff: noqa: E402

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from vitbench.kernels import attention
from vitbench.kernels.attention import fused_attention, tiles

from . import interpreted_attention
from .interpreted_attention import CHECKS, INTERPRETED_CASES, INTERPRETED_CHECKS, NATIVE_CASES

compiled = pytest.mark.skipif(attention.INTERPRETED, reason="TRITON_INTERPRET is set: nothing is compiled")


@pytest.fixture(scope="session")
def interpreted() -> dict[str, Any]:
    """What the interpreter gave for each case and check."""
    done = subprocess.run(
        [sys.executable, "-W", "error", interpreted_attention.__file__],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(vitbench.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def assert_within_the_rule(measured: dict[str, dict[str, float]]) -> None:
    assert measured.keys() == {"out", "dq", "dk", "dv"}
    for name, of in measured.items():
        assert math.isfinite(of["allowed"])
        assert of["error"] <= of["allowed"], f"{name}: {of['error']:.3g} exceeds {of['allowed']:.3g}"  # or is NaN


@pytest.mark.parametrize("name", INTERPRETED_CASES)
def test_output_and_gradients(name: str, interpreted: dict[str, Any]) -> None:
    assert interpreted[name]["failure"] is None, interpreted[name]["failure"]
    assert_within_the_rule(interpreted[name]["result"])


@pytest.mark.parametrize("name", INTERPRETED_CHECKS)
def test_that_it(name: str, interpreted: dict[str, Any]) -> None:
    assert interpreted[name]["failure"] is None, interpreted[name]["failure"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", NATIVE_CASES)
def test_output_and_gradients_on_a_gpu(name: str) -> None:
    assert_within_the_rule(interpreted_attention.evaluate(NATIVE_CASES[name], "cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CHECKS)
def test_on_a_gpu_that_it(name: str) -> None:
    CHECKS[name]("cuda")


def test_refuses_other_head_widths() -> None:
    x = torch.zeros(1, 2, 5, 24)
    with pytest.raises(ValueError, match=r"takes head widths \(16, 32, 64, 80, 96, 128\), not 24"):
        fused_attention(x, x, x, 1.0)


def test_refuses_mismatched_shapes() -> None:
    x = torch.zeros(1, 2, 5, 32)
    with pytest.raises(ValueError, match="one shape"):
        fused_attention(x, x[:, :, :4], x, 1.0)
    with pytest.raises(ValueError, match="one shape"):
        fused_attention(x[0], x[0], x[0], 1.0)


def test_refuses_mismatched_and_other_types() -> None:
    x = torch.zeros(1, 2, 5, 32)
    with pytest.raises(ValueError, match="one type"):
        fused_attention(x, x.half(), x, 1.0)
    with pytest.raises(ValueError, match="one type"):
        fused_attention(x.double(), x.double(), x.double(), 1.0)


def test_refuses_mismatched_devices() -> None:
    x = torch.zeros(1, 2, 5, 32)
    with pytest.raises(ValueError, match="one device"):
        fused_attention(x, x.to("meta"), x, 1.0)


def test_refuses_a_strided_last_dimension() -> None:
    x = torch.zeros(1, 2, 5, 32)
    with pytest.raises(ValueError, match="stride 1"):
        fused_attention(x, x, torch.zeros(1, 2, 32, 5).mT, 1.0)


@compiled
def test_refuses_the_cpu_without_the_interpreter() -> None:
    x = torch.zeros(1, 2, 5, 32)
    with pytest.raises(RuntimeError, match="the triton kernel needs CUDA tensors, or TRITON_INTERPRET=1"):
        fused_attention(x, x, x, 1.0)


def test_shapes_and_flops_need_no_device() -> None:
    x = torch.zeros(3, 2, 5, 32, device="meta", requires_grad=True)
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        out = fused_attention(x, x, x, 1.0)
        out.sum().backward()
    assert out.shape == (3, 5, 2, 32)
    assert x.grad is not None
    assert counter.get_total_flops() == (4 + 10) * 3 * 2 * 5 * 5 * 32


@pytest.mark.parametrize("tokens", [1, 16, 17, 65, 197, 257, 577, 5000])
def test_tiles_are_legal_and_waste_little(tokens: int) -> None:
    for width in attention.WIDTHS:
        for dtype in attention.DTYPES:
            for backward in (False, True):
                held, streamed, _, _ = tiles(tokens, width, dtype, backward)
                for size in (held, streamed):
                    assert size in (16, 32, 64, 128)
                    assert size < 2 * max(tokens, 16)


@compiled
@pytest.mark.parametrize(
    ("tokens", "width", "dtype", "capability"),
    [
        pytest.param(1, 16, torch.float16, 90, id="one token"),
        pytest.param(197, 80, torch.bfloat16, 86, id="padded width"),
        pytest.param(197, 128, torch.float16, 90, id="largest tiles"),
        pytest.param(197, 128, torch.float32, 90, id="float32"),
    ],
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_compiles_within_shared_memory(tokens: int, width: int, dtype: torch.dtype, capability: int) -> None:
    """What the interpreter cannot show, and needs no GPU."""
    options = {
        backward: attention._options(torch.empty(1, 1, tokens, width, dtype=dtype, device="meta"), backward)
        for backward in (False, True)
    }
    for kernel, backward in (
        (attention._forward_kernel, False),
        (attention._query_kernel, True),
        (attention._key_value_kernel, True),
    ):
        launch = dict(options[backward])
        fixed = {name: launch.pop(name) for name in ("N", "K", "PADDED", "HELD", "STREAMED")}
        if tokens == 1:
            fixed["H"] = 1  # triton makes a constant of an argument that is 1
        source = ASTSource(kernel, signature(kernel, fixed, dtype), fixed, alignment(kernel, fixed))
        built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=launch)
        assert built.metadata.shared <= 96 * 1024, kernel.__name__


@pytest.fixture
def empty_triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def signature(kernel: Any, fixed: dict[str, int], dtype: torch.dtype) -> dict[str, str]:
    """Type of each argument of a kernel, in triton's names."""
    element = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}[dtype]
    types = dict.fromkeys(("q", "k", "v", "out", "grad", "grads"), element)
    types |= {"lse": "*fp32", "delta": "*fp32", "scale": "fp32", "scale2": "fp32"}
    types |= dict.fromkeys(fixed, "constexpr")
    return {name: types.get(name, "i32") for name in kernel.arg_names}


def alignment(kernel: Any, fixed: dict[str, int]) -> dict[tuple[int], list[list[object]]]:
    """Pointers and strides are multiples of 16: triton's launcher sees that, and compiles for it."""
    others = {"H", "scale", "scale2", *fixed}
    return {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if name not in others}
