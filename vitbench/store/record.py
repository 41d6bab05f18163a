"""Record: the immutable result of one attempt at a trial. Its file is JSON with a checksum; nothing else is read."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from vitbench.environment import Environment
from vitbench.spec.base import STORED, Strict, digest
from vitbench.spec.trial import Trial

SCHEMA: Literal[3] = 3
"""Version of the record's form. Older files are read too: version 2 added fields that they leave empty, version 3 a
kind of trial, tuning runs."""

READ = (1, 2, SCHEMA)
"""Versions that are read; a file of another one is refused by name."""

State = Literal[
    "ok",  # finished
    "unsupported",  # cannot run where it is asked to
    "incorrect",  # an exact component that is not
    "oom",  # out of memory
    "timeout",
    "diverged",  # loss or gradient not finite
    "failed",  # raised
    "crashed",  # the process died
    "interrupted",  # ended by the user or the system
]
STATES: tuple[str, ...] = get_args(State)
AGAIN: frozenset[str] = frozenset({"failed", "crashed"})
"""States that are tried again, up to the suite's number of attempts; "interrupted" always is.

The others would come out the same again: they are results."""

Percent = Annotated[float, Field(ge=0.0, le=100.0)]
NonNegative = Annotated[float, Field(ge=0.0)]


class Epoch(Strict):
    """One epoch of training."""

    epoch: int
    train_loss: float
    train_accuracy_pct: Percent
    validation_loss: float | None
    validation_accuracy_pct: Percent | None
    learning_rate: NonNegative
    seconds: NonNegative


class TrainValues(Strict):
    """What a finished training trial measured."""

    epochs: tuple[Epoch, ...]
    test_loss: float
    test_accuracy_pct: Percent
    test_readings: int = 1
    train_images: int
    validation_images: int
    test_images: int
    parameters: int
    forward_flops: int = Field(description="of one image; a multiply-add counts two")
    steps: int
    step_ms_p50: NonNegative = Field(description="median over steps, first steps of the trial apart")
    first_step_ms: NonNegative
    train_images_per_s: NonNegative = Field(description="batch size over the median step")
    train_seconds: NonNegative
    seconds: NonNegative = Field(description="of the whole trial: model, data, training, evaluation")
    peak_memory_mib: NonNegative = Field(
        description="GPU: allocated; CPU: resident, less that before the model was built"
    )
    batches_digest: str = Field(description="hash of the first batches after augmentation")
    data_checksum: str = Field(description="SHA-256 of pixels and labels of all splits")


class TuneValues(Strict):
    """What a finished tuning run measured: its last epoch's validation, and no test images."""

    epochs: tuple[Epoch, ...]
    validation_loss: float
    validation_accuracy_pct: Percent
    train_images: int
    validation_images: int
    steps: int
    seconds: NonNegative = Field(description="of the whole trial: model, data, training, evaluation")
    batches_digest: str = Field(description="hash of the first batches after augmentation")
    data_checksum: str = Field(description="SHA-256 of pixels and labels of all splits")


class Samples(Strict):
    """What one process measured: one value for each round, in which each variant had a turn, in random order."""

    latencies_ms: tuple[NonNegative, ...] = Field(
        description="by the device's events, or by the clock where it has none"
    )
    wall_ms: tuple[NonNegative, ...] = Field((), description="by the host's clock, launch and synchronisation included")
    baseline_ms: tuple[NonNegative, ...] = Field((), description="of the baseline, in the same rounds")
    control_ms: tuple[NonNegative, ...] = Field((), description="of the baseline once more: the A/A control")
    calls: int = Field(1, description="consecutive calls of which a value is the mean")
    first_ms: NonNegative = Field(description="the first iteration, warm-up's")
    warmup_iterations: int | None = None
    steady: bool | None = Field(None, description="whether warm-up ended because latencies had become steady")
    peak_memory_mib: NonNegative | None = Field(None, description="None where several variants shared the process")
    load_average: float | None = None
    clock_mhz: int | None = Field(None, description="of a GPU's processors, after the rounds")
    throttled: str | None = Field(
        None, description="why a GPU held its clock back, after the rounds; empty if it did not"
    )


