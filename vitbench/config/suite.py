"""ExpandedSuite: a TOML file of ``ablations/`` as typed data: cells, plan and hypotheses."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from vitbench.config.base import Strict
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, TimeTable, TrainTable
from vitbench.config.suite_errors import SpecError
from vitbench.options import format_number
from vitbench.registry import name_problem
from vitbench.wording import nearest

MOST_NAMED = 24  # Cells that an error message names
Value = str | int | float | bool | tuple[Any, ...]


Test = Literal["unpaired", "paired", "permutation"]
"""Test by which the difference of two arms is judged, where it is not to be the rule of the specification:

- unpaired: Welch's t and the permutation test, also of arms that share what they start from.
- paired: Student's t of the differences in each seed, also of arms that are trained independently.
- permutation: the permutation test, or for arms that share what they start from the sign-flip test, alone.
"""


def as_text(value: Value) -> str:
    """An axis' value as a suite's facts and a report's tables write it."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return value if isinstance(value, str) else format_number(value)


BETWEEN = " · "  # The values of a cell's axes in its label


def in_label(axis: str, value: Value, axes: Collection[str]) -> str:
    """An axis' value in the label of a cell: a component by its name; any other field's with the field's own.

    Where two of the axes have fields of one name, each has its table's before it.
    """
    name = axis.rpartition(".")[2]
    shared = sum(each.rpartition(".")[2] == name for each in axes) > 1
    return value if isinstance(value, str) else f"{axis if shared else name}={as_text(value)}"


def setting_in_words(values: Mapping[str, Value]) -> str:
    """A setting of the nuisance axes: learning_rate=0.001, weight_decay=0.05."""
    return ", ".join(f"{name.rpartition('.')[2]}={as_text(value)}" for name, value in values.items())


LABEL = r"^[^\x00-\x1f\x7f-\x9f]+$"
"""Pattern of names of variants, of values and of axes of tables: anything that is shown on one line."""

RESERVED = frozenset(
    {
        "trial_id", "kind", "cell", "state", "reason", "attempts", "seed", "device", "dtype", "batch_size", "mode",
        "level", "level_shape", "machine", "software", "environment", "commit", "dirty", "threads", "started_at",
        "notices", "ensemble_size", "published", "published_images_per_s", "published_source", "function",
        "pretrained_weights", "factorial", "train_flops",
        "epoch_images_per_s", "trial_images_per_s", "drift",
        "of_peak", "preparation_seconds", "n", "planned", "axis", "value", "against", "batches_digest", "bytes",
        "data_checksum", "energy_mj_per_image", "first_ms", "first_step_ms", "flops", "forward_flops", "images_per_s",
        "largest_batch", "latency_ms_p25", "latency_ms_p50", "latency_ms_p75", "parameters", "peak_flops_per_s",
        "peak_memory_mib", "peak_reserved_mib", "process_ms_max", "process_ms_min", "seconds", "step_ms_p50",
        "steps", "test_accuracy_pct", "test_images", "test_loss", "test_most_common_pct", "test_readings",
        "train_images", "train_images_per_s", "train_seconds", "validation_images", "warm_up_seconds",
    }
)  # fmt: skip
"""Columns of the tables that are made of a study, measured values among them: no name for an axis that is no field."""


def _name(name: str) -> str:
    """A name that is a folder's, too."""
    if problem := name_problem(name):
        raise ValueError(problem)
    return name


class Info(Strict):
    """The ``[suite]`` table: what is asked, and how patient the harness is."""

    name: Annotated[str, AfterValidator(_name)]
    question: str
    cost: str = ""
    expected: str = ""
    timeout_s: Annotated[float, Field(ge=1.0, le=1e7)] = Field(3600.0, description="per process, seconds")
    checkpoint_s: Annotated[float, Field(gt=0.0, le=1e7)] = Field(
        60.0, description="between checkpoints of a training trial, from which it goes on after an interruption"
    )
    max_attempts: Annotated[int, Field(gt=0, le=100)] = Field(2, description="tries of a trial that fails or crashes")
    margin: Annotated[float, Field(gt=0.0, le=100.0)] | None = Field(
        None, description="test accuracy, percentage points: a smaller difference does not matter"
    )
    spread: Annotated[float, Field(gt=0.0, le=100.0)] | None = Field(
        None, description="points: a run's standard deviation between seeds, as found before; gives effects in points"
    )
    test: Test | None = Field(
        None, description="None: paired for arms that share what they start from, unpaired for all others"
    )
    seed: Annotated[int, Field(ge=0, lt=2**53)] = Field(
        0, description="master seed: of it come the seeds that [train] only counts, and synthetic images"
    )


def _of_one_trial(gpus: float) -> float:
    """GPUs that one trial can use."""
    if gpus > 1:
        raise ValueError(f"{gpus:g}, but a trial runs on one GPU: 1 at the most, or a fraction where several share one")
    return gpus


