"""Record: the immutable result of one attempt at a trial. Its file is JSON with a checksum; nothing else is read."""

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from vitbench.config.base import STORED, Strict, Text, digest
from vitbench.config.trial import Trial
from vitbench.environment import Environment, code_with
from vitbench.store.files import content
from vitbench.wording import last_lines, sentence

SCHEMA: Literal[8] = 8
"""Version of the record's form; a file of another one is refused by name. No release wrote an earlier one."""

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

MAX_BYTES = 64 << 20  # Largest file of a record: a hundred times the largest that is written
LARGEST = 2**63 - 1
"""Largest count: what tables hold. A larger one is nobody's measurement, and would end a report in an overflow."""

Count = Annotated[int, Field(ge=0, le=LARGEST)]
Percent = Annotated[float, Field(ge=0.0, le=100.0)]
NonNegative = Annotated[float, Field(ge=0.0, le=1e30)]


def _without_home(text: str) -> str:
    """Paths in a traceback lie below the user's home, whose name is the user's: a record holds none."""
    if "/" not in text:
        return text
    home = str(Path.home())
    return text.replace(f"{home}/", "~/") if len(home) > 1 else text


Reason = Annotated[str, BeforeValidator(sentence), AfterValidator(_without_home)]
"""A line of anybody's text, made printable and as long as a line may be."""

Details = Annotated[str, BeforeValidator(last_lines), AfterValidator(_without_home)]
"""The last lines of a traceback or a log, likewise."""


def _base64(text: str) -> str:
    base64.b64decode(text, validate=True)  # whose error is a ValueError
    return text


Png = Annotated[str, AfterValidator(_base64)]  # A picture's file in base64


Bits = Annotated[str, AfterValidator(_base64)]
"""Yes or no, one bit each, the first in the highest of its byte, in base64: 10,000 are 1,668 letters."""


class Epoch(Strict):
    """One epoch of training."""

    epoch: Count
    train_loss: float
    train_accuracy_pct: Percent | None = Field(description="None of an epoch without labels")
    validation_loss: float | None
    validation_accuracy_pct: Percent | None
    learning_rate: NonNegative
    seconds: NonNegative
    gradient_norm: NonNegative | None = Field(
        None,
        description="mean of the gradient's global norm before clipping, over the epoch's first batch and every "
        "CHECK_EVERYth after it; None where one was no number",
    )


class TrainValues(Strict):
    """Values of a finished training trial."""

    epochs: tuple[Epoch, ...]
    test_loss: float
    test_accuracy_pct: Percent
    test_readings: Count = 1
    test_accuracies_at: tuple[Percent, ...] = Field((), description="at the recipe's test_sizes, in their order")
    test_right: Bits | None = Field(None, description="test images classified correctly, in the split's order")
    test_most_common_pct: Percent | None = Field(
        None, description="share of the test images that are of the most frequent class: what a guess attains"
    )
    train_images: Count
    validation_images: Count
    test_images: Count
    parameters: Count
    forward_flops: Count = Field(description="of one image; a multiply-add counts two")
    trained_flops: Count | None = Field(
        None, description="the same in training, where the blocks are given fewer patches there"
    )
    steps: Count
    step_ms_p50: NonNegative = Field(description="median over steps, first steps of the trial apart")
    first_step_ms: NonNegative
    train_images_per_s: NonNegative = Field(description="batch size over the median step, of all models of the program")
    train_seconds: NonNegative = Field(description="of the epochs; of a program of several models this one's share")
    seconds: NonNegative = Field(description="of the whole trial, likewise: model, data, training, evaluation")
    peak_memory_mib: NonNegative = Field(
        description="GPU: allocated; CPU: resident, less that before the model was built"
    )
    batches_digest: str = Field(description="hash of the first batches after augmentation")
    data_checksum: str = Field(description="SHA-256 of pixels and labels of all splits")
    resumed_at: tuple[int, ...] = Field(
        (), description="steps at which an interrupted run was taken up again from its checkpoint"
    )
    pretraining: tuple[Epoch, ...] = Field((), description="epochs as a masked autoencoder, before those of the values")
    teaching: tuple[Epoch, ...] = Field((), description="epochs of the teacher's training, before those of the values")
    preparation_flops: Count = Field(
        0, description="of pre-training, the teacher's training and its answers; a multiply-add counts two"
    )
    preparation_resumed_at: tuple[int, ...] = Field((), description="the same of their steps, in order of the stages")
    reconstructions: Png | None = Field(
        None, description="PNG in base64: images, what was seen of them, and what the masked autoencoder made of that"
    )
    peak_flops_per_s: NonNegative | None = Field(
        None, description="of a large matrix product in the same precision, just before; None where it is not asked for"
    )
    warm_up_seconds: NonNegative | None = Field(
        None,
        description="what the first steps of each process took longer, likewise: compilation, autotuning, allocation",
    )
    ensemble_size: Annotated[int, Field(ge=1)] = Field(
        1, description="seeds of the cell that one program trained together"
    )
    notices: tuple[Text, ...] = Field(
        (), description="what the run did otherwise than its recipe asks; part of the record's"
    )


