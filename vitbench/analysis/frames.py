"""Records as tidy tables: one row for each planned trial, for each epoch, for each timed process."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any

import pandas as pd

from vitbench.analysis import timings
from vitbench.environment import Environment
from vitbench.spec.base import Strict, digest
from vitbench.spec.suite import as_text
from vitbench.spec.trial import TimeTrial, TrainTrial, Trial
from vitbench.store import Epoch, PlannedTrial, Record, Study, TimeValues, TrainValues
from vitbench.store.study import standing

PENDING = "pending"
"""The state of a planned trial that has no record yet."""

Records = Mapping[str, list[Record]]
"""Trial id → its attempts in order, as :meth:`Study.records` gives them."""

TRIAL = ("trial_id", "kind", "cell", "state", "reason", "attempts", "seed",
         "device", "dtype", "batch_size", "mode", "level", "level_shape")  # fmt: skip
VALUES = tuple(
    name
    for name in dict.fromkeys([*TrainValues.model_fields, *TimeValues.model_fields])
    if name not in ("epochs", "processes", "ceilings", "baseline", "resumed_at")
)
NOT_NUMBERS = ("batches_digest", "data_checksum")
NUMBERS = tuple(name for name in [*VALUES, "published", "train_flops"] if name not in NOT_NUMBERS)
WHERE = ("machine", "software", "origin", "commit", "dirty", "threads", "started_at", "notices")
PLAN = ("published", "published_source", "twin", "factorial", "train_flops")
PROCESS = ("trial_id", "process", "latency_ms_p50", "images_per_s", "first_ms", "peak_memory_mib",
           "load_average")  # fmt: skip

TIMING = ("latency_ms_low", "latency_ms_high", "speed", "speed_low", "speed_high", "control", "control_low",
          "control_high", "outliers", "unstable", "wall_ms_p50", "flops_per_s", "bytes_per_s", "of_flops", "of_bytes",
          "of_roofline", "intensity", "ceiling_flops_per_s", "ceiling_bytes_per_s")  # fmt: skip

MOVING = ("commit", "dirty", "device", "load_average", "memory_gib", "platform", "python")
"""Fields of Environment in which results that stand side by side may differ: the code's digest says what the
commit would, the device's name what its index does not, and the rest moves no number that is compared."""


def trials_frame(study: Study, records: Records | None = None) -> pd.DataFrame:
    """One row for each planned trial, in the plan's order, whatever became of it.

    Columns: trial_id, kind, cell, state, reason, attempts, seed, device, dtype, batch_size, mode, level and
    level_shape (what is timed, see :class:`TimeTrial`); one for each axis (a component's slot, or a dotted
    field; where a cell leaves it alone, the base's value); the values of :class:`TrainValues` and
    :class:`TimeValues` except those that are lists; machine, software, origin (results of one origin share
    hardware, code, packages and threads), commit, dirty, threads, started_at, notices; published,
    published_source; twin (cells that differ in exact components alone share it: the label of the first of
    them); factorial (whether the cell is one of the grid over the axes); train_flops (operations of the whole run).
    Missing values are empty, never zero.

    Args:
        study: the study.
        records: its records, where they have been read already.
    """
    records = study.records() if records is None else records
    axes = axes_of(study)
    twins, origin = _Twins(), origins()
    rows = [
        _row(study, planned, axes, records.get(planned.id, []), twins=twins, origin=origin)
        for planned in study.info.trials
    ]
    frame = pd.DataFrame(rows, columns=[*TRIAL, *axes, *VALUES, *WHERE, *PLAN])
    frame = frame.astype(dict.fromkeys(NUMBERS, "float64"))  # also where every one of them is missing
    # Not left to pandas: with a missing value among them it makes floats, which hold no seed above 2**53.
    frame["seed"] = pd.array([row["seed"] for row in rows], dtype="UInt64")
    return frame


def epochs_frame(study: Study, records: Records | None = None) -> pd.DataFrame:
    """One row for each epoch of each training trial that finished.

    Columns: trial_id, cell, seed, device; one for each axis; the fields of :class:`Epoch`.
    """
    axes = axes_of(study)
    rows: list[dict[str, Any]] = []
    for planned, values in _finished(study, records):
        if not isinstance(values, TrainValues) or not isinstance(planned.trial, TrainTrial):
            continue
        start = {"trial_id": planned.id, "cell": planned.cell, "seed": planned.trial.seed}
        start |= {"device": planned.trial.device, **_axis_values(planned, axes)}
        rows += [{**start, **dict(epoch)} for epoch in values.epochs]
    return pd.DataFrame(rows, columns=["trial_id", "cell", "seed", "device", *axes, *Epoch.model_fields])


