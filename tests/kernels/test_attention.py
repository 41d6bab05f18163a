"""The fused attention kernels against torch's own attention, within twice its errors in the same type."""

import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import vitbench

# Triton is a dependency on Linux on x86-64 alone, and the imports below need it.
pytest.importorskip("triton")

from vitbench.kernels import attention
from vitbench.kernels.attention import forward_by, fused_attention, fused_attention_packed
from vitbench.kernels.attention_memory import INTERPRETED
from vitbench.kernels.attention_tiles import choose

from . import attention_cases, interpreted_attention
from .attention_cases import INTERPRETED_CASES, NATIVE_CASES
from .attention_checks import INTERPRETED_CHECKS, NATIVE_CHECKS

pytestmark = pytest.mark.xdist_group("attention")  # what its fixtures run is run once

PARTS = 2  # Processes that share the interpreter's work


@pytest.fixture(scope="session")
def interpreted() -> Callable[[str], dict[str, Any]]:
    """Set of cases, or of the checks → what the interpreter gave for each."""
    return functools.cache(ask)


def ask(wanted: str) -> dict[str, Any]:
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(vitbench.__file__).parents[1])}
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", interpreted_attention.__name__, wanted, str(part), str(PARTS)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in range(PARTS)
    ]
    lines: dict[str, Any] = {}
    for process in running:
        out, err = process.communicate()
        assert process.returncode == 0, err
        lines |= {line["name"]: line for line in map(json.loads, out.splitlines())}
    return lines


def assert_within_the_rule(measured: dict[str, dict[str, float]]) -> None:
    assert measured.keys() == {"out", "dq", "dk", "dv"}
    for name, of in measured.items():
        assert math.isfinite(of["allowed"])
        assert of["error"] <= of["allowed"], f"{name}: {of['error']:.3g} exceeds {of['allowed']:.3g}"  # or is NaN


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if case.set == "float32, short" else pytest.mark.slow)
        for name, case in INTERPRETED_CASES.items()
    ],
)
def test_output_and_gradients(name: str, interpreted: Callable[[str], dict[str, Any]]) -> None:
    answer = interpreted(INTERPRETED_CASES[name].set)[name]
    assert answer["failure"] is None, answer["failure"]
    assert_within_the_rule(answer["result"])


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERPRETED_CHECKS)
def test_that_it(name: str, interpreted: Callable[[str], dict[str, Any]]) -> None:
    answer = interpreted(interpreted_attention.CHECKS)[name]
    assert answer["failure"] is None, answer["failure"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", NATIVE_CASES)
def test_output_and_gradients_on_a_gpu(name: str) -> None:
    assert_within_the_rule(attention_cases.evaluate(NATIVE_CASES[name], "cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("name", NATIVE_CHECKS)
def test_on_a_gpu_that_it(name: str) -> None:
    NATIVE_CHECKS[name]("cuda")


X = torch.zeros(1, 2, 5, 32)
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "width": (lambda: fused_attention(*[X[..., :24]] * 3, 1.0), r"takes head widths \(16, .* not 24"),
    "width, packed": (lambda: fused_attention_packed(torch.zeros(1, 5, 3, 2, 24), 1.0), "head widths .* not 24"),
    "shapes": (lambda: fused_attention(X, X[:, :, :4], X, 1.0), "one shape"),
    "three dimensions": (lambda: fused_attention(X[0], X[0], X[0], 1.0), "one shape"),
    "four, packed": (lambda: fused_attention_packed(torch.zeros(1, 5, 3, 32), 1.0), r"\(B, N, 3, H, K\), not"),
    "order, packed": (lambda: fused_attention_packed(torch.zeros(1, 3, 5, 2, 32), 1.0), r"\(B, N, 3, H, K\), not"),
    "types": (lambda: fused_attention(X, X.half(), X, 1.0), "one type"),
    "float64": (lambda: fused_attention(X.double(), X.double(), X.double(), 1.0), "one type"),
    "float64, packed": (lambda: fused_attention_packed(torch.zeros(1, 5, 3, 2, 32).double(), 1.0), "one type"),
    "devices": (lambda: fused_attention(X, X.to("meta"), X, 1.0), "one device"),
    "dropout": (lambda: fused_attention(X, X, X, 1.0, dropout=1.0), r"in \[0, 1\), not 1.0"),
    "dropout, packed": (lambda: fused_attention_packed(torch.zeros(1, 5, 3, 2, 32), 1.0, dropout=-0.1), "not -0.1"),
    "strides": (lambda: fused_attention(X, X, torch.zeros(1, 2, 32, 5).mT, 1.0), "of v must have stride 1, not 5"),
    "strides, packed": (lambda: fused_attention_packed(torch.zeros(1, 5, 3, 2, 64)[..., ::2], 1.0),
                        "of qkv must have stride 1, not 2"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refuses_what_no_kernel_takes(what: str) -> None:
    call, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        call()


def test_refuses_images_that_its_offsets_do_not_span() -> None:
    x = torch.empty_strided((2, 2, 1025, 32), (32, 64, 2**21, 1), device="meta")
    with pytest.raises(ValueError, match="within 2\\^31 elements; the strides are"):
        forward_by(choose(1025, 32, x.dtype, False), x, x, x, 1.0)


@pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET is set: the interpreter takes the CPU")
def test_refuses_the_cpu_without_the_interpreter() -> None:
    x = torch.zeros(1, 2, 5, 32)
    with pytest.raises(RuntimeError, match="the triton kernel needs CUDA tensors, or TRITON_INTERPRET=1"):
        fused_attention(x, x, x, 1.0)
    with pytest.raises(RuntimeError, match="the triton kernel needs CUDA tensors, or TRITON_INTERPRET=1"):
        fused_attention_packed(torch.zeros(1, 5, 3, 2, 32), 1.0)


def test_the_seed_of_dropout_has_a_bound_that_inductor_keeps() -> None:
    """Inductor of torch 2.11 writes the bound as an int32: a larger one becomes 0, and the seed one and the same."""
    graph = make_fx(lambda x: attention._seed(x, 0.1))(torch.zeros(1)).graph
    bounds = [node.args[0] for node in graph.nodes if "randint" in str(node.target)]
    assert bounds and all(isinstance(each, int) and each <= torch.iinfo(torch.int32).max for each in bounds)
