"""The kernels of a training step: ``python -m tools.step_kernels SUITE CELL [TABLE.KEY=VALUE …]``.

Trains the first seed, or ensemble, of a cell for as long as the suite says, and prints what a step launches, the
most time first, by torch.profiler: kernels of a GPU, those of a CUDA graph included, or operators of a CPU. They are
sums over a second training in the same process, so that compiling is over. For few steps: ``data.train_images=6400``.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch.profiler import ProfilerActivity, profile

from vitbench.config.reading import read_suite
from vitbench.config.trial import TrainTrial
from vitbench.devices import synchronise
from vitbench.runner.plan import plan
from vitbench.training.loop import fit

SHOWN = 60


def step_kernels(trials: Sequence[TrainTrial], device: torch.device) -> list[tuple[float, float, str]]:
    """(microseconds a step, launches a step, name) of what at least every second step launches."""
    fit(trials, device, lambda _: None)
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as watched:
        steps = fit(trials, device, lambda _: None).stepper.steps
        synchronise(device)
    rows = [
        ((e.self_device_time_total if on_gpu else e.self_cpu_time_total) / steps, e.count / steps, e.key)
        for e in watched.key_averages()
    ]
    return sorted((row for row in rows if row[0] and row[1] >= 1 / 2), reverse=True)


def main(suite: str, cell: str, *overrides: str) -> int:
    """Exit status: 0, or 1 where the suite has no such cell."""
    kind: Literal["cuda", "cpu"] = "cuda" if torch.cuda.is_available() else "cpu"
    planned = plan(read_suite(Path(suite), overrides, device=kind), kind, kinds=("train",)).trials
    trials = [t.trial for t in planned if t.cell == cell and isinstance(t.trial, TrainTrial)]
    if not trials:
        sys.stderr.write(f"no cell is called {cell!r}: {', '.join(dict.fromkeys(t.cell for t in planned))}\n")
        return 1
    recipe = trials[0].train
    rows = step_kernels(trials[: recipe.ensemble_at_most if recipe.ensemble_seeds else 1], torch.device(kind))
    sys.stdout.write(f"{sum(us for us, *_ in rows):.0f} µs, {sum(n for _, n, _ in rows):.0f} launches a step\n")
    for us, launches, name in rows[:SHOWN]:
        sys.stdout.write(f"{us:9.1f} µs {launches:7.2f} ×  {name[:150]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
