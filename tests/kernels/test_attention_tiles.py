"""The choice of kernel and tiles: a function of the shape, and what it chooses fits the chip."""

from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton")
# ruff: noqa: E402

from tests.kernels.attention_cases import cases
from tools.attention_compiled import SHAPES, SHARED_KIB, build, fits, instructions, programs, spilled_bytes
from vitbench.kernels import attention, attention_split
from vitbench.kernels.attention import DTYPES, WIDTHS
from vitbench.kernels.attention_memory import INTERPRETED
from vitbench.kernels.attention_tiles import (
    LARGE,
    SMALL,
    TUNED,
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


LITTLE = 256
"""Bytes of a thread that may be kept in memory: at 65 and 257 tokens a backward that spills 144 and 120 of them, and in
exchange has more programs or longer tiles on a multiprocessor, was the fastest on a H100."""


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
                for major in (8, 9, 10, 12):
                    plan = choose(tokens, width, dtype, backward, major)
                    assert choose(tokens, width, dtype, backward, major) == plan
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


def test_a_call_takes_the_plan_of_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backward at 197 tokens needs 208 KiB as it is tuned for compute capability 9, and cards of 8.9 have 99."""
    q = torch.empty(1, 1, 197, 64, dtype=torch.bfloat16)
    monkeypatch.setattr(attention, "capability_major", lambda device: 9)
    assert isinstance(attention._plan(q, backward=True), Whole)
    monkeypatch.setattr(attention, "capability_major", lambda device: 8)
    assert isinstance(attention._plan(q, backward=True), Streamed)


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
@pytest.mark.parametrize(
    "capability", [pytest.param(each, marks=[] if each == 90 else pytest.mark.slow) for each in SHARED_KIB]
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_named_shapes_fit_and_hardly_spill(capability: int, tokens: int, width: int, backward: bool) -> None:
    """In bfloat16: what the interpreter cannot show, and needs no GPU."""
    for built in build(tokens, width, torch.bfloat16, backward, capability):
        assert fits(built, capability)
        assert spilled_bytes(built) <= LITTLE


@compiled
@pytest.mark.parametrize(
    ("capability", "tokens", "width", "backward"),
    [
        pytest.param(capability, most, width, backward, marks=marks)
        for capability, room, marks in ((90, LARGE, []), (89, SMALL, [pytest.mark.slow]))
        for backward, limits in ((False, room.keys), (True, room.queries))
        for width, most in limits.items()
    ],
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_the_largest_whole_plans_fit_and_do_not_spill(capability: int, tokens: int, width: int, backward: bool) -> None:
    assert isinstance(choose(tokens, width, torch.float16, backward, capability // 10), Whole)
    assert isinstance(choose(tokens + 1, width, torch.float16, backward, capability // 10), Streamed)
    for built in build(tokens, width, torch.float16, backward, capability):
        assert fits(built, capability)
        assert spilled_bytes(built) == 0


@compiled
@pytest.mark.parametrize(
    ("tokens", "width", "dtype", "capability"),
    [
        pytest.param(1, 16, torch.float16, 90, id="one token"),
        pytest.param(197, 80, torch.bfloat16, 89, id="padded width"),
        pytest.param(600, 128, torch.float16, 90, id="largest streamed tiles"),
        pytest.param(197, 128, torch.float32, 90, id="float32"),
        pytest.param(197, 128, torch.float32, 89, id="float32 on a small card"),
    ],
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_others_compile(tokens: int, width: int, dtype: torch.dtype, capability: int) -> None:
    for backward in (False, True):
        for built in build(tokens, width, dtype, backward, capability, pairs=1 if tokens == 1 else 12):
            assert fits(built, capability)


@compiled
@pytest.mark.parametrize(
    ("width", "backward", "most_instructions", "most_barriers", "least_programs"),
    [
        pytest.param(64, False, 800, 10, 6, id="64 forward"),
        pytest.param(32, False, 760, 16, 7, id="32 forward"),
        pytest.param(64, True, 1580, 32, 3, id="64 backward"),
    ],
)
@pytest.mark.usefixtures("empty_triton_cache")
def test_the_class_token_is_cheap_at_65_tokens(
    width: int, backward: bool, most_instructions: int, most_barriers: int, least_programs: int
) -> None:
    """Instructions of a warp for a head, without a loop: with the extra token in padded tiles, 1,047 and 31 forward."""
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
