"""Tuning the fused attention kernels on a GPU, in one call: ``python -m tools.tune_attention --out FILE``.

Every candidate plan is first checked on the device; those that are right are timed, interleaved in randomised rounds
with every SDPA backend that there is, between device events, on a cache that was written over. FILE gets every figure
as JSON, anew after each shape; a table of the winners is printed last. They go into
``vitbench.kernels.attention_tiles.TUNED`` by hand.

A kernel that reads where it must not leaves its process without a device. So each check runs in a worker process
that ends with its first such failure, and the candidates after it get a new one.
"""

# ruff: noqa: PLR0917 - the pure functions take what they depend on, one by one

import argparse
import functools
import itertools
import json
import multiprocessing
import queue
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tools.attention_candidates import candidates
from vitbench.ceilings import measure_ceilings
from vitbench.clock import Clock
from vitbench.environment import fingerprint
from vitbench.kernels.attention import backward_by, capability_major, forward_by
from vitbench.kernels.attention_tiles import Plan, choose
from vitbench.store.files import write_atomically
from vitbench.timing.rounds import interleave

SHAPES = ((1024, 6, 65, 64), (1024, 4, 65, 32), (512, 6, 197, 64), (256, 6, 257, 64), (128, 12, 577, 64))
"""(B, H, N, K) that are timed."""

TIMED = torch.bfloat16

BACKENDS = {
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa_math": SDPBackend.MATH,
}

CHECKED = (torch.bfloat16, torch.float16, torch.float32)
CHECKED_IMAGES = 16
"""B of the checks: with it, B · H is a multiple of 16 as at the timed shapes, and triton compiles the same code."""

WORKERS = 14
"""Processes that compile and check; of 16 cores two are left to the process that waits for them and to the system."""

CHECK_SECONDS = 90.0  # After which a check, its compiling included, is given up, and its worker ended
CHECKS_SHARE = 0.7  # Of the budget; the timing has the rest
LOST = "lost"  # State of a check whose process did not survive it
FIRST_ROUNDS, FINALISTS, FINAL_ROUNDS = 12, 6, 60
TIE = 0.01  # Medians that differ by less, as a fraction, are equal: then the present choice stays


@dataclass(frozen=True)
class TuningJob:
    """One plan, of one shape, type and direction, to be checked."""

    shape: tuple[int, int, int, int]
    dtype: torch.dtype
    backward: bool
    plan: Plan

    def row(self) -> dict[str, Any]:
        """Columns that name it in the results."""
        return {
            "shape": self.shape,
            "dtype": str(self.dtype).removeprefix("torch."),
            "direction": direction(self.backward),
            "plan": label(self.plan),
        }


def direction(backward: bool) -> str:
    """Its name in the results."""
    return "backward" if backward else "forward"


def label(plan: Plan) -> str:
    """A plan's name in the results: its kind and its numbers."""
    fields = ("+".join(map(str, x)) if isinstance(x, tuple) else str(x) for x in plan if x is not None)
    return f"{type(plan).__name__.lower()} {' '.join(fields)}"


def _card() -> int:
    """Major number of the compute capability that is tuned for."""
    return capability_major(torch.device("cuda"))


def jobs() -> list[TuningJob]:
    """All checks: present choices first; then those of the type that is timed, the most promising of each shape first;
    then the other types."""
    entries = [
        (place > 0, dtype != TIMED, place, TuningJob(shape, dtype, backward, plan))
        for shape, dtype, backward in itertools.product(SHAPES, CHECKED, (False, True))
        for place, plan in enumerate(candidates(*shape[2:], dtype, backward, _card()))
    ]
    return [job for *_, job in sorted(entries, key=lambda entry: entry[:3])]


def floor_bytes(shape: tuple[int, int, int, int], backward: bool, itemsize: int) -> int:
    """Least traffic: q, k, v, O (and dO, dQ, dK, dV), each moved once, and L as float32."""
    B, H, N, K = shape
    return B * H * N * ((8 if backward else 4) * K * itemsize + 4)


