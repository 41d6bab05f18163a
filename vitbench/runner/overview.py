"""A study in words: its plan before it is run, its state while it is. No torch."""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path

from rich.console import Console

from vitbench.data import catalog
from vitbench.runner.cost import estimate_seconds, measured_rate, trial_flops
from vitbench.runner.plan import plan
from vitbench.runner.progress import COLOURS, describe
from vitbench.runner.terminal import escape
from vitbench.spec.recipe import Device
from vitbench.spec.suite import Suite
from vitbench.store import Study, StudyError
from vitbench.store.study import finished, standing

KINDS_OF_DEVICE: dict[str, Device] = {"cpu": "cpu", "cuda": "cuda", "mps": "mps"}


def device_kind(requested: str) -> Device:
    """Type of a device by its name; for "auto" what the system shows without asking torch. Raises StudyError."""
    if requested == "auto":
        if Path("/proc/driver/nvidia/gpus").is_dir() or Path("/dev/nvidia0").exists():
            return "cuda"
        return "mps" if (platform.system(), platform.machine()) == ("Darwin", "arm64") else "cpu"
    kind = requested.partition(":")[0]
    if kind not in KINDS_OF_DEVICE:
        raise StudyError(f'"{requested}" is no device; allowed: auto, cpu, cuda, cuda:0, …, mps')
    return KINDS_OF_DEVICE[kind]


def study_folder(suite: Suite, results: Path | None) -> Path:
    """Where a suite's study lies unless told otherwise."""
    return results or Path("results") / suite.info.name


def print_plan(suite: Suite, device: str, results: Path | None, console: Console) -> None:
    """Every trial, the count, what is left out, and the estimated cost."""
    folder = study_folder(suite, results)
    records = Study.read(folder).records() if (folder / "study.json").exists() else {}
    info = plan(suite, device_kind(device), records=records)
    console.print(f"[bold]{escape(suite.info.name)}[/]  {escape(suite.info.question)}")
    for text, label in ((suite.info.cost, "cost"), (suite.info.expected, "expected")):
        if text:
            console.print(escape(f"{label}: {text}"))
    console.print()
    unsupported = 0
    for planned in info.trials:
        attempts = records.get(planned.id, [])
        trial = planned.trial
        reason = trial.unsupported(trial.device)
        unsupported += reason is not None
        mark = f"  [yellow]unsupported: {escape(reason)}[/]" if reason else ""
        if finished(attempts, suite.info.max_attempts):
            mark = f"  [{COLOURS.get(standing(attempts).state, 'red')}]{standing(attempts).state}[/]"
        console.print(f"{planned.id}  {trial.kind:5}  {escape(describe(planned))}{mark}")
    left = [p for p in info.trials if not finished(records.get(p.id, []), suite.info.max_attempts)]
    runnable = [p for p in left if p.trial.unsupported(p.trial.device) is None]
    console.print()
    for label, rule in suite.excluded:
        console.print(escape(f"excluded: {label}: {rule}"))
    for notice in suite.notices:
        console.print(escape(f"notice: {notice}"))
    counts = Counter(p.trial.kind for p in info.trials)
    if info.untuned:
        seeds = sum(len(cell.seeds) for cell in suite.cells if cell.label in info.untuned)
        console.print(
            f"to come: {seeds} train trials of {len(info.untuned)} cells, each with the best of its "
            f"{len(suite.cells[0].settings)} settings of {', '.join(info.tuned)}"
        )
    console.print(
        f"{len(info.trials)} trials ({', '.join(f'{n} {k}' for k, n in counts.items())}; {len(suite.cells)} cells; "
        f"{len(suite.excluded)} excluded; {unsupported} unsupported on {device_kind(device)}), {len(left)} left to run"
    )
    identity = f" ({info.data_identity}){_whereabouts(suite)}" if info.data_identity else ""
    console.print(escape(f"data: {info.data_name}{identity}"))
    images = train_images(suite)
    flops = sum(trial_flops(p.trial, images) for p in runnable)
    rate = measured_rate([standing(a) for a in records.values()])
    seconds = estimate_seconds(runnable, images, device_kind(device), rate)
    basis = (
        "at the rate of this study's finished trials" if rate else "at a nominal rate; measured once trials have run"
    )
    time = (
        f"about {duration(seconds)} ({basis})"
        if seconds is not None
        else "time unknown until a trial has been measured"
    )
    console.print(f"cost of what is left: {flops / 1e12:,.1f} TFLOP, {time}")


def print_status(study: Study, console: Console) -> None:
    """Counts by state, then everything that is not ok, with its reason."""
    records = study.records()
    states: Counter[str] = Counter()
    lines: Counter[tuple[str, str]] = Counter()
    for planned in study.info.trials:
        attempts = records.get(planned.id, [])
        state: str = standing(attempts).state if attempts else "pending"
        states[state] += 1
        if attempts and state != "ok":
            tries = f" (after {len(attempts)} attempts)" if len(attempts) > 1 else ""
            lines[state, standing(attempts).reason + tries] += 1
    console.print(f"[bold]{escape(study.info.suite.name)}[/]  {escape(study.info.suite.question)}")
    counts = [f"[{COLOURS.get(state, 'red')}]{n} {state}[/]" for state, n in states.most_common()]
    console.print(f"{len(study.info.trials)} trials: {', '.join(counts)}")
    if study.info.fallback:
        console.print(f"[yellow]data:[/] {escape(study.info.fallback)}")
    for (state, reason), count in sorted(lines.items()):
        console.print(f"  {count:>4} × [{COLOURS.get(state, 'red')}]{state}[/]: {escape(reason)}")
    for damaged in study.damaged:
        console.print(f"  [yellow]set aside[/] {escape(damaged)}")


def train_images(suite: Suite) -> int:
    """Training images of one epoch, as far as is known before the data are read."""
    known = catalog.facts(suite.data)
    train = suite.data.train_images or (known.train if known else None)
    if train is None:
        train = sum(1 for path in catalog.folder_images(catalog.folder(suite.data)) if "test" not in path.parts)
    return max(train - suite.data.validation_images, 0)


def _whereabouts(suite: Suite) -> str:
    if suite.data.name not in catalog.PUBLISHED:
        return ""
    return f", looked for in {catalog.root()}" + (", downloaded where missing" if suite.data.download else "")


def duration(seconds: float) -> str:
    """Seconds in the unit that a reader would choose."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds > 172_800:
        return f"{seconds / 86_400:,.0f} days"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
