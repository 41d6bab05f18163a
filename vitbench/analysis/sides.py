"""Timings to compare and their platforms, read from records or from a JSON file of pytest-benchmark."""

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vitbench.analysis import timings
from vitbench.analysis.results import MOVING
from vitbench.environment import Environment
from vitbench.errors import UserError
from vitbench.store import PlannedTrial, Record, Samples, TimeValues

BATCHES = 200
"""Most samples that a benchmark's rounds make: consecutive ones beyond are summed up by the median of their batch."""

NAMES = {
    "cpu": "processor", "cpu_cores": "number of cores", "device_name": "device", "threads": "CPU threads",
    "vitbench": "version of vitbench", "code": "code of vitbench", "cuda": "CUDA", "brand_raw": "processor",
    "count": "number of cores", "arch": "architecture", "python_version": "Python",
    "disable_gc": "garbage collector off",
}  # fmt: skip
"""Fields of Environment and of pytest-benchmark's machine_info as a reader says them."""

HARDWARE = frozenset({"cpu", "cpu_cores", "device_name", "threads"})
"""Fields of Environment that make a machine; the rest of what keeps results apart is software."""

NODE = frozenset({"node", "release", "python_build", "python_implementation_version", "cpu"})
"""Keys of machine_info that are not compared by themselves: the computer's name, what moves no number here, what
another key says too, and the processor, of which only OF_CPU counts (its clock is another at each look)."""

OF_CPU = ("brand_raw", "count", "arch")
PYTHON = frozenset({"python_implementation", "python_version", "python_compiler"})


class ComparisonError(UserError, ValueError):
    """The given studies or files cannot be compared. The message says why, and what to do."""


@dataclass(frozen=True)
class Platform:
    """Machine and software of a timing: name → value, as a reader says them."""

    machine: Mapping[str, str]
    software: Mapping[str, str]


@dataclass(frozen=True)
class Timing:
    """One timing of one arm."""

    label: str  # what was timed, in words
    state: str  # of its record, or "pending"; always "ok" for pytest-benchmark, which leaves out what failed
    reason: str = ""  # why it is not ok
    values: TimeValues | None = None  # where it is ok. Of a benchmark they hold the samples and nothing else
    unstable: tuple[str, ...] = ()  # why it is not to be relied on; empty where nothing speaks against it
    planned: PlannedTrial | None = None  # the trial; None of a benchmark


def timed(path: Path, planned: PlannedTrial, label: str, record: Record) -> Timing:
    """A planned timing and the record that stands for it.

    Raises:
        ComparisonError: where the record is ok and holds no samples.
    """
    if record.state != "ok":
        return Timing(label, record.state, record.reason, planned=planned)
    values = record.values
    if not isinstance(values, TimeValues) or not values.processes or not all(p.latencies_ms for p in values.processes):
        raise ComparisonError(f"{path}: the record of trial {planned.id} is ok and holds no samples")
    return Timing(label, "ok", "", values, timings.instability(values), planned)


def platform_of(environment: Environment) -> Platform:
    """An environment as a reader says it, without what moves no number that is compared."""
    machine: dict[str, str] = {}
    software: dict[str, str] = {}
    left_out = {*MOVING} - {"plugins", "threads"}
    if environment.device_name == environment.cpu:  # of a CPU it says nothing more
        left_out.add("device_name")
    for name, value in environment.model_dump(exclude=left_out).items():
        if isinstance(value, dict):
            software |= value
        else:
            (machine if name in HARDWARE else software)[NAMES.get(name, name)] = str(value)
    return Platform(machine, software)


def benchmarks(path: Path) -> tuple[dict[str, Timing], Platform | None]:
    """The timings in a JSON file that pytest-benchmark wrote, by their full names, and their platform.

    Raises:
        ComparisonError: where the file is not what pytest-benchmark writes, or holds no raw rounds.
    """
    try:
        whole: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise ComparisonError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ComparisonError(f"{path}: not JSON: {error}") from error
    if not isinstance(whole, dict) or not isinstance(whole.get("benchmarks"), list):
        raise ComparisonError(f"{path}: not what pytest-benchmark writes (no list of benchmarks); "
                              "of a study, give the folder")  # fmt: skip
    by_name: dict[str, Timing] = {}
    for number, benchmark in enumerate(whole["benchmarks"]):
        name = benchmark.get("fullname") if isinstance(benchmark, dict) else None
        if not isinstance(name, str):
            raise ComparisonError(f"{path}: benchmark {number} has no full name")
        if name in by_name:
            raise ComparisonError(f"{path}: {name} is there twice")
        by_name[name] = Timing(name, "ok", "", _values(path, name, benchmark))
    return by_name, _of_file(whole)


def _values(path: Path, name: str, benchmark: Mapping[str, Any]) -> TimeValues:
    """A benchmark's rounds as the samples of one process.

    Rounds that follow one another share what the machine did at the time, and there may be 100,000: batches of them
    are nearer to independent (batch means; Law 2015, Simulation Modeling and Analysis, §9.5.3).
    """
    stats = benchmark.get("stats")
    rounds = stats.get("data") if isinstance(stats, dict) else None
    if not isinstance(rounds, list) or not rounds:
        raise ComparisonError(f"{path}: {name} has no raw rounds (stats.data), which an interval is made of; "
                              "run pytest with --benchmark-save-data, or with --benchmark-json")  # fmt: skip
    if not (all(type(r) in (int, float) and math.isfinite(r) and r >= 0 for r in rounds) and statistics.median(rounds)):
        raise ComparisonError(f"{path}: the rounds of {name} (stats.data) are not positive, finite seconds")
    batches = np.array_split(1000.0 * np.asarray(rounds, dtype=np.float64), min(len(rounds), BATCHES))
    samples = tuple(float(np.median(batch)) for batch in batches)
    # What pytest-benchmark does not measure is left out, not invented; to read it is an error.
    process = Samples.model_construct(latencies_ms=samples)  # type: ignore[call-arg]
    return TimeValues.model_construct(processes=(process,))  # type: ignore[call-arg]


def _of_file(whole: Mapping[str, Any]) -> Platform | None:
    info, commit = whole.get("machine_info"), whole.get("commit_info")
    options = [each for b in whole["benchmarks"] if isinstance(each := b.get("options"), dict)]
    if not isinstance(info, dict):
        return None
    cpu = info.get("cpu")
    plain = {k: str(v) for k, v in info.items() if k not in NODE and isinstance(v, (str, int, float))}
    machine = {k: v for k, v in plain.items() if k not in PYTHON and v}  # what a hook added among them
    if isinstance(cpu, dict):
        machine |= {NAMES[k]: str(cpu[k]) for k in OF_CPU if k in cpu}
    software = {NAMES.get(k, k.replace("_", " ")): v for k, v in plain.items() if k in PYTHON}
    if isinstance(commit, dict) and commit.get("id"):
        software["commit"] = str(commit["id"])[:12] + (" with changes" if commit.get("dirty") else "")
    for name in ("timer", "disable_gc"):
        if values := dict.fromkeys(str(each[name]) for each in options if name in each):
            software[NAMES.get(name, name)] = ", ".join(values)
    return Platform(machine, software)
