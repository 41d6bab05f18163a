"""Studies made of real specs and records, with plausible values from a fixed seed: what a run would have left."""

import contextlib
import functools
import itertools
import math
import random
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from tests.report.markdown import Page, read_page
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, Level, TimeSpec, TrainSpec
from vitbench.config.suite import Goal, Hypothesis, Info, Published
from vitbench.config.trial import SLOT, TimeTrial, TrainTrial, TuneTrial, relevant
from vitbench.environment import Environment
from vitbench.report import document, study_report
from vitbench.report.figures.charts import Chart, Drawn
from vitbench.report.output import Files
from vitbench.report.study_report import compose
from vitbench.report.view import View
from vitbench.store import (
    Epoch,
    PlannedTrial,
    Record,
    Samples,
    StudyFolder,
    StudyInfo,
    TimeValues,
    TrainValues,
    Trials,
    TuneValues,
)

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
COMPONENTS = {
    "patching": ("conv", "einops"),
    "attention": ("per_head", "batched", "sdpa", "triton"),
    "norm": ("pre", "post"),
    "positions": ("learned", "sinusoidal", "none"),
}
SMALL = {"norm": ("pre", "post"), "positions": ("learned", "none")}
EFFECT = {"none": -4.0, "sinusoidal": -0.6, "post": 1.1}
SPEED = {"per_head": 1.6, "batched": 1.15, "sdpa": 1.0, "triton": 0.7, "einops": 1.05}

CPU = Environment(
    cpu="Example CPU 3000",
    cpu_cores=2,
    memory_gib=8.0,
    device_name="Example CPU 3000",
    platform="Linux 6.1 x86_64",
    python="3.11.9",
    packages={"torch": "2.15.0", "triton": "3.9.0", "numpy": "2.3.0"},
    threads=2,
    load_average=1.2,
    vitbench="0.1.0",
    code="0123456789ab",
    commit="89abcdef0123456789abcdef0123456789abcdef",
    dirty=False,
)
GPU = CPU.model_copy(update={"device_name": "Example GPU 9000", "driver": "555.42", "cuda": "13.0"})


@dataclass
class CellPlan:
    """One cell of a study to be built."""

    label: str
    axes: dict[str, Any]
    published: Published | None = None

    def fields(self, table: str) -> dict[str, Any]:
        """Fields of the model, or of another table, that the cell replaces."""
        prefix = "" if table == "model" else f"{table}."
        named = {k.removeprefix(prefix): v for k, v in self.axes.items() if k.startswith(prefix)}
        return {k: v for k, v in named.items() if "." not in k}


Values = TrainValues | TuneValues | TimeValues
State = Callable[[CellPlan, str, int], tuple[str, str]]
"""(cell, kind, seed or round) → (state, reason) of its record; the state "pending" leaves none."""


def grid(axes: Mapping[str, Sequence[Any]]) -> list[CellPlan]:
    """The cells of a full factorial."""
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [CellPlan(" · ".join(str(v) for v in cell.values()), cell) for cell in cells]


