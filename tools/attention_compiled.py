"""The fused attention kernels as compiled for cards that are not here: ``python -m tools.attention_compiled``.

Prints, for each shape that the kernels are to be fast at and each compute capability, the plan and what Triton's
compiler makes of it in bfloat16: registers of a thread, bytes of a thread that spill, shared memory. No GPU is needed.
"""

import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from tabulate import tabulate
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from vitbench.kernels import attention_split, attention_streamed, attention_whole
from vitbench.kernels.attention_tiles import Plan, Streamed, Whole, choose

SHAPES = ((65, 64), (65, 32), (197, 64), (257, 64), (577, 64))  # (N, K) that the kernels are to be fast at
SHARED_KIB = {80: 163, 89: 99, 90: 227, 100: 227}
"""Compute capability, times ten → the most shared memory of a program. Source: CUDA C++ Programming Guide."""
TENSOR_MEMORY = 512  # Columns that a multiprocessor of compute capability 10.0 has for the results of products
COMPILER_OPTIONS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion")


def build(
    tokens: int, width: int, dtype: torch.dtype, backward: bool, capability: int = 90, *, pairs: int = 12,
    plan: Plan | None = None, dropout: float = 0.0,
) -> list[Any]:  # fmt: skip
    """The kernels of a plan, or of the one that is chosen there. ``pairs``: (image, head) pairs of the call."""
    plan = plan or choose(tokens, width, dtype, backward, capability // 10)
    launch: dict[str, Any]
    if isinstance(plan, Streamed):
        streamed = attention_streamed
        kernels: list[Any] = [streamed.query_kernel, streamed.key_value_kernel]
        kernels = kernels if backward else [streamed.forward_kernel]
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
        source = ASTSource(kernel, _signature(kernel, fixed, dtype), fixed, _alignment(kernel, fixed))
        built.append(triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options))
    return built


def _signature(kernel: Any, fixed: dict[str, Any], dtype: torch.dtype) -> dict[str, str]:
    """Type of each argument of a kernel, in triton's names."""
    element = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}[dtype]
    types = dict.fromkeys(("q", "k", "v", "out", "grad", "grads"), element)
    types |= {"lse": "*fp32", "delta": "*fp32", "scale": "fp32", "scale2": "fp32", "seed": "*i64"}
    types |= dict.fromkeys(fixed, "constexpr")
    return {name: types.get(name, "i32") for name in kernel.arg_names}


def _alignment(kernel: Any, fixed: dict[str, Any]) -> dict[tuple[int], list[list[object]]]:
    """Pointers and strides are multiples of 16: triton's launcher sees that, and compiles for it."""
    others = {"H", "pairs", "scale", "scale2", *fixed}
    return {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if name not in others}


def _examined(built: Any, option: str) -> str:
    """What the cuobjdump that triton ships says of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        Path(cubin.name).write_bytes(built.asm["cubin"])
        tool = triton.knobs.nvidia.cuobjdump.path
        return subprocess.run([tool, option, cubin.name], capture_output=True, text=True, check=True).stdout


def _used(built: Any, resource: str) -> int:
    usage = _examined(built, "-res-usage")
    number = re.search(rf"{resource}:(\d+)", usage)
    assert number, usage
    return int(number[1])


def registers(built: Any) -> int:
    """Registers of a thread."""
    return _used(built, "REG")


def spilled_bytes(built: Any) -> int:
    """Stack of a thread: these kernels have nothing else to keep there."""
    return _used(built, "STACK")


def instructions(built: Any) -> list[str]:
    """Names of the machine's instructions, in order, predicates and padding left out."""
    names = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", _examined(built, "-sass"), re.M)
    assert names
    return [name for name in names if name != "NOP"]


def fits(built: Any, capability: int) -> bool:
    """Whether the card can launch it: triton compiles what needs more shared or tensor memory, and refuses it then."""
    tensor_memory = getattr(built.metadata, "tmem_size", None) or 0
    return bool(built.metadata.shared <= SHARED_KIB[capability] * 1024 and tensor_memory <= TENSOR_MEMORY)


def programs(built: Any, warps: int) -> int:
    """How many share a multiprocessor of compute capability 9.0, by registers (in eights) and shared memory."""
    held = -(-registers(built) // 8) * 8 * 32 * warps
    return min(65536 // held, 228 * 1024 // (int(built.metadata.shared) + 1024))


def _kib(built: Any) -> int:
    return -(-int(built.metadata.shared) // 1024)


def main() -> int:
    """Print the table."""
    sys.stdout.write(f"Triton {triton.__version__}, bfloat16\n\n")
    rows = []
    for (tokens, width), backward, capability in itertools.product(SHAPES, (False, True), SHARED_KIB):
        plan = choose(tokens, width, torch.bfloat16, backward, capability // 10)
        built = build(tokens, width, torch.bfloat16, backward, capability, plan=plan)
        rows.append((
            f"{tokens}, {width}", "backward" if backward else "forward", f"{capability / 10:.1f}",
            type(plan).__name__.lower(),
            *(", ".join(str(ask(one)) for one in built) for ask in (registers, spilled_bytes, _kib)),
        ))  # fmt: skip
    names = ("N, K", "direction", "capability", "kernel", "registers", "bytes spilled", "KiB")
    sys.stdout.write(f"{tabulate(rows, names, tablefmt='github', disable_numparse=True)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