def processes_frame(study: Study, records: Records | None = None) -> pd.DataFrame:
    """One row for each process of each timing trial that finished.

    Columns: trial_id, process (from 0), latency_ms_p50 (the process's median), images_per_s (batch size over
    it), first_ms, peak_memory_mib, load_average.
    """
    rows: list[dict[str, Any]] = []
    for planned, values in _finished(study, records):
        if not isinstance(values, TimeValues) or not isinstance(planned.trial, TimeTrial):
            continue
        for number, samples in enumerate(values.processes):
            median = statistics.median(samples.latencies_ms) if samples.latencies_ms else None
            rows.append(
                {
                    "trial_id": planned.id,
                    "process": number,
                    "latency_ms_p50": median,
                    "images_per_s": planned.trial.batch_size / median * 1000 if median else None,
                    "first_ms": samples.first_ms,
                    "peak_memory_mib": samples.peak_memory_mib,
                    "load_average": samples.load_average,
                }
            )
    return pd.DataFrame(rows, columns=list(PROCESS))


def timings_frame(study: Study, records: Records | None = None) -> pd.DataFrame:
    """One row for each timing trial that finished: what its samples say, see :mod:`vitbench.analysis.timings`.

    Columns: trial_id; latency_ms_low and _high (95 % interval); speed, speed_low and speed_high (times as fast as the
    baseline beside it); control, control_low and control_high (the same of the baseline's second instance); outliers;
    unstable (why, or empty); wall_ms_p50 (by the host's clock, where the device has events of its own); flops_per_s,
    bytes_per_s; of_flops, of_bytes, of_roofline (fractions of the measured ceilings); intensity (operations per
    byte); ceiling_flops_per_s, ceiling_bytes_per_s. Missing where there is none.
    """
    rows = [
        {"trial_id": planned.id, **_timing(values)}
        for planned, values in _finished(study, records)
        if isinstance(values, TimeValues)
    ]
    frame = pd.DataFrame(rows, columns=["trial_id", *TIMING])
    return frame.astype({name: "float64" for name in TIMING if name != "unstable"})


def _timing(values: TimeValues) -> dict[str, Any]:
    width = timings.latency(values)
    row: dict[str, Any] = {"latency_ms_low": width.low, "latency_ms_high": width.high}
    # A ratio of latencies the other way round is one of speeds.
    for name, found in (("speed", timings.ratio(values)), ("control", timings.control(values))):
        if found is not None:
            row |= {name: 1 / found.estimate, f"{name}_low": 1 / found.high, f"{name}_high": 1 / found.low}
    rates = timings.rate(values)
    row |= {field.name: getattr(rates, field.name) for field in fields(rates)}
    if values.ceilings is not None:
        row |= {f"ceiling_{name}": value for name, value in dict(values.ceilings).items()}
    wall = [statistics.median(p.wall_ms) for p in values.processes if p.wall_ms]
    row["wall_ms_p50"] = statistics.median(wall) if wall else None
    return row | {"outliers": timings.outliers(values), "unstable": "; ".join(timings.instability(values))}


def axes_of(study: Study) -> list[str]:
    """Names of the suite's axes, then of the other fields that its variants replace, in the plan's order."""
    given = [*study.info.axes, *(name for planned in study.info.trials for name in planned.axes)]
    taken = {*TRIAL, *VALUES, *WHERE, *PLAN}
    return [name for name in dict.fromkeys(given) if name not in taken]


def level(value: Any) -> str:
    """An axis value as text, the same for the same value whatever the column's type has made of it."""
    if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA:
        return "n/a"
    return str(as_text(value))


def origin_of(environment: Environment) -> str:
    """Hash of what comparable results share: hardware, driver, packages, code and threads."""
    return digest({k: v for k, v in environment.model_dump(mode="json").items() if k not in MOVING}, 12)


def origins() -> Callable[[Environment], str]:
    """:func:`origin_of` with a memory: of a hundred thousand environments nearly all differ in load alone."""
    known: dict[tuple[Any, ...], str] = {}

    def remembered(environment: Environment) -> str:
        fields = (v for k, v in environment if k not in MOVING)
        key = tuple([tuple(v.items()) if isinstance(v, dict) else v for v in fields])
        if key not in known:
            known[key] = origin_of(environment)
        return known[key]

    return remembered


