"""Sides of a comparison: the timings of a study's folder, or of a JSON file of pytest-benchmark, read the same way."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vitbench.analysis import timings
from vitbench.analysis.frames import PENDING
from vitbench.analysis.results import MOVING
from vitbench.environment import Environment
from vitbench.errors import UserError
from vitbench.store import PlannedTrial, Record, Samples, Study, TimeValues
from vitbench.store.attempts import standing

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
    """What was given cannot be compared. The message says why, and what to do."""


@dataclass(frozen=True)
class Conditions:
    """Under what a timing came about: name → value, as a reader says them."""

    machine: Mapping[str, str]
    software: Mapping[str, str]


@dataclass(frozen=True)
class Timing:
    """One timing of one side.

    Attributes:
        label: what was timed, in words.
        state: of its record, or "pending"; always "ok" for pytest-benchmark, which leaves out what failed.
        reason: why it is not ok.
        values: where it is ok. Of a benchmark they hold the samples and nothing else.
        conditions: None where they were not recorded.
        unstable: why it is not to be relied on; empty where nothing speaks against it.
    """

    label: str
    state: str
    reason: str = ""
    values: TimeValues | None = None
    conditions: Conditions | None = None
    unstable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Side:
    """All timings of one study or file, by what they are found again: trial id, or the benchmark's full name."""

    path: Path
    kind: Literal["a study", "pytest-benchmark's JSON"]
    timings: Mapping[str, Timing]
    damaged: tuple[str, ...] = ()


def read_side(path: Path) -> Side:
    """The timings of a study's folder, or of a JSON file that pytest-benchmark wrote.

    Raises:
        ComparisonError: where the file is not what pytest-benchmark writes, or holds no raw rounds.
        StudyError: where the folder holds no study.
    """
    return _study(path) if path.is_dir() else _benchmarks(path)


def _study(path: Path) -> Side:
    study = Study.read(path)
    records = study.records()
    planned = [p for p in study.info.trials if p.trial.kind == "time"]
    repeated = Counter(p.description for p in planned)
    found = {}
    for p in planned:
        # What tells two of one description apart, such as the protocol, is in the id.
        label = p.description if repeated[p.description] == 1 else f"{p.description} ({p.id[:8]})"
        attempts = records.get(p.id)
        found[p.id] = timed(path, p, label, standing(attempts)) if attempts else Timing(label, PENDING)
    return Side(path, "a study", found, tuple(study.damaged))


def timed(path: Path, planned: PlannedTrial, label: str, record: Record) -> Timing:
    """A planned timing and the record that stands for it.

    Raises:
        ComparisonError: where the record is ok and holds no samples.
    """
    under = conditions(record.environment) if record.environment else None
    if record.state != "ok":
        return Timing(label, record.state, record.reason, conditions=under)
    values = record.values
    if not isinstance(values, TimeValues) or not values.processes or not all(p.latencies_ms for p in values.processes):
        raise ComparisonError(f"{path}: the record of trial {planned.id} is ok and holds no samples")
    return Timing(label, "ok", "", values, under, timings.instability(values))


def conditions(environment: Environment) -> Conditions:
    """An environment as a reader says it, without what moves no number that is compared."""
    machine: dict[str, str] = {}
    software: dict[str, str] = {}
    for name, value in environment.model_dump().items():
        if name in {*MOVING} - {"plugins"} or (
            name == "device_name" and value == environment.cpu
        ):  # of a CPU it says nothing more
            continue
        if isinstance(value, dict):
            software |= value
        else:
            (machine if name in HARDWARE else software)[NAMES.get(name, name)] = str(value)
    return Conditions(machine, software)


def _benchmarks(path: Path) -> Side:
    try:
        whole: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise ComparisonError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ComparisonError(f"{path}: not JSON: {error}") from error
    if not isinstance(whole, dict) or not isinstance(whole.get("benchmarks"), list):
        raise ComparisonError(f"{path}: not what pytest-benchmark writes (no list of benchmarks); "
                              "of a study, give the folder")  # fmt: skip
    found: dict[str, Timing] = {}
    for number, benchmark in enumerate(whole["benchmarks"]):
        name = benchmark.get("fullname") if isinstance(benchmark, dict) else None
        if not isinstance(name, str):
            raise ComparisonError(f"{path}: benchmark {number} has no full name")
        if name in found:
            raise ComparisonError(f"{path}: {name} is there twice")
        conditions = _of_benchmark(whole, benchmark)
        found[name] = Timing(name, "ok", "", _values(path, name, benchmark), conditions)
    return Side(path, "pytest-benchmark's JSON", found)


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
    if not all(type(r) in (int, float) and math.isfinite(r) and r >= 0 for r in rounds) or not statistics.median(
        rounds
    ):
        raise ComparisonError(f"{path}: the rounds of {name} (stats.data) are not positive, finite seconds")
    batches = np.array_split(1000.0 * np.asarray(rounds, dtype=np.float64), min(len(rounds), BATCHES))
    samples = tuple(float(np.median(batch)) for batch in batches)
    # What pytest-benchmark does not measure is left out, not invented; to read it is an error.
    process = Samples.model_construct(latencies_ms=samples)  # type: ignore[call-arg]
    return TimeValues.model_construct(processes=(process,))  # type: ignore[call-arg]


def _of_benchmark(whole: Mapping[str, Any], benchmark: Mapping[str, Any]) -> Conditions | None:
    info, commit, options = whole.get("machine_info"), whole.get("commit_info"), benchmark.get("options")
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
    if isinstance(options, dict):
        software |= {NAMES.get(k, k): str(options[k]) for k in ("timer", "disable_gc") if k in options}
    return Conditions(machine, software)
