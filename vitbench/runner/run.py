"""Run a study: what is left of its plan, each trial in a process of its own, each attempt a record."""

from __future__ import annotations

import itertools
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape

from vitbench import registry
from vitbench.data.load import prepare
from vitbench.devices import resolve, unsupported
from vitbench.environment import Environment, fingerprint
from vitbench.runner.overview import device_kind, print_status, study_folder
from vitbench.runner.plan import KINDS, plan, setting, with_data
from vitbench.runner.process import Outcome, Pool, Stop
from vitbench.runner.progress import Reporter, describe
from vitbench.runner.timing import Bench, Setting
from vitbench.runner.work import Request, Task
from vitbench.spec.suite import Suite
from vitbench.spec.trial import TimeTrial, Trial
from vitbench.store import Ceilings, PlannedTrial, Record, Study, StudyInfo, TimeValues, TrainValues, TuneValues
from vitbench.store.study import finished, standing

VALUES: Mapping[str, type[TrainValues] | type[TuneValues]] = {"train": TrainValues, "tune": TuneValues}


@dataclass(frozen=True)
class Options:
    """How a study is run; none of it changes what is run."""

    device: str
    workers: int = 1
    kinds: tuple[str, ...] = KINDS


def run_suite(suite: Suite, results: Path | None, options: Options, console: Console) -> int:
    """Prepare the data, plan, run what is left, and say how it went. Returns the exit status.

    Raises:
        DataError, DeviceError, SpecError, StudyError: before the first trial; the message says what to do.
    """
    device = resolve(options.device)
    trained_on = [cell.data for cell in suite.cells if cell.train] if "train" in options.kinds else []
    prepared = prepare(suite.data, trained_on) if trained_on else None
    if prepared:
        suite = with_data(suite, prepared.spec)
    folder = study_folder(suite, results)

    def planner(records: Mapping[str, list[Record]]) -> StudyInfo:
        return plan(suite, device_kind(device.type), kinds=options.kinds, prepared=prepared, records=records)

    info = planner(Study.read(folder).records() if (folder / "study.json").exists() else {})
    study = Study.start(folder, info)
    for notice in filter(None, [*suite.notices, info.fallback]):
        console.print(f"[yellow]notice:[/] {escape(notice)}")
    for label, rule in suite.excluded:
        console.print(f"[yellow]excluded:[/] {escape(f'{label}: {rule}')}")
    with Reporter(console, total=len(info.trials), done=0) as reporter:
        runner = Runner(study, info.trials, options, reporter, planner)
        reporter.done = len(info.trials) - sum(len(runner.pending(kind)) for kind in KINDS)
        console.print(
            f"{study.path}: {len(info.trials)} trials, {reporter.done} of them finished before; device {device}"
        )
        signalled = runner.run()
    print_status(runner.study, console)
    if signalled is not None:
        console.print("stopped; the same command goes on from here")
        return 128 + signalled
    return exit_status(runner.study, runner.trials)


