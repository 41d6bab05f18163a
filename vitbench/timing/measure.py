"""Measure: one process of a timing, a variant alone or all variants of a setting side by side."""

import os
from collections.abc import Callable, Sequence

import torch

from vitbench.ceilings import measure_ceilings
from vitbench.clock import Clock
from vitbench.config.base import digest
from vitbench.config.trial import SLOT, TimeTrial
from vitbench.devices import DTYPES, PeakMemory
from vitbench.model.exactness import check
from vitbench.store import Samples
from vitbench.timing.capacity import largest_batch
from vitbench.timing.foreign_load import ForeignLoad
from vitbench.timing.gpu import clock_state, energy_mj
from vitbench.timing.rounds import Warmup, calls_for, interleave, warm_up
from vitbench.timing.sizes import count
from vitbench.timing.subject import Subject
from vitbench.timing.values import Alone, Panel

BASELINE, CONTROL = "baseline", "control"
ENERGY_SECONDS = 1.0
"""For which a GPU repeats an iteration while its energy counter runs: the counter is renewed every 20 to 100 ms."""


def alone(trial: TimeTrial, device: torch.device) -> Alone:
    """Correct before timed: the gate, and what needs a process of its own.

    Memory comes first, while the process is fresh; no figure leaves it unless the gate is passed.

    Raises:
        Incorrect: an exact component breaks the error rule, or the iterations' own results do.
    """
    memory = PeakMemory(device)
    subject = Subject(trial, device)
    warmth = warm_up(subject.iterate, Clock(device, flush=False), least=3, budget_s=0.0)
    peak, reserved = memory.mib(), memory.reserved_mib()
    energy = energy_mj(device, subject.iterate, ENERGY_SECONDS)
    slots = (SLOT[trial.level],) if trial.level in SLOT else None  # whose components take part in what is timed
    check(trial.model, device, DTYPES[trial.dtype], backward=trial.training, slots=slots)
    drift = subject.verify()
    return Alone(
        sizes=count(trial),
        first_ms=warmth.first_ms,
        peak_memory_mib=peak,
        peak_reserved_mib=reserved,
        energy_mj_per_image=None if energy is None else energy / trial.batch_size,
        largest_batch=largest_batch(trial, device) if trial.protocol.largest_batch else None,
        drift=drift,
    )


def side_by_side(
    baseline: TimeTrial, trials: Sequence[TimeTrial], device: torch.device, process: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Panel:  # fmt: skip
    """Time variants of one setting in interleaved rounds, and the baseline twice among them.

    Args:
        baseline: what the others are compared with. It has its turn in every round, and once more as the A/A control,
            built a second time: what the two differ by is what a difference of nothing looks like here.
        trials: the variants; the baseline may be one of them.
        device: where.
        process: number of this process: the orders of its rounds are drawn from it.
        progress: called with the id of each trial before it is built, warmed up or checked, to attribute a crash.

    Raises:
        Incorrect: after timing, where the timed iterations' own results are wrong.
    """
    protocol = baseline.protocol
    clock = Clock(device, flush=baseline.level in SLOT)
    wanted = {trial.id: trial for trial in trials}
    names = {BASELINE: baseline, CONTROL: baseline} | {i: t for i, t in wanted.items() if i != baseline.id}
    subjects: dict[str, Subject] = {}
    warmth: dict[str, Warmup] = {}
    for name, trial in names.items():
        progress(trial.id)
        subjects[name] = Subject(trial, device)
        warmth[name] = warm_up(subjects[name].iterate, clock, protocol.warmup)
    repeat = calls_for(min(w.last_ms for w in warmth.values()), clock)
    load = ForeignLoad()

    def turn(name: str) -> None:
        progress(names[name].id)
        load.look()

    laps = interleave(
        {name: subject.iterate for name, subject in subjects.items()},
        clock,
        rounds=protocol.iterations,
        seed=int(digest([baseline.id, process]), 16),
        repeat=repeat,
        progress=turn,
    )
    mhz, throttled = clock_state(device)
    # In each process, of which the highest counts: one measured while other work had the cores would lie too low.
    ceilings = measure_ceilings(device, DTYPES[baseline.dtype])
    for name, subject in subjects.items():
        progress(names[name].id)
        subject.verify()
    device_ms = {name: tuple(lap.device_ms for lap in of) for name, of in laps.items()}
    samples = {}
    for trial_id in wanted:
        name = BASELINE if trial_id == baseline.id else trial_id
        samples[trial_id] = Samples(
            latencies_ms=device_ms[name],
            wall_ms=tuple(lap.wall_ms for lap in laps[name]) if device.type == "cuda" else (),
            baseline_ms=device_ms[BASELINE],
            control_ms=device_ms[CONTROL],
            calls=repeat,
            hidden_launches=all(lap.hidden for lap in laps[name]) if clock.flush and device.type == "cuda" else None,
            first_ms=warmth[name].first_ms,
            warmup_iterations=warmth[name].iterations,
            steady=warmth[name].steady,
            load_average=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
            foreign_threads=load.mean(),
            clock_mhz=mhz,
            throttled=throttled,
        )
    return Panel(samples=samples, ceilings=ceilings)