class TuneValues(Strict):
    """Values of a finished tuning run: its last epoch's validation, and no test images."""

    epochs: tuple[Epoch, ...]
    validation_loss: float
    validation_accuracy_pct: Percent
    train_images: Count
    validation_images: Count
    steps: Count
    seconds: NonNegative = Field(description="of the whole trial: model, data, training, evaluation")
    batches_digest: str = Field(description="hash of the first batches after augmentation")
    data_checksum: str = Field(description="SHA-256 of pixels and labels of all splits")
    resumed_at: tuple[int, ...] = Field(
        (), description="steps at which an interrupted run was taken up again from its checkpoint"
    )


class Samples(Strict):
    """Measurements of one process: one value for each round, in which each variant had a turn, in random order."""

    latencies_ms: tuple[NonNegative, ...] = Field(
        description="by the device's events, or by the clock where it has none"
    )
    wall_ms: tuple[NonNegative, ...] = Field((), description="by the host's clock, launch and synchronisation included")
    baseline_ms: tuple[NonNegative, ...] = Field((), description="of the baseline, in the same rounds")
    control_ms: tuple[NonNegative, ...] = Field((), description="of the baseline once more: the A/A control")
    calls: Count = Field(1, description="consecutive calls of which a value is the mean")
    hidden_launches: bool | None = Field(
        None, description="of operators on a GPU: whether none of the host's launches is in the latencies"
    )
    first_ms: NonNegative = Field(description="the first iteration, warm-up's")
    warmup_iterations: Count | None = None
    steady: bool | None = Field(None, description="whether warm-up ended because latencies had become steady")
    peak_memory_mib: NonNegative | None = Field(None, description="None where several variants shared the process")
    load_average: float | None = None
    foreign_threads: NonNegative | None = Field(
        None, description="of other processes, running or waiting for a core: mean over the turns"
    )
    clock_mhz: Count | None = Field(None, description="of a GPU's processors, after the rounds")
    throttled: str | None = Field(
        None, description="why a GPU held its clock back, after the rounds; empty if it did not"
    )


class Ceilings(Strict):
    """The most that the device was seen to do in a trial's dtype, beside the trial's rounds."""

    flops_per_s: NonNegative = Field(description="large matrix product")
    bytes_per_s: NonNegative = Field(description="large copy, bytes read and bytes written")


