"""The choice of kernel and tiles: a function of the shape, and what it chooses fits the chip."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")
# ruff: noqa: E402

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tests.kernels.attention_cases import cases
from vitbench.kernels import attention_split, attention_streamed, attention_whole
from vitbench.kernels.attention import DTYPES, WIDTHS
from vitbench.kernels.attention_memory import INTERPRETED
from vitbench.kernels.attention_tiles import (
    MOST_KEYS,
    MOST_QUERIES,
    TUNED,
    Plan,
    Split,
    Streamed,
    Whole,
    blocks,
    choose,
    power_of_two,
    segments,
)


@pytest.mark.parametrize("backward", [False, True])
def test_the_masks_are_at_work_in_the_tests_of_the_kernels(backward: bool) -> None:
    """A length that fills its tiles would pass with masks that hide nothing, or everything that is not there."""
    padded = {Whole: 0, Streamed: 0}
    for case in cases(torch.float16).values():
        plan = choose(case.tokens, case.width, case.dtype, backward)
        if isinstance(plan, Split):  # it has no masks for tokens
            continue
        cover = sum(plan.segments) if isinstance(plan, Whole) else -(-case.tokens // plan.held) * plan.held
        padded[type(plan)] += cover > case.tokens
    assert all(count >= 2 for count in padded.values()), padded


SHAPES = ((65, 64), (65, 32), (197, 64), (257, 64), (577, 64))  # (N, K) that the kernel is to be fast at
LITTLE = 256
"""Bytes of a thread that may be kept in memory: at 65 and 257 tokens a backward that spills 144 and 120 of them, and in
exchange has more programs or longer tiles on a multiprocessor, was the fastest on a H100."""

SHARED_MEMORY_KIB = 227  # What one block can have on compute capability 9.0


def test_segments_are_descending_powers_of_two() -> None:
    for tokens in range(1, 700):
        cut = segments(tokens)
        assert sum(cut[:-1]) < tokens <= sum(cut)
        assert len(cut) <= 3
        assert list(cut) == sorted(set(cut), reverse=True)
        assert all(size == power_of_two(size) for size in cut)
        assert sum(cut) - tokens < 16 or tokens not in {shape[0] for shape in SHAPES}, "tiles of padding"


@pytest.mark.parametrize(
    ("tokens", "size", "narrow", "expected"),
    [
        (65, 64, True, (1, 16)),
        (65, 64, False, (2, 0)),
        (197, 64, True, (3, 16)),
        (64, 64, True, (1, 0)),
        (49, 64, True, (1, 0)),
        (17, 64, True, (0, 32)),
        (1, 16, False, (1, 0)),
    ],
)
def test_blocks(tokens: int, size: int, narrow: bool, expected: tuple[int, int]) -> None:
    assert blocks(tokens, size, narrow) == expected
    count, rest = expected
    assert count * size + rest >= tokens


def test_the_split_kernel_takes_a_power_of_two_and_one_more() -> None:
    plan = Split(rows=64, pairs=1, warps=4, stages=1)
    for tokens in (64, 66, 97, 197):
        with pytest.raises(ValueError, match=f"a power of two of tokens and one more, not {tokens}"):
            attention_split.options(plan, tokens, 64, flipped=False, allow_tf32=False, dropout=0.0)
    with pytest.raises(ValueError, match="not 33"):  # smaller than a block
        attention_split.options(plan, 33, 64, flipped=False, allow_tf32=False, dropout=0.0)


@pytest.mark.parametrize("tokens", [1, 16, 17, 65, 197, 257, 577, 5000])
def test_plans_are_legal(tokens: int) -> None:
    for width in WIDTHS:
        for dtype in DTYPES:
            for backward in (False, True):
                plan = choose(tokens, width, dtype, backward)
                assert choose(tokens, width, dtype, backward) == plan
                match plan:
                    case Whole():
                        sizes: tuple[int, ...] = (*plan.segments, plan.rows)
                    case Split():
                        sizes = (tokens - 1, plan.rows)
                    case Streamed():
                        sizes = (plan.held, plan.streamed)
                for size in sizes:
                    assert size == power_of_two(size)
                    assert size < 2 * max(tokens, 16)
                if isinstance(plan, Whole):
                    assert sum(plan.segments) >= tokens
                assert plan.warps in (1, 2, 4, 8)


def test_the_named_shapes_are_in_the_table() -> None:
    for tokens, width in SHAPES:
        for backward in (False, True):
            assert (tokens, width, torch.bfloat16, backward) in TUNED


@pytest.fixture
def empty_triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


compiled = pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET is set: nothing is compiled")


@compiled
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize(("tokens", "width"), SHAPES)
@pytest.mark.usefixtures("empty_triton_cache")
def test_named_shapes_fit_and_hardly_spill(tokens: int, width: int, backward: bool) -> None:
    """In bfloat16, for compute capability 9.0: what the interpreter cannot show, and needs no GPU."""
    for built in build(tokens, width, torch.bfloat16, backward):
        assert built.metadata.shared <= SHARED_MEMORY_KIB * 1024
        assert spilled_bytes(built) <= LITTLE


@compiled
@pytest.mark.parametrize(
    ("tokens", "width", "backward"),
    [(most, width, False) for width, most in MOST_KEYS.items()]
    + [(most, width, True) for width, most in MOST_QUERIES.items()],
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_the_largest_whole_plans_fit_and_do_not_spill(tokens: int, width: int, backward: bool) -> None:
    assert isinstance(choose(tokens, width, torch.float16, backward), Whole)
    assert isinstance(choose(tokens + 1, width, torch.float16, backward), Streamed)
    for built in build(tokens, width, torch.float16, backward):
        assert built.metadata.shared <= SHARED_MEMORY_KIB * 1024
        assert spilled_bytes(built) == 0


@compiled
@pytest.mark.parametrize(
    ("tokens", "width", "dtype", "capability"),
    [
        pytest.param(1, 16, torch.float16, 90, id="one token"),
        pytest.param(197, 80, torch.bfloat16, 86, id="padded width"),
        pytest.param(600, 128, torch.float16, 90, id="largest streamed tiles"),
        pytest.param(197, 128, torch.float32, 90, id="float32"),
    ],
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_others_compile(tokens: int, width: int, dtype: torch.dtype, capability: int) -> None:
    for backward in (False, True):
        for built in build(tokens, width, dtype, backward, capability, pairs=1 if tokens == 1 else 12):
            assert built.metadata.shared <= (99 if capability == 86 else SHARED_MEMORY_KIB) * 1024


@compiled
@pytest.mark.parametrize(
    ("width", "backward", "most_instructions", "most_barriers", "least_programs"),
    [
        pytest.param(64, False, 840, 16, 6, id="64 forward"),
        pytest.param(32, False, 800, 21, 7, id="32 forward"),
        pytest.param(64, True, 1610, 32, 3, id="64 backward"),
    ],
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_the_class_token_is_cheap_at_65_tokens(
    width: int, backward: bool, most_instructions: int, most_barriers: int, least_programs: int
) -> None:
    """Instructions of a warp for a head, without a loop: with the extra token in padded tiles, 1,085 and 31 forward."""
    plan = Split(rows=64, pairs=1, warps=4, stages=1)
    (built,) = build(65, width, torch.bfloat16, backward, plan=plan)
    assert spilled_bytes(built) == 0
    names = instructions(built)
    assert len(names) <= most_instructions
    assert sum(name.startswith("BAR") for name in names) <= most_barriers
    assert programs(built, plan.warps) >= least_programs


@compiled
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.usefixtures("empty_triton_cache")
def test_dropout_costs_no_room_at_65_tokens(backward: bool) -> None:
    """As many programs share a multiprocessor, and random numbers stay in registers."""
    plan = choose(65, 64, torch.bfloat16, backward)
    (without,), (built,) = (build(65, 64, torch.bfloat16, backward, dropout=p) for p in (0.0, 0.1))
    assert programs(built, plan.warps) >= programs(without, plan.warps)
    assert spilled_bytes(built) <= LITTLE
    assert len(instructions(built)) <= 1.8 * len(instructions(without))


COMPILER_OPTIONS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion")


def build(
    tokens: int, width: int, dtype: torch.dtype, backward: bool, capability: int = 90, *, pairs: int = 12,
    plan: Plan | None = None, dropout: float = 0.0,
) -> list[Any]:  # fmt: skip
    """The kernels of a plan, or of the one that is chosen, compiled. ``pairs``: (image, head) pairs of the call."""
    plan = plan or choose(tokens, width, dtype, backward)
    launch: dict[str, Any]
    if isinstance(plan, Streamed):
        streamed = attention_streamed
        kernels = [streamed.query_kernel, streamed.key_value_kernel] if backward else [streamed.forward_kernel]
        launch = streamed.options(plan, tokens, width, allow_tf32=False, dropout=dropout)
    else:
        module: Any = attention_whole if isinstance(plan, Whole) else attention_split
        kernels = [module.backward_kernel if backward else module.forward_kernel]
        launch = module.options(plan, tokens, width, flipped=False, allow_tf32=False, dropout=dropout)
    options = {name: launch.pop(name) for name in COMPILER_OPTIONS if name in launch}
    built = []
    for kernel in kernels:
        fixed = launch if dropout else {**launch, "seed": None}
        if pairs == 1:  # triton makes a constant of an argument that is 1
            fixed = fixed | {name: 1 for name in ("H", "pairs") if name in kernel.arg_names}
        source = ASTSource(kernel, signature(kernel, fixed, dtype), fixed, alignment(kernel, fixed))
        built.append(triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options))
    return built


def signature(kernel: Any, fixed: dict[str, Any], dtype: torch.dtype) -> dict[str, str]:
    """Type of each argument of a kernel, in triton's names."""
    element = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}[dtype]
    types = dict.fromkeys(("q", "k", "v", "out", "grad", "grads"), element)
    types |= {"lse": "*fp32", "delta": "*fp32", "scale": "fp32", "scale2": "fp32", "seed": "*i64"}
    types |= dict.fromkeys(fixed, "constexpr")
    return {name: types.get(name, "i32") for name in kernel.arg_names}


