"""Run a study: what is left of its plan, each trial in a process of its own, each attempt a record."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from vitbench import registry
from vitbench.data.load import prepare
from vitbench.devices import resolve, unsupported
from vitbench.environment import Environment, fingerprint
from vitbench.runner.overview import device_kind, print_status, study_folder
from vitbench.runner.plan import KINDS, plan, with_data
from vitbench.runner.process import Outcome, Pool, Stop
from vitbench.runner.progress import Reporter, describe
from vitbench.runner.work import Request, Task
from vitbench.spec.base import digest
from vitbench.spec.suite import Suite
from vitbench.spec.trial import TimeTrial
from vitbench.store import PlannedTrial, Record, Samples, Study, TimeValues, TrainValues
from vitbench.store.study import finished
from vitbench.timing.measure import Size, combine


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
    info = plan(suite, device_kind(device.type), kinds=options.kinds, prepared=prepared)
    study = Study.start(study_folder(suite, results), info)
    for notice in filter(None, [*suite.notices, info.fallback]):
        console.print(f"[yellow]notice:[/] {escape(notice)}")
    for label, rule in suite.excluded:
        console.print(f"[yellow]excluded:[/] {escape(f'{label}: {rule}')}")
    with Reporter(console, total=len(info.trials), done=0) as reporter:
        runner = Runner(study, info.trials, options, reporter)
        reporter.done = len(info.trials) - sum(len(runner.pending(kind)) for kind in KINDS)
        console.print(
            f"{study.path}: {len(info.trials)} trials, {reporter.done} of them finished before; device {device}"
        )
        signalled = runner.run()
    print_status(study, console)
    if signalled is not None:
        console.print("stopped; the same command goes on from here")
        return 128 + signalled
    return exit_status(study, info.trials)


class Runner:
    """One driver of one study."""

    def __init__(self, study: Study, trials: tuple[PlannedTrial, ...], options: Options, reporter: Reporter) -> None:
        """``trials``: what this run is to do; the study may hold more, of earlier runs."""
        self.study, self.trials, self.options, self.reporter = study, trials, options, reporter
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
            while self.stop.signal is None and (pending := self.pending("train")):
                self.train(training, pending)
            alone = Pool(1, Path(folder), self.stop)  # a timing shares its device with nothing
            while self.stop.signal is None and (pending := self.pending("time")):
                for _, block in itertools.groupby(pending, key=_setting):
                    self.time(alone, list(block))
        return self.stop.signal

    def refuse_unsupported(self) -> None:
        """Trials that cannot run here need no process: they get their word and reason at once."""
        environment = fingerprint(str(self.device), self.threads(1))
        for planned in [*self.pending("train"), *self.pending("time")]:
            trial = planned.trial
            reason = unsupported(trial.model, self.device, trial.dtype, training=trial.training)
            if reason is not None:
                request = self.request(planned, "train", 1)
                self.keep(planned, Outcome(request, "unsupported", datetime.now(UTC), 0.0, reason), environment)

    def train(self, pool: Pool, pending: list[PlannedTrial]) -> None:
        """One attempt at each of some training trials."""
        by_id = {p.id: p for p in pending}
        requests = (self.request(p, "train", self.options.workers) for p in pending)
        for outcome in pool.run(requests, self.study.info.suite.timeout_s, self.say):
            planned = by_id[outcome.request.trial.id]
            values = TrainValues.model_validate_json(_dumps(outcome)) if outcome.state == "ok" else None
            self.keep(planned, outcome, None, values)

    def time(self, pool: Pool, block: list[PlannedTrial]) -> None:
        """One attempt at each of some timing trials of one setting: gate each, then interleaved rounds.

        In every round each variant gets a fresh process, in a fresh random order, so that a drift of the machine
        falls on all of them (Google benchmark's interleaving; VALIDITY rule 15).
        """
        by_id = {p.id: p for p in block}
        taken: dict[str, list[Outcome]] = {p.id: [] for p in block}
        over: set[str] = set()

        def requests() -> Iterator[Request]:
            yield from (self.request(p, "gate", 1) for p in block)
            shuffler = random.Random(digest(sorted(by_id)))
            while left := [p for p in block if p.id not in over]:
                shuffler.shuffle(left)
                yield from (self.request(p, "measure", 1) for p in left)

        for outcome in pool.run(requests(), self.study.info.suite.timeout_s, self.say):
            planned = by_id[outcome.request.trial.id]
            trial, outcomes = planned.trial, taken[planned.id]
            assert isinstance(trial, TimeTrial)
            outcomes.append(outcome)
            if outcome.state != "ok":
                over.add(planned.id)
                self.keep(planned, _whole(outcomes), None)
            elif len(outcomes) == 1 + trial.protocol.rounds:
                over.add(planned.id)
                samples = [Samples.model_validate_json(_dumps(o)) for o in outcomes[1:]]
                size = Size.model_validate_json(_dumps(outcomes[0]))
                self.keep(planned, _whole(outcomes), None, combine(trial, size, samples))

    def request(self, planned: PlannedTrial, task: Task, workers: int) -> Request:
        """What a trial's process is told."""
        return Request(
            task=task,
            trial=planned.trial,
            device=str(self.device),
            threads=self.threads(workers),
            plugins=self.plugins,
        )

    def threads(self, workers: int) -> int:
        """CPU threads of each process: the cores, divided by the processes that run at once."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(cores // workers, 1)

    def say(self, request: Request, text: str) -> None:
        """Pass a process's progress on."""
        planned = next(p for p in self.trials if p.id == request.trial.id)
        self.reporter.say(f"{describe(planned)}: {text}")

    def keep(
        self, planned: PlannedTrial, outcome: Outcome, environment: Environment | None,
        values: TrainValues | TimeValues | None = None,
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


def exit_status(study: Study, trials: tuple[PlannedTrial, ...]) -> int:
    """0 where every one of these trials is ok or unsupported, else 1."""
    outcomes = study.outcomes()
    states = {outcomes[p.id].state if p.id in outcomes else "pending" for p in trials}
    return 0 if states <= {"ok", "unsupported"} else 1


def _setting(planned: PlannedTrial) -> tuple[str, int, str]:
    """Trials that share it are timed side by side."""
    assert isinstance(planned.trial, TimeTrial)
    return planned.trial.dtype, planned.trial.batch_size, planned.trial.mode


def _whole(outcomes: list[Outcome]) -> Outcome:
    """Several processes of one trial as one: how the last ended, when the first began, and the time of all."""
    return replace(outcomes[-1], started_at=outcomes[0].started_at, seconds=sum(o.seconds for o in outcomes))


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