def flops(shape: tuple[int, int, int, int], backward: bool) -> int:
    """Two products of N × N × K for each head, or five; 2 for a multiply and add."""
    B, H, N, K = shape
    return (10 if backward else 4) * B * H * N * N * K


def winner(medians_ms: Mapping[str, float], present: str) -> str:
    """The fastest, or the present choice if it is within :data:`TIE` of it. Equals: the name that sorts first."""
    if not medians_ms:
        raise ValueError("no candidate was timed")
    best = min(medians_ms, key=lambda name: (medians_ms[name], name))
    if present in medians_ms and medians_ms[present] <= (1 + TIE) * medians_ms[best]:
        return present
    return best


def finalists(medians_ms: Mapping[str, float], present: str) -> list[str]:
    """The fastest few, and the present choice."""
    fastest = sorted(medians_ms, key=lambda name: (medians_ms[name], name))[:FINALISTS]
    return fastest + [present] * (present in medians_ms and present not in fastest)


def summary(
    shape: tuple[int, int, int, int], backward: bool, plans_ms: Mapping[str, float], sdpa_ms: Mapping[str, float],
    present: str, bytes_per_s: float, flops_per_s: float,
) -> dict[str, Any]:  # fmt: skip
    """The winner of one shape and direction, and what it is beside the best SDPA backend and the roofline."""
    best = winner(plans_ms, present)
    rival = min(sdpa_ms, key=lambda name: (sdpa_ms[name], name))
    seconds = plans_ms[best] / 1000
    roof_s = max(floor_bytes(shape, backward, 2) / bytes_per_s, flops(shape, backward) / flops_per_s)
    return {
        "shape": shape,
        "direction": direction(backward),
        "winner": best,
        "winner_ms": plans_ms[best],
        "present": present,
        "present_ms": plans_ms.get(present),
        "best_sdpa": rival,
        "best_sdpa_ms": sdpa_ms[rival],
        "ratio_to_best_sdpa": sdpa_ms[rival] / plans_ms[best],
        "roofline_fraction": roof_s / seconds,
        "memory_floor_fraction": floor_bytes(shape, backward, 2) / bytes_per_s / seconds,
        "tflop_per_s": flops(shape, backward) / seconds / 1e12,
    }