def alignment(kernel: Any, fixed: dict[str, Any]) -> dict[tuple[int], list[list[object]]]:
    """Pointers and strides are multiples of 16: triton's launcher sees that, and compiles for it."""
    others = {"H", "pairs", "scale", "scale2", *fixed}
    return {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if name not in others}


def examined(built: Any, option: str) -> str:
    """What the cuobjdump that triton ships says of a compiled kernel."""
    cubin = Path(os.environ["TRITON_CACHE_DIR"]) / "kernel.cubin"
    cubin.write_bytes(built.asm["cubin"])
    tool = triton.knobs.nvidia.cuobjdump.path
    return subprocess.run([tool, option, cubin], capture_output=True, text=True, check=True).stdout


def used(built: Any, resource: str) -> int:
    """How much of REG or STACK a thread takes."""
    usage = examined(built, "-res-usage")
    number = re.search(rf"{resource}:(\d+)", usage)
    assert number, usage
    return int(number[1])


def spilled_bytes(built: Any) -> int:
    """Stack of a thread: these kernels have nothing else to keep there."""
    return used(built, "STACK")


def instructions(built: Any) -> list[str]:
    """Names of the machine's instructions, in order, predicates and padding left out."""
    names = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", examined(built, "-sass"), re.M)
    assert names
    return [name for name in names if name != "NOP"]


def programs(built: Any, warps: int) -> int:
    """How many share a multiprocessor of compute capability 9.0, by registers (in eights) and shared memory."""
    registers = -(-used(built, "REG") // 8) * 8 * 32 * warps
    return min(65536 // registers, 228 * 1024 // (built.metadata.shared + 1024))