class TimeValues(Strict):
    """Values of a finished timing trial, over all of its processes."""

    latency_ms_p50: NonNegative = Field(description="median of the processes' medians")
    latency_ms_p25: NonNegative | None = Field(description="over all iterations of all processes; None of too few")
    latency_ms_p75: NonNegative | None
    process_ms_min: NonNegative = Field(description="smallest and largest of the processes' medians")
    process_ms_max: NonNegative
    images_per_s: NonNegative = Field(description="batch size over latency_ms_p50")
    first_ms: NonNegative = Field(description="median of the processes' first iterations")
    peak_memory_mib: NonNegative
    parameters: Count
    forward_flops: Count = Field(description="of one image; a multiply-add counts two")
    flops: Count | None = Field(
        None, description="of one iteration: the whole batch, and the backward pass in training"
    )
    bytes: Count | None = Field(None, description="that an iteration must move: each tensor read and written once")
    peak_reserved_mib: NonNegative | None = Field(None, description="GPU: held by the allocator, fragments included")
    energy_mj_per_image: NonNegative | None = Field(None, description="GPU: by NVML's counter, the card as a whole")
    largest_batch: Count | None = Field(None, description="GPU: largest batch that fits, within 5 %")
    drift: NonNegative | None = Field(
        None, description="of the output: largest error against float64 over the largest true value, of a few images"
    )
    ceilings: Ceilings | None = None
    baseline: str | None = Field(None, description="id of the trial that baseline_ms and control_ms are of")
    processes: tuple[Samples, ...]


VALUES: Mapping[str, type[TrainValues | TuneValues | TimeValues]] = {
    "train": TrainValues, "tune": TuneValues, "time": TimeValues,
}  # fmt: skip
"""Kind of trial → what a finished one of it measured."""


class Record(Strict):
    """The immutable result of one attempt at a trial."""

    schema_version: Literal[8] = SCHEMA
    trial_id: Annotated[str, Field(pattern=r"^[0-9a-f]{20}$")]
    attempt: Annotated[int, Field(gt=0, le=1_000_000)]
    state: State
    reason: Reason = Field("", description="why the state is not ok, for a reader")
    details: Details = Field("", description="last lines of the traceback")
    trial: Trial
    # The kinds have no field sets in common, so that the first that fits is the only one.
    values: TrainValues | TuneValues | TimeValues | None = Field(None, union_mode="left_to_right")
    notices: tuple[Text, ...] = ()
    environment: Environment | None = Field(None, description="None where no process came so far as to look")
    started_at: datetime
    seconds: NonNegative

    @property
    def kind(self) -> str:
        """Kind of the trial."""
        return self.trial.kind

    @property
    def code(self) -> str | None:
        """State of the code that made it, plug-ins included; None where no process came so far as to look."""
        return code_with(self.environment.code, self.environment.plugins) if self.environment else None

    def to_json(self) -> str:
        """Text of the record's file."""
        body = self.model_dump(mode="json")
        return json.dumps({"sha256": digest(body, 64), "record": body}, indent=1, allow_nan=False) + "\n"


class BadRecord(ValueError):
    """A file that is no record: damaged, of another schema, or not ours."""


def read_record(file: Path) -> Record:
    """The record in a file.

    Raises:
        BadRecord: with the reason, also where the file cannot be read at all.
    """
    try:
        text = content(file, MAX_BYTES)
    except OSError as error:
        raise BadRecord(f"cannot be read: {error.strerror}") from error
    return from_json(text)


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
    if strange := set(wrapper) - {"record", "sha256"}:
        raise BadRecord(f"not a record: unknown keys {', '.join(map(repr, sorted(strange)))}")
    if type(version) is not int or version != SCHEMA:
        raise BadRecord(f"schema version {version!r}, and this vitbench reads {SCHEMA}")
    if checksum != actual:
        raise BadRecord(f"checksum {str(checksum)[:12]}… does not match the content's {actual[:12]}…")
    try:
        record = Record.model_validate_json(json.dumps(body), context=STORED)
    except ValueError as error:
        raise BadRecord(str(error).replace("\n", " ")[:500]) from error
    if record.trial.id != record.trial_id:
        raise BadRecord(f"trial id {record.trial_id} is not that of its trial, {record.trial.id}")
    if record.state == "ok" and not isinstance(record.values, VALUES[record.kind]):
        raise BadRecord(f'state "ok" of a trial of kind "{record.kind}", and no values of such a one')
    return record