def both_directions(
    forward: dict[str, Any], backward: dict[str, Any], sdpa_ms: tuple[Mapping[str, float], Mapping[str, float]]
) -> dict[str, Any]:
    """Forward and backward of the winners together, beside the backend that is fastest at both together."""
    together = {name: sdpa_ms[0][name] + sdpa_ms[1][name] for name in sdpa_ms[0].keys() & sdpa_ms[1].keys()}
    rival = min(together, key=lambda name: (together[name], name))
    ours = forward["winner_ms"] + backward["winner_ms"]
    return {
        "shape": forward["shape"],
        "direction": "both",
        "winner_ms": ours,
        "best_sdpa": rival,
        "best_sdpa_ms": together[rival],
        "ratio_to_best_sdpa": together[rival] / ours,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The summaries, a line each."""
    lines = [f"{'B,H,N,K':18}{'':10}{'ms':>8}{'sdpa ms':>9}{'ratio':>7}{'roof':>6}{'TFLOP/s':>9}  best sdpa, winner"]
    for row in rows:
        roof = f"{row['roofline_fraction']:6.2f}{row['tflop_per_s']:9.1f}" if "winner" in row else " " * 15
        shape = ",".join(map(str, row["shape"]))
        lines.append(
            f"{shape:18}{row['direction']:10}{row['winner_ms']:8.4f}{row['best_sdpa_ms']:9.4f}"
            f"{row['ratio_to_best_sdpa']:7.2f}{roof}  {row['best_sdpa']}, {row.get('winner', '')}"
        )
    return "\n".join(lines) + "\n"


def _tensors(
    shape: tuple[int, int, int, int], dtype: torch.dtype, device: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k and v (B, H, N, K), views of one projection, and dO (B, N, H, K): the same numbers each time."""
    B, H, N, K = shape
    chance = torch.Generator(device).manual_seed(0)
    qkv = torch.randn(B, N, 3, H, K, generator=chance, device=device).to(dtype)
    grad = torch.randn(B, N, H, K, generator=chance, device=device).to(dtype)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v, grad


def _attend(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(B, N, H, K), as ours gives it."""
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def _plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out: Tensor = ((q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1) @ v).transpose(1, 2)
    return out


def _results(function: Callable[..., Tensor], parts: tuple[Tensor, ...], grad: Tensor) -> list[Tensor]:
    """Output and the gradients of q, k, v."""
    leaves = [x.detach().requires_grad_() for x in parts]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def _errors(results: list[Tensor], true: list[Tensor]) -> list[float]:
    return [float((x - y).abs().max()) for x, y in zip(results, true, strict=True)]


@functools.lru_cache(maxsize=2)
def _wanted(
    shape: tuple[int, int, int, int], dtype: torch.dtype, device: str
) -> tuple[tuple[Tensor, ...], list[Tensor], list[float], Tensor, Tensor]:
    """q, k, v and dO; the true output and gradients; the errors allowed of them; and the present forward's O and L.

    Allowed: 2 × the best SDPA backend's error, plus a floor, as in the tests: 4 · eps · max |true value|; a gradient's
    4 · eps + eps(float32) · max |score|.
    """
    _, H, N, K = shape
    q, k, v, grad = _tensors((CHECKED_IMAGES, H, N, K), dtype, device)
    parts, scale = (q, k, v), K**-0.5
    true = _results(_plain, tuple(x.double() for x in parts), grad.double())
    others = []
    for backend in BACKENDS.values():
        try:
            others.append(_errors(_results(lambda *x, backend=backend: _attend(backend, *x), parts, grad), true))
        except RuntimeError:  # not offered for these inputs
            continue
    score = float((q.double() @ k.double().transpose(-2, -1)).abs().max()) * scale
    floor = 4 * torch.finfo(dtype).eps
    floors = [floor] + [floor + torch.finfo(torch.float32).eps * score] * 3
    allowed = [
        2 * min(errors) + each * float(value.abs().max())
        for errors, each, value in zip(zip(*others, strict=True), floors, true, strict=True)
    ]
    out, lse = forward_by(choose(N, K, dtype, False, _card()), q, k, v, scale)
    return (q, k, v, grad), true, allowed, out, lse


def check(job: TuningJob, device: str = "cuda") -> dict[str, Any]:
    """A plan's largest errors against float64, and those allowed; or why it gave nothing."""
    began = time.perf_counter()
    row = job.row()
    try:
        (q, k, v, grad), true, allowed, out, lse = _wanted(job.shape, job.dtype, device)
        scale = job.shape[3] ** -0.5
        if job.backward:
            grads, again = (backward_by(job.plan, grad, q, k, v, out, lse, scale) for _ in range(2))
            errors, limits = _errors(list(grads.permute(2, 0, 3, 1, 4)), true[1:]), allowed[1:]
        else:
            grads, again = (forward_by(job.plan, q, k, v, scale)[0] for _ in range(2))
            errors, limits = _errors([grads], true[:1]), allowed[:1]
        same = torch.equal(grads, again)
    except Exception as error:  # out of registers or shared memory, or the compiler's own: a fact about the plan
        row |= {"state": "failed", "reason": f"{type(error).__name__}: {error}"[:300]}
    else:
        right = same and all(error <= limit for error, limit in zip(errors, limits, strict=True))
        row |= {"state": "right" if right else "incorrect", "same_bits": same, "error": errors, "allowed": limits}
    return row | {"seconds": time.perf_counter() - began}


def _serve(pipe: Any) -> None:
    """A worker: check what comes, until nothing comes or the device is lost to this process."""
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        row = check(job)
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            pipe.send(row | {"state": LOST, "reason": f"the device was lost to its process: {error}"[:300]})
            return
        pipe.send(row)


class _Worker:
    """A process that checks plans one by one, and its end of the pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def check(self, job: TuningJob, seconds: float) -> dict[str, Any]:
        """The job's row. Raises EOFError, OSError or TimeoutError where the worker gave none: it is of no use then."""
        self.pipe.send(job)
        if not self.pipe.poll(seconds):
            raise TimeoutError(f"no result within {seconds:.0f} s")
        row: dict[str, Any] = self.pipe.recv()
        return row

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def check_all(todo: list[TuningJob], deadline: float) -> list[dict[str, Any]]:
    """The rows of all jobs that could be begun before the deadline (on the monotonic clock), as they ended."""
    waiting: queue.SimpleQueue[TuningJob] = queue.SimpleQueue()
    for job in todo:
        waiting.put(job)
    rows: list[dict[str, Any]] = []

    def employ() -> None:
        worker = None
        while time.monotonic() < deadline:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            worker = worker or _Worker()
            try:
                row = worker.check(job, min(CHECK_SECONDS, max(deadline - time.monotonic(), 1.0)))
            except (EOFError, OSError, TimeoutError) as error:
                row = job.row() | {"state": LOST, "reason": str(error) or "its process ended"}
            rows.append(row)
            if row["state"] == LOST:
                worker.end()
                worker = None
        if worker:
            worker.end()

    threads = [threading.Thread(target=employ) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rows


def interleaved_ms(calls: Mapping[str, Callable[[], object]], rounds: int, clock: Clock) -> dict[str, list[float]]:
    """Each call's laps in interleaved rounds, after two that are thrown away."""
    for call in calls.values():
        for _ in range(2):
            clock.lap(call)
    return {
        name: [lap.device_ms for lap in laps] for name, laps in interleave(calls, clock, rounds=rounds, seed=0).items()
    }


def _calls(
    shape: tuple[int, int, int, int], backward: bool, plans: Mapping[str, Plan], device: str
) -> tuple[dict[str, Callable[[], object]], dict[str, Callable[[], object]], dict[str, str]]:
    """Calls that are timed: ours by plan, SDPA's by backend; and the backends that are not offered, with why.

    SDPA's backward is that of q, k and v by themselves: the copy that joins them for the projection is not counted.
    """
    q, k, v, grad = _tensors(shape, TIMED, device)
    scale = shape[3] ** -0.5
    out, lse = forward_by(choose(*shape[2:], TIMED, False, _card()), q, k, v, scale)

    def ours(plan: Plan) -> Callable[[], object]:
        if backward:
            return lambda: backward_by(plan, grad, q, k, v, out, lse, scale)
        return lambda: forward_by(plan, q, k, v, scale)

    def theirs(backend: SDPBackend) -> Callable[[], object]:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        given = _attend(backend, *leaves)
        torch.autograd.grad(given, leaves, grad, retain_graph=True)
        if backward:
            return lambda: torch.autograd.grad(given, leaves, grad, retain_graph=True)
        return lambda: _attend(backend, q, k, v)

    offered: dict[str, Callable[[], object]] = {}
    missing: dict[str, str] = {}
    for name, backend in BACKENDS.items():
        try:
            offered[name] = theirs(backend)
        except RuntimeError as error:  # not offered here, or more memory than there is
            missing[name] = str(error)[:300]
    return {name: ours(plan) for name, plan in plans.items()}, offered, missing


def _medians(laps: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in laps.items()}


def time_shape(
    shape: tuple[int, int, int, int], backward: bool, plans: Mapping[str, Plan], clock: Clock
) -> tuple[dict[str, Any], dict[str, float], dict[str, float]]:
    """All laps of one shape and direction; the last rounds' medians of the plans, and of SDPA's backends."""
    present = label(choose(*shape[2:], TIMED, backward, _card()))
    ours, sdpa, missing = _calls(shape, backward, plans, clock.device.type)
    first = interleaved_ms(ours, FIRST_ROUNDS, clock)
    chosen = finalists(_medians(first), present)
    last = interleaved_ms({name: ours[name] for name in chosen} | sdpa, FINAL_ROUNDS, clock)
    laps = {
        "shape": shape,
        "direction": direction(backward),
        "first_rounds_ms": first,
        "last_rounds_ms": last,
        "unsupported": missing,
    }
    medians = _medians(last)
    return laps, {name: medians[name] for name in chosen}, {name: medians[name] for name in sdpa}


def tune(budget_s: float, save: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Everything: checks in worker processes, which also fill triton's cache on disk; then the timing, here.

    ``save`` gets what is known so far, after the checks and after each shape.
    """
    began = time.monotonic()
    todo = jobs()
    checks = check_all(todo, began + CHECKS_SHARE * budget_s)
    tried = {(row["shape"], row["dtype"], row["direction"], row["plan"]) for row in checks}
    results: dict[str, Any] = {
        "environment": fingerprint("cuda", torch.get_num_threads()).model_dump(mode="json"),
        "checks": checks,
        "untried": [row for row in (job.row() for job in todo) if tuple(row.values()) not in tried],
        "summary": [],
        "laps": [],
        "untimed": [],
    }
    save(results)
    right = {
        (row["shape"], row["direction"], row["plan"])
        for row in checks
        if row["dtype"] == str(TIMED).removeprefix("torch.") and row["state"] == "right"
    }
    ceilings = measure_ceilings(torch.device("cuda"), TIMED)
    results["ceilings"] = {"bytes_per_s": ceilings.bytes_per_s, "flops_per_s": ceilings.flops_per_s}
    clock = Clock(torch.device("cuda"), flush=True)
    for shape in SHAPES:
        rows, of_sdpa = [], []
        for backward in (False, True):
            plans = {label(plan): plan for plan in candidates(*shape[2:], TIMED, backward, _card())}
            plans = {name: plan for name, plan in plans.items() if (shape, direction(backward), name) in right}
            if not plans or time.monotonic() > began + budget_s:
                reason = "the budget was spent" if plans else "no plan was right"
                results["untimed"].append({"shape": shape, "direction": direction(backward), "reason": reason})
                continue
            measured, ours_ms, sdpa_ms = time_shape(shape, backward, plans, clock)
            present = label(choose(*shape[2:], TIMED, backward, _card()))
            results["laps"].append(measured)
            of_sdpa.append(sdpa_ms)
            rows.append(summary(shape, backward, ours_ms, sdpa_ms, present, ceilings.bytes_per_s, ceilings.flops_per_s))
        if len(rows) == len((False, True)):
            rows.append(both_directions(rows[0], rows[1], (of_sdpa[0], of_sdpa[1])))
        results["summary"] += rows
        save(results)
    return results


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 when all went well, 1 when the present choice of a shape was not right, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m tools.tune_attention", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for every figure")
    parser.add_argument("--budget-s", type=float, default=420.0, help="seconds that checks and timing may take")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.stderr.write("tune_attention needs a CUDA device; this machine has none\n")
        return 2
    results = tune(given.budget_s, lambda so_far: write_atomically(given.out, f"{json.dumps(so_far, indent=1)}\n"))
    wrong = [row for row in results["checks"] if row["state"] != "right"]
    for row in wrong:
        reason = row.get("reason") or f"error {row['error']}, allowed {row['allowed']}, same bits: {row['same_bits']}"
        sys.stdout.write(f"{row['state']}: {row['shape']} {row['dtype']} {row['direction']} {row['plan']}: {reason}\n")
    sys.stdout.write(
        f"{len(results['checks'])} plans checked, {len(wrong)} not right, {len(results['untried'])} untried, "
        f"{len(results['untimed'])} shapes and directions untimed\n"
    )
    sys.stdout.write(table(results["summary"]))
    return int(any(row["plan"] == _present(row) for row in wrong))


def _present(row: Mapping[str, Any]) -> str:
    """Label of the present choice of a check's shape, type and direction."""
    *_, N, K = row["shape"]
    return label(choose(N, K, getattr(torch, row["dtype"]), row["direction"] == "backward", _card()))


if __name__ == "__main__":
    sys.exit(main())