class Ceilings(Strict):
    """The most that the device was seen to do in a trial's dtype, when the run began and beside the trial's rounds."""

    flops_per_s: NonNegative = Field(description="large matrix product")
    bytes_per_s: NonNegative = Field(description="large copy, bytes read and bytes written")


class TimeValues(Strict):
    """What a finished timing trial measured, over all of its processes."""

    latency_ms_p50: NonNegative = Field(description="median of the processes' medians")
    latency_ms_p25: NonNegative | None = Field(description="over all iterations of all processes; None of too few")
    latency_ms_p75: NonNegative | None
    process_ms_min: NonNegative = Field(description="smallest and largest of the processes' medians")
    process_ms_max: NonNegative
    images_per_s: NonNegative = Field(description="batch size over latency_ms_p50")
    first_ms: NonNegative = Field(description="median of the processes' first iterations")
    peak_memory_mib: NonNegative
    parameters: int
    forward_flops: int = Field(description="of one image; a multiply-add counts two")
    flops: int | None = Field(None, description="of one iteration: the whole batch, and the backward pass in training")
    bytes: int | None = Field(None, description="that an iteration must move: each tensor read and written once")
    peak_reserved_mib: NonNegative | None = Field(None, description="GPU: held by the allocator, fragments included")
    energy_mj_per_image: NonNegative | None = Field(None, description="GPU: by NVML's counter, the card as a whole")
    largest_batch: int | None = Field(None, description="GPU: largest batch that fits, within 5 %")
    ceilings: Ceilings | None = None
    baseline: str | None = Field(None, description="id of the trial that baseline_ms and control_ms are of")
    processes: tuple[Samples, ...]


class Record(Strict):
    """The immutable result of one attempt at a trial."""

    schema_version: Literal[1, 2, 3] = SCHEMA
    trial_id: str
    attempt: Annotated[int, Field(gt=0)]
    state: State
    reason: str = Field("", description="why the state is not ok, for a reader")
    details: str = Field("", description="last lines of the traceback")
    trial: Trial
    values: TrainValues | TuneValues | TimeValues | None = None
    notices: tuple[str, ...] = ()
    environment: Environment | None = Field(None, description="None where no process came so far as to look")
    started_at: datetime
    seconds: NonNegative

    @property
    def code(self) -> str | None:
        """State of vitbench's code that made it; None where no process came so far as to look."""
        return self.environment.code if self.environment else None

    def to_json(self) -> str:
        """Text of the record's file."""
        body = self.model_dump(mode="json")
        return json.dumps({"sha256": digest(body, 64), "record": body}, indent=1, allow_nan=False) + "\n"


class BadRecord(ValueError):
    """A file that is no record: damaged, of another schema, or not ours."""


def from_json(text: str | bytes) -> Record:
    """The record in a file's text.

    Raises:
        BadRecord: with the reason.
    """
    try:
        wrapper: Any = json.loads(text)
        body, checksum = wrapper["record"], wrapper["sha256"]
        version = body["schema_version"]
        actual = digest(body, 64)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRecord(f"not a record: {type(error).__name__}: {error}") from error
    if version not in READ:
        raise BadRecord(f"schema version {version!r}, and this vitbench reads {' and '.join(map(str, READ))}")
    if checksum != actual:
        raise BadRecord(f"checksum {str(checksum)[:12]}… does not match the content's {actual[:12]}…")
    try:
        record = Record.model_validate_json(json.dumps(body), context=STORED)
    except ValueError as error:
        raise BadRecord(str(error).replace("\n", " ")[:500]) from error
    if record.trial.id != record.trial_id:
        raise BadRecord(f"trial id {record.trial_id} is not that of its trial, {record.trial.id}")
    return record