class Resources(Strict):
    """The ``[resources]`` table: what each training trial gets of a machine. Of no trial's identity."""

    cpus: Annotated[int, Field(gt=0, le=4096)] | None = Field(
        None,
        description="CPU threads; on this machine's CPU as many trials train at once as it has cores for. "
        "None: its cores, divided by the workers, and 1 on a cluster",
    )
    gpus: Annotated[float, Field(ge=0.0), AfterValidator(_of_one_trial)] | None = Field(
        None, description="a fraction lets several share one; None: 1 where the device is cuda"
    )


class Published(Strict):
    """A published result of this cell, and its source."""

    test_accuracy: Annotated[float, Field(ge=0.0, le=100.0)] | None = Field(None, description="percent")
    train_images_per_s: Annotated[float, Field(gt=0.0, le=1e12)] | None = Field(
        None, description="images a second in training, on the device that the source names"
    )
    source: str

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.test_accuracy is None and self.train_images_per_s is None:
            raise ValueError("needs test_accuracy or train_images_per_s")
        return self


class Variant(Strict):
    """A named cell: the base with some fields replaced."""

    name: Annotated[str, Field(min_length=1, max_length=80, pattern=LABEL)]
    set: dict[str, Any] = Field(default_factory=dict)
    published: Published | None = None


class Hypothesis(Strict):
    """A hypothesis about a difference in test accuracy, published or known by construction, and put to the test."""

    claim: Annotated[str, Field(min_length=1, max_length=200)]
    axis: str | None = Field(None, description="whose two values are compared; None: two cells, by their labels")
    value: str
    against: str = Field(description="the value, or the cell, that it is compared with")
    where: dict[str, str] = Field(default_factory=dict, description="other axes held at one value, as text")
    expected: Literal["higher", "lower", "equal"]
    size: Annotated[float, Field(ge=-100.0, le=100.0)] | None = Field(
        None, description="published difference, percentage points"
    )
    source: str


class Goal(Strict):
    """A test accuracy that a cell is to reach in as little time as it can."""

    cell: str = Field(description="label of the cell")
    test_accuracy: Annotated[float, Field(gt=0.0, le=100.0)] = Field(description="percent, mean over seeds")


class Setting(Strict):
    """One setting of the nuisance axes of a cell."""

    values: dict[str, Value]
    train: TrainTable


class Tune(Strict):
    """The ``[tune]`` table: nuisance axes, each cell's to be chosen on validation from the same number of trials."""

    axes: dict[str, tuple[Value, ...]]
    seeds: Annotated[int, Field(gt=0, le=100)] = Field(1, description="runs of each setting")


@dataclass(frozen=True, slots=True)
class Cell:
    """One model + training configuration, with the label and the axis values that tell it from the others.

    A suite may have a hundred thousand: they share the specs in which they are alike, and are nothing but references.
    """

    label: str
    axes: dict[str, Value]
    model: ModelSpec
    data: DataSpec
    train: TrainTable | None
    time: TimeTable | None
    published: Published | None = None
    seeds: tuple[int, ...] = ()  # with which it is trained
    settings: tuple[Setting, ...] = ()  # of the nuisance axes, to choose from; empty where there is nothing to tune


@dataclass(frozen=True, slots=True)
class ExpandedSuite:
    """A suite that has been read, checked and expanded."""

    file: str  # Name of the one it came from, without its folder
    info: Info
    axes: dict[str, tuple[Value, ...]]
    cells: tuple[Cell, ...]
    data: DataSpec
    options: tuple[str, ...] = ()  # of the command line, that changed what the file says
    tune: Tune | None = None
    facts: tuple[Hypothesis, ...] = ()
    goals: tuple[Goal, ...] = ()
    resources: Resources = field(default_factory=Resources)
    notices: tuple[str, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()  # (label, rule) of combinations that cannot be built

    def only(self, labels: Collection[str]) -> "ExpandedSuite":
        """The suite with some of its cells; hypotheses and goals about the others are left out.

        Raises:
            SpecError: a label is no cell's.
        """
        if not labels:
            return self
        known = {cell.label: cell for cell in self.cells}
        if strange := [label for label in labels if label not in known]:
            names = f"; cells: {', '.join(known)}" if len(known) <= MOST_NAMED else ""
            raise SpecError(
                [f'--cell "{label}": no cell of {self.file}{nearest(label, known)}{names}' for label in strange]
            )
        return replace(
            self,
            cells=tuple(known[label] for label in known if label in labels),
            facts=tuple(f for f in self.facts if f.axis is None and {f.value, f.against} <= set(labels)),
            goals=tuple(goal for goal in self.goals if goal.cell in labels),
            excluded=(),
            options=(*self.options, *(part for label in labels for part in ("--cell", label))),
        )