class Runner:
    """One driver of one study."""

    def __init__(
        self, study: Study, trials: Sequence[PlannedTrial], options: Options, reporter: Reporter,
        planner: Callable[[Mapping[str, list[Record]]], StudyInfo],
    ) -> None:  # fmt: skip
        """``trials``: what this run is to do; the study may hold more, of earlier runs. ``planner``: records → plan."""
        self.study, self.trials, self.options, self.reporter = study, trials, options, reporter
        self.planner = planner
        self.by_id = {p.id: p for p in trials}
        self.device = resolve(options.device)
        self.attempts: dict[str, list[Record]] = study.records()
        self.stop = Stop()
        self.plugins = tuple(str(p) for p in registry.plugins())
        self.max_attempts = study.info.suite.max_attempts
        self.notices = (study.info.fallback,) if study.info.fallback else ()

    def pending(self, kind: str) -> list[PlannedTrial]:
        """Trials of a kind that still need an attempt, in the plan's order."""
        return [
            p
            for p in self.trials
            if p.trial.kind == kind and not finished(self.attempts.get(p.id, []), self.max_attempts)
        ]

    def run(self) -> int | None:
        """Everything that is left. Returns the signal that stopped it, or None."""
        with _signals(self.stop), tempfile.TemporaryDirectory(prefix="vitbench-") as folder:
            self.refuse_unsupported()
            training = Pool(self.options.workers, Path(folder), self.stop)
            while self.stop.signal is None and (pending := self.pending("tune")):
                self.train(training, pending, "tune")
            if self.stop.signal is None and self.study.info.untuned:
                self.plan_again()
            while self.stop.signal is None and (pending := self.pending("train")):
                self.train(training, pending, "train")
            alone = Pool(1, Path(folder), self.stop)  # a timing shares its device with nothing
            while self.stop.signal is None and (pending := self.pending("time")):
                self.time(alone, pending)
        return self.stop.signal

    def plan_again(self) -> None:
        """Tuning has ended: the training of each cell has a recipe now, and joins the plan."""
        self.attempts = self.study.records()  # another driver may have tuned some of them
        info = self.planner(self.attempts)
        self.study = Study.start(self.study.path, info)
        self.trials = info.trials
        self.by_id = {p.id: p for p in info.trials}
        self.reporter.expect(len(info.trials), len(info.trials) - sum(len(self.pending(kind)) for kind in KINDS))
        self.refuse_unsupported()

    def refuse_unsupported(self) -> None:
        """Trials that cannot run here need no process: they get their word and reason at once."""
        environment = fingerprint(str(self.device), self.threads(1))
        for planned in [p for kind in KINDS for p in self.pending(kind)]:
            trial = planned.trial
            reason = trial.unsupported(self.device.type) or unsupported(
                trial.model, self.device, trial.dtype, training=trial.training
            )
            if reason is not None:
                request = self.request(trial, "alone")
                self.keep(planned, Outcome(request, "unsupported", datetime.now(UTC), 0.0, reason), environment)

    def train(self, pool: Pool, pending: list[PlannedTrial], task: Literal["train", "tune"]) -> None:
        """One attempt at each of some training or tuning trials."""
        requests = (self.request(p.trial, task) for p in pending)
        for outcome in pool.run(requests, self.say):
            planned = self.by_id[outcome.request.trial.id]
            values = VALUES[task].model_validate_json(_dumps(outcome)) if outcome.state == "ok" else None
            self.keep(planned, outcome, None, values)

    def time(self, pool: Pool, pending: list[PlannedTrial]) -> None:
        """One attempt at each of some timing trials, setting by setting."""
        ceilings = self.ceilings(pool, pending)
        for key, block in itertools.groupby(pending, key=setting):
            if self.stop.signal is not None:
                return
            bench = Bench(pool, self.request, self.say, self.keep_timing)
            trials = [p.trial for p in block if isinstance(p.trial, TimeTrial)]
            Setting(bench, trials, self.baseline(key), ceilings.get(trials[0].dtype)).run()

    def ceilings(self, pool: Pool, pending: list[PlannedTrial]) -> dict[str, Ceilings]:
        """dtype → the most that the device does in it, measured before anything is timed."""
        first = {p.trial.dtype: p.trial for p in reversed(pending)}
        requests = (self.request(trial, "ceilings") for trial in first.values())
        return {
            outcome.request.trial.dtype: Ceilings.model_validate_json(_dumps(outcome))
            for outcome in pool.run(requests, self.say)
            if outcome.state == "ok"
        }

    def baseline(self, key: object) -> TimeTrial | None:
        """The first trial of a setting that has been timed before and is ok."""
        for planned in self.study.info.trials:
            attempts = self.attempts.get(planned.id)
            ok = attempts is not None and standing(attempts).state == "ok"
            here = isinstance(planned.trial, TimeTrial) and planned.trial.device == self.device.type
            if ok and here and setting(planned) == key:
                assert isinstance(planned.trial, TimeTrial)
                return planned.trial
        return None

    def keep_timing(self, trial: TimeTrial, outcome: Outcome, values: TimeValues | None) -> None:
        """Write the record of one attempt at a timing trial."""
        self.keep(self.by_id[trial.id], outcome, None, values)

    def request(self, trial: Trial, task: Task, *, panel: tuple[TimeTrial, ...] = (), process: int = 0) -> Request:
        """What a trial's process is told. A panel's time is that of all its trials."""
        return Request(
            task=task,
            trial=trial,
            device=str(self.device),
            threads=self.threads(self.options.workers if task in ("train", "tune") else 1),
            timeout_s=self.study.info.suite.timeout_s * (1 + len(panel)),
            panel=panel,
            process=process,
            plugins=self.plugins,
        )

    def threads(self, workers: int) -> int:
        """CPU threads of each process: the cores, divided by the processes that run at once."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(cores // workers, 1)

    def say(self, request: Request, text: str) -> None:
        """Pass a process's progress on."""
        planned = self.by_id[request.trial.id]
        self.reporter.say(f"{describe(planned)}: {text}")

    def keep(
        self, planned: PlannedTrial, outcome: Outcome, environment: Environment | None,
        values: TrainValues | TuneValues | TimeValues | None = None,
    ) -> None:  # fmt: skip
        """Write the record of one attempt, and tell the user."""
        earlier = self.attempts.setdefault(planned.id, [])
        if environment is None and outcome.environment is not None:
            environment = Environment.model_validate(outcome.environment)
        record = Record(
            trial_id=planned.id,
            attempt=len(earlier) + 1,
            state=outcome.state,
            reason=outcome.reason,
            details=outcome.details,
            trial=planned.trial,
            values=values,
            notices=self.notices,
            environment=environment,
            started_at=outcome.started_at,
            seconds=outcome.seconds,
        )
        self.study.write(record)
        earlier.append(record)
        self.reporter.ended(planned, record, finished(earlier, self.max_attempts) or outcome.state == "interrupted")


def exit_status(study: Study, trials: Sequence[PlannedTrial]) -> int:
    """0 where every one of these trials is ok or unsupported, else 1."""
    outcomes = study.outcomes()
    states = {outcomes[p.id].state if p.id in outcomes else "pending" for p in trials}
    return 0 if states <= {"ok", "unsupported"} else 1


def _dumps(outcome: Outcome) -> str:
    """Values as JSON text: strict models read arrays as tuples from JSON only."""
    return json.dumps(outcome.values)


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM set a flag; the second one ends the driver at once, and its trials with it."""

    def handle(number: int, _: object) -> None:
        if stop.signal is not None:
            os._exit(128 + number)
        stop.signal = number

    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