def all_ok(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
    return "ok", ""


def no_triton(cell: CellPlan, kind: str, seed: int) -> tuple[str, str]:
    """The states of the components suite on a machine without a GPU."""
    if cell.axes.get("attention") == "triton":
        return "unsupported", 'attention "triton" runs on cuda, not on cpu'
    return "ok", ""


@dataclass
class Plan:
    """All that a study is built from; the defaults are a small one that went well."""

    cells: list[CellPlan]
    axes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    name: str = "example"
    question: str = "Which is better?"
    suite_file: str = "example.toml"
    seeds: tuple[int, ...] = (0,)
    state: State = all_ok
    train: bool = True
    time: bool = True
    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float32",)
    batch_sizes: tuple[int, ...] = (64,)
    modes: tuple[str, ...] = ("inference", "train")
    levels: tuple[Level, ...] = ("model",)
    epochs: int = 3
    data_name: str = "cifar10: 5,000 train, 1,000 test images"
    test_images: int = 1000
    validation_images: int = 500
    fallback: str | None = None
    notices: tuple[str, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    margin: float | None = None
    facts: tuple[Hypothesis, ...] = ()
    goals: tuple[Goal, ...] = ()
    tuned: tuple[float, ...] = ()  # Learning rates of which each cell is tried with each, and trained with the second
    recipe: Mapping[str, Any] = field(default_factory=dict)  # Further fields of every cell's recipe
    changed: Callable[[Values], Values] = lambda values: values
    """The values of a trial → what its record holds in their place."""
    accuracy: Callable[[CellPlan, int], float] | None = None  # (cell, seed) → test accuracy, percent; drawn where None
    environment: Callable[[CellPlan, int], Environment | None] = lambda cell, seed: CPU
    apart: float = 30.0  # Seconds from the start of one trial to that of the next; each takes 20
    order: Callable[[int], int] = int  # Number of a trial in the plan → its place in time
    commands: tuple[tuple[str, ...], ...] = ()
    attempts: Callable[[CellPlan, str, int], list[str]] = lambda cell, kind, seed: []  # States of earlier attempts


def factorial(axes: Mapping[str, Sequence[Any]], **changes: Any) -> Plan:
    """A plan of the full factorial over some axes."""
    return Plan(cells=grid(axes), axes={k: tuple(v) for k, v in axes.items()}, **changes)


def build(path: Path, plan: Plan) -> StudyFolder:
    """Write the study that a run of the plan would have left."""
    trials = [trial for cell in plan.cells for trial in planned_trials(plan, cell)]
    # As the runner plans: training first, seed by seed, and each trial once.
    trials.sort(key=lambda p: (p.trial.kind == "time", p.trial.kind == "train" and plan.seeds.index(p.trial.seed)))
    planned = list({p.id: p for p in reversed(trials)}.values())[::-1]
    info = StudyInfo(
        suite=Info(name=plan.name, question=plan.question, margin=plan.margin),
        suite_file=plan.suite_file,
        commands=plan.commands,
        axes=plan.axes,
        data_name=plan.data_name,
        data_identity="cifar10-0011223344",
        fallback=plan.fallback,
        excluded=plan.excluded,
        facts=plan.facts,
        goals=plan.goals,
        tuned={"train.learning_rate": plan.tuned} if plan.tuned else {},
        trials=Trials.of(planned),
    )
    study = StudyFolder.start(path, info)
    labels = {cell.label: cell for cell in plan.cells}
    with mock.patch("os.fsync"):  # nine tenths of the time, and no test that builds a study cuts the power
        for number, trial in enumerate(planned):
            for record in attempts_of(plan, labels[trial.cell], trial, number):
                with contextlib.suppress(FileExistsError):  # a study that is built on
                    study.write(record)
    return study


def planned_trials(plan: Plan, cell: CellPlan) -> list[PlannedTrial]:
    base = {"dim": 64, "depth": 2, "heads": 4}
    model = ModelSpec.model_validate({**base, **cell.fields("model")})
    rate = {"learning_rate": plan.tuned[1]} if plan.tuned else {}
    recipe = TrainSpec.model_validate(
        {"epochs": plan.epochs, "batch_size": 64, **rate, **plan.recipe, **cell.fields("train")}
    )
    data = DataSpec(
        name="cifar10", train_images=5000, test_images=plan.test_images, validation_images=plan.validation_images
    )
    exact = {slot: registry.facts(slot, name).exact for slot, name in model.components.items()}
    where: dict[str, Any] = {"model": model, "data": data, "device": plan.device, "data_identity": "cifar10-0011223344"}
    trials: list[TrainTrial | TuneTrial | TimeTrial] = [
        TuneTrial(kind="tune", train=recipe.model_copy(update={"learning_rate": rate}), seed=0, **where)
        for rate in plan.tuned
    ]
    if plan.train:
        trials += [TrainTrial(kind="train", train=recipe, seed=seed, **where) for seed in plan.seeds]
    if plan.time:
        trials += [
            TimeTrial.model_validate({
                "kind": "time", "level": level, "model": relevant(model, level), "protocol": TimeSpec(),
                "device": plan.device, "dtype": dtype, "batch_size": size, "mode": mode,
            })
            for level in plan.levels
            if level not in SLOT or not model.leaves_out(SLOT[level])
            for dtype in plan.dtypes
            for size in plan.batch_sizes
            for mode in plan.modes
        ]  # fmt: skip
    return [
        PlannedTrial(
            id=t.id,
            cell=cell.label,
            axes=cell.axes,
            exact=exact,
            trial=t,
            published=cell.published,
            setting={"train.learning_rate": t.train.learning_rate}
            if plan.tuned and not isinstance(t, TimeTrial)
            else {},
        )
        for t in trials
    ]


def attempts_of(plan: Plan, cell: CellPlan, planned: PlannedTrial, number: int) -> list[Record]:
    trial = planned.trial
    seed = trial.seed if isinstance(trial, TrainTrial) else 0
    state, reason = plan.state(cell, trial.kind, seed)
    if state == "pending":
        return []
    states = [*plan.attempts(cell, trial.kind, seed), state]
    return [
        Record.model_validate(
            {
                "trial_id": planned.id, "attempt": attempt, "state": each, "trial": trial,
                "reason": reason if each == state else f"{each} at the first try",
                "values": plan.changed(values(plan, cell, trial)) if each == "ok" else None,
                "notices": plan.notices, "environment": plan.environment(cell, seed),
                "started_at": START + timedelta(seconds=plan.apart * plan.order(number) + attempt), "seconds": 20.0,
            }
        )
        for attempt, each in enumerate(states, 1)
    ]  # fmt: skip


def values(plan: Plan, cell: CellPlan, trial: TrainTrial | TuneTrial | TimeTrial) -> Values:
    if isinstance(trial, TimeTrial):
        return time_values(cell, trial)
    made = train_values(plan, cell, trial)
    if isinstance(trial, TrainTrial):
        return made
    shared = {name: getattr(made, name) for name in TuneValues.model_fields if name in TrainValues.model_fields}
    return TuneValues(validation_loss=made.test_loss, validation_accuracy_pct=made.test_accuracy_pct, **shared)


def train_values(plan: Plan, cell: CellPlan, trial: TrainTrial | TuneTrial) -> TrainValues:
    chosen = [str(v) for v in cell.axes.values()]
    noise = random.Random(f"{cell.label} {trial.seed}")
    final = 40.0 + sum(EFFECT.get(v, 0.0) for v in chosen) + random.Random(trial.seed).gauss(0, 0.8)
    final += noise.gauss(0, 0.5)
    final = plan.accuracy(cell, trial.seed) if plan.accuracy else final
    speed = slowness(chosen)
    epochs = trial.train.epochs
    curve = [final * (1 - 0.75 ** (e + 1)) / (1 - 0.75**epochs) for e in range(epochs)]
    return TrainValues(
        epochs=tuple(
            Epoch(
                epoch=e + 1,
                train_loss=2.3 - 0.02 * accuracy + noise.gauss(0, 0.01),
                train_accuracy_pct=clip(accuracy + 2),
                validation_loss=2.3 - 0.018 * accuracy if plan.validation_images else None,
                validation_accuracy_pct=clip(accuracy + noise.gauss(0, 0.7)) if plan.validation_images else None,
                learning_rate=1e-3,
                seconds=3.0 * speed,
            )
            for e, accuracy in enumerate(curve)
        ),
        test_loss=1.6,
        test_accuracy_pct=round(clip(final), 1),
        train_images=5000 - plan.validation_images,
        validation_images=plan.validation_images,
        test_images=plan.test_images,
        parameters=107_914 if "none" not in chosen else 103_754,
        forward_flops=14_200_000,
        steps=70 * epochs,
        step_ms_p50=40.0 * speed * noise.uniform(0.97, 1.03),
        first_step_ms=300.0,
        train_images_per_s=64 / (0.040 * speed * noise.uniform(0.97, 1.03)),
        train_seconds=3.0 * speed * epochs,
        warm_up_seconds=0.5,
        seconds=3.5 * speed * epochs + noise.uniform(0, 0.5),
        peak_memory_mib=120.0 + 40 * ("per_head" in chosen) + noise.uniform(0, 5),
        batches_digest="ab" * 16,
        data_checksum="cd" * 32,
    )


def time_values(cell: CellPlan, trial: TimeTrial) -> TimeValues:
    chosen = [str(v) for v in cell.axes.values()]
    noise = random.Random(f"{cell.label} {trial.mode} {trial.dtype} {trial.batch_size}")
    base = trial.batch_size / 64 * (12.0 if trial.mode == "inference" else 38.0) * slowness(chosen)
    base *= 0.6 if trial.dtype == "bfloat16" else 1.0
    processes = []
    for _ in range(trial.protocol.rounds):
        process = base * noise.uniform(0.96, 1.06)
        latencies = tuple(round(process * noise.uniform(0.95, 1.12), 4) for _ in range(20))
        memory = 80.0 + (60.0 if trial.mode == "train" else 0.0) + noise.uniform(0, 4)
        processes.append(Samples(latencies_ms=latencies, first_ms=base * 6, peak_memory_mib=memory, load_average=1.4))
    medians = [statistics.median(p.latencies_ms) for p in processes]
    samples = sorted(x for p in processes for x in p.latencies_ms)
    middle = statistics.median(medians)
    return TimeValues(
        latency_ms_p50=middle,
        latency_ms_p25=samples[len(samples) // 4],
        latency_ms_p75=samples[3 * len(samples) // 4],
        process_ms_min=min(medians),
        process_ms_max=max(medians),
        images_per_s=trial.batch_size / middle * 1000,
        first_ms=base * 6,
        peak_memory_mib=max(p.peak_memory_mib or 0.0 for p in processes),
        parameters=107_914,
        forward_flops=14_200_000,
        processes=tuple(processes),
    )


def slowness(chosen: list[str]) -> float:
    return math.prod(SPEED.get(name, 1.0) for name in chosen)


def clip(percent: float) -> float:
    return min(100.0, max(0.0, percent))


def blank(chart: Chart) -> Drawn:
    """Draws nothing, in a thousandth of the time: for tests that look at no picture."""
    return Drawn(b"", "<svg></svg>")


def charts_of(view: View) -> list[Chart]:
    """The charts of a study's report."""
    charts: list[Chart] = []

    def keep(chart: Chart) -> Drawn:
        charts.append(chart)
        return blank(chart)

    files = Files(keep)
    blocks = [block for section in compose(view, files).sections for block in section.blocks]
    for block in blocks:
        if isinstance(block, document.Figure):
            block.element()
    return [*charts, *(block for block in blocks if isinstance(block, document.Forest))]


@functools.cache
def reference(name: str) -> View:
    """One of the studies that this repository ships."""
    return View(StudyFolder.read(Path(__file__).parents[2] / "results" / "reference" / name))


def render(study: StudyFolder, out: Path) -> Path:
    """A study's report with its drawings; the path of its page."""
    return study_report.render(View(study), out)


def written(study: StudyFolder, out: Path, exports: Collection[str] = ()) -> Path:
    """A study's report without its drawings, which take most of the time; the path of its page."""
    return study_report.render(View(study), out, draw=blank, exports=exports)


def page_of(folder: Path, plan: Plan) -> Page:
    """The report of a plan's study, as its reader sees it."""
    return read_page(written(build(folder / "study", plan), folder / "report").parent)