def _finished(study: Study, records: Records | None) -> Iterable[tuple[PlannedTrial, Strict]]:
    """Each planned trial that is ok, in the plan's order, with its values."""
    records = study.records() if records is None else records
    for planned in study.info.trials:
        if not (attempts := records.get(planned.id)):
            continue
        record = standing(attempts)
        if record.state == "ok" and record.values:
            yield planned, record.values


def _row(
    study: Study, planned: PlannedTrial, axes: list[str], attempts: list[Record], *, twins: _Twins,
    origin: Callable[[Environment], str],
) -> dict[str, Any]:  # fmt: skip
    record = standing(attempts) if attempts else None
    trial = planned.trial
    row: dict[str, Any] = {
        "trial_id": planned.id,
        "kind": trial.kind,
        "cell": planned.cell,
        "state": record.state if record else PENDING,
        "reason": record.reason if record else "",
        "attempts": len(attempts),
        "seed": None if isinstance(trial, TimeTrial) else trial.seed,
        "device": trial.device,
        "dtype": trial.dtype,
        "batch_size": trial.batch_size if isinstance(trial, TimeTrial) else trial.train.batch_size,
        "mode": trial.mode if isinstance(trial, TimeTrial) else None,
        "level": trial.level if isinstance(trial, TimeTrial) else None,
        "level_shape": trial.shape if isinstance(trial, TimeTrial) else None,
        **_axis_values(planned, axes),
    }
    if record and record.state == "ok" and record.values:
        row |= {name: value for name, value in dict(record.values).items() if name in VALUES}
    environment = record.environment if record else None
    return row | {
        "machine": environment.machine if environment else None,
        "software": environment.software if environment else None,
        "origin": origin(environment) if environment else None,
        "commit": environment.commit if environment else None,
        "dirty": environment.dirty if environment else None,
        "threads": environment.threads if environment else None,
        "started_at": record.started_at.isoformat() if record else None,
        "notices": "; ".join(record.notices) if record else "",
        "published": planned.published.test_accuracy if planned.published else None,
        "published_source": planned.published.source if planned.published else None,
        "twin": twins.first(planned),
        "factorial": bool(study.info.axes) and planned.axes.keys() == study.info.axes.keys(),
        "train_flops": _train_flops(record) if record else None,
    }


def _train_flops(record: Record) -> float | None:
    """Operations of a whole training run: three times those of the forward passes (Kaplan et al. 2020, §2.1)."""
    if not isinstance(record.values, TrainValues) or not isinstance(record.trial, TrainTrial):
        return None
    recipe = record.trial.train
    images = recipe.images or recipe.epochs * record.values.train_images
    return 3.0 * record.values.forward_flops * images


def _axis_values(planned: PlannedTrial, axes: list[str]) -> dict[str, Any]:
    return {axis: _plain(planned.axes.get(axis, _field(planned.trial, axis))) for axis in axes}


def _field(trial: Trial, axis: str) -> Any:
    """What a trial has in a field that its cell leaves alone; None where its kind has no such field."""
    table, _, name = axis.rpartition(".")
    owner = getattr(trial, table or "model", None)
    known = isinstance(owner, Strict) and name in type(owner).model_fields
    return getattr(owner, name) if known else None


class _Twins:
    """What trials compute, whichever of the exact components does it: equal for twins."""

    def __init__(self) -> None:
        self.cells: dict[str, str] = {}
        """What is computed → label of the first cell that does."""
        self.known: dict[tuple[Any, ...], tuple[str, Trial]] = {}
        """By the specs themselves, which trials share: see :func:`vitbench.spec.base.by_identity`."""

    def first(self, planned: PlannedTrial) -> str:
        """Label of the first cell that computes the same."""
        trial = planned.trial
        exact = tuple([slot for slot, one in planned.exact.items() if one])
        of_training = () if isinstance(trial, TimeTrial) else (id(trial.train), id(trial.data), trial.data_identity)
        key = (trial.kind, id(trial.model), exact, *of_training)
        if key not in self.known:
            self.known[key] = _function(trial, exact), trial
        return self.cells.setdefault(self.known[key][0], planned.cell)


def _function(trial: Trial, exact: Collection[str]) -> str:
    rest = trial.canonical()
    model = {k: v for k, v in trial.model.canonical().items() if k not in exact}
    return digest({"kind": trial.kind, "model": model, "train": rest.get("train"), "data": rest.get("data")})


def _plain(value: Any) -> Any:
    """An axis value that a table can hold: arrays as text."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else value
