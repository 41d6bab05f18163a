"""Driver: a process that works through a study's plan; several may share a study.

A driver takes a lease on each trial before it runs it, writes its record when it has ended, and gives the lease up
then. So a driver that is killed loses what was running and nothing else, and any number of drivers share a study.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from vitbench import registry
from vitbench.config.trial import TimeTrial, TrainTrial, Trial
from vitbench.environment import Environment
from vitbench.runner.backends.backend import Backend, Workers
from vitbench.runner.ensembles import apart, ensembles
from vitbench.runner.messages import Request, Task
from vitbench.runner.panels import TimingSetting
from vitbench.runner.plan import setting
from vitbench.runner.process import Outcome
from vitbench.runner.session import Session
from vitbench.store import (
    Lease,
    Leases,
    PlannedTrial,
    Record,
    TimeValues,
    TrainValues,
    Trials,
    TuneValues,
)
from vitbench.store.attempts import attempt_of, last_attempt, standing
from vitbench.store.files import sweep
from vitbench.wording import plural

LOOK_SECONDS = 0.5  # Interval between looks at trials that other drivers are running


def run_study(session: Session, backend: Backend, leases: Leases) -> None:
    """Run what is left of a session on a backend, or until the session is told to stop.

    Raises:
        BackendError: where the backend is lost.
        OSError: where the study's folder cannot be written; running trials are ended.
    """
    for name in ("leases", "checkpoints", *(["weights"] if session.options.keep_weights else [])):
        folder = session.study.path / name
        folder.mkdir(exist_ok=True)
        sweep(folder)
    Driver(session, backend, leases).run()


class Driver:
    """One process that runs what is left of a session on a backend."""

    def __init__(self, session: Session, backend: Backend, leases: Leases) -> None:
        self.session, self.backend, self.leases = session, backend, leases
        self.others: dict[str, Lease] = {}  # Trial id → lease of the driver that is at work on it

    def run(self) -> None:
        """Tune, train as long as results ask for more, then time."""
        session = self.session
        if session.pending("tune", "train") or session.study.info.untuned:
            with self.backend.training(self.note_group) as workers:
                self.all_of("tune", lambda pending: self.train(workers, pending, "tune"))
                if session.stop.signal is None and session.study.info.untuned:
                    session.plan_again()
                self.all_of("train", lambda pending: self.train(workers, pending, "train"))
                while session.stop.signal is None and not session.options.this_look and session.more_to_train():
                    self.all_of("train", lambda pending: self.train(workers, pending, "train"))
        if session.stop.signal is None and session.pending("time"):
            with self.backend.timing(self.note_group) as workers:
                self.all_of("time", lambda pending: self.time(workers, pending))

    def all_of(self, kind: str, attempt: Callable[[Trials], None]) -> None:
        """Pass after pass over the trials of a kind that need an attempt, until none does."""
        session = self.session
        while session.stop.signal is None and (pending := session.pending(kind)):
            self.others.clear()
            attempt(pending)
            if len(self.others) == len(pending):
                if session.options.leave_leased:
                    return
                self.wait(pending)

    def wait(self, pending: Sequence[PlannedTrial]) -> None:
        """Tell the user which trials other drivers are running, and wait until one of those ends or its driver dies."""
        drivers = dict.fromkeys(str(lease.owner.driver if lease.owner else "?") for lease in self.others.values())
        first = next(iter(self.others.values()))
        others = f", and {len(drivers) - 1} others" if len(drivers) > 1 else ""
        self.session.reporter.note(f"waiting for {plural(len(pending), 'trial')} in another process ({first}{others})")
        while self.session.stop.signal is None:
            time.sleep(LOOK_SECONDS)
            for planned in pending:
                if self.take(planned):
                    self.leases.release(planned.id)
                    return
                if planned.id not in self.others:
                    return

    def take(self, planned: PlannedTrial) -> bool:
        """Whether a trial is this driver's to run now: leased, and not finished by another meanwhile."""
        lease = self.leases.take(planned.id)
        self.look_again(planned)
        done = self.session.done(planned.id)
        self.others.pop(planned.id, None)
        if lease is not None and not done:
            self.others[planned.id] = lease
        elif lease is None and done:
            self.leases.release(planned.id)
        return lease is None and not done

    def look_again(self, planned: PlannedTrial) -> None:
        """Take in what other drivers have recorded of a trial since."""
        known = self.session.attempts.get(planned.id, [])
        for attempt, record in self.session.study.later(planned.id, known):
            self.session.attempts.setdefault(planned.id, []).append(attempt)
            self.session.reporter.ended(planned, record, self.session.done(planned.id), elsewhere=True)

    def taken(self, pending: Iterable[PlannedTrial]) -> Iterator[PlannedTrial]:
        """Trials that are this driver's to run; one that cannot run here gets its word and reason at once."""
        for planned in pending:
            if self.session.stop.signal is not None:
                return
            if not self.take(planned):
                continue
            if refusal := self.backend.refuses(planned.trial):
                reason, environment = refusal
                request = self.request(planned.trial, "alone")
                outcome = Outcome(request, "unsupported", datetime.now(UTC), 0.0, reason)
                self.keep(planned.trial, outcome, environment=environment)
            else:
                yield planned

    def train(self, workers: Workers, pending: Trials, task: Literal["train", "tune"]) -> None:
        """One attempt at each of some training or tuning trials."""
        taken = (list(self.taken(seeds)) for seeds in ensembles(pending.drawn(), self.session.attempts))
        requests = (self.announced(self.request(e[0].trial, task, ensemble=e[1:])) for e in taken if e)
        for outcome in workers.run(requests, self.say):
            for trial, part, values in apart(outcome):
                self.keep(trial, part, values)

    def time(self, workers: Workers, pending: Sequence[PlannedTrial]) -> None:
        """One attempt at each of some timing trials, setting by setting; a setting is timed by one driver."""
        for key, block in itertools.groupby(pending, key=setting):
            trials = [p.trial for p in self.taken(list(block)) if isinstance(p.trial, TimeTrial)]
            try:
                if trials and self.session.stop.signal is None:
                    half_width = functools.partial(self.session.analysis.half_width, self.session.study.info)
                    TimingSetting(
                        workers, self.request, self.say, self.keep, half_width, trials, self.baseline(key)
                    ).run()
            finally:
                for trial in trials:  # of a driver that was stopped
                    if trial.id in self.leases.files:
                        self.leases.release(trial.id)

    def baseline(self, key: object) -> TimeTrial | None:
        """The first trial of a setting that has been timed before and is ok."""

        def timed(trial_id: str, kind: str) -> bool:
            attempts = self.session.attempts.get(trial_id)
            return kind == "time" and attempts is not None and standing(attempts).state == "ok"

        for planned in self.session.study.info.trials.where(timed):
            assert isinstance(planned.trial, TimeTrial)
            if planned.trial.device == self.backend.device and setting(planned) == key:
                return planned.trial
        return None

    def request(
        self, trial: Trial, task: Task, *, panel: tuple[TimeTrial, ...] = (), process: int = 0,
        ensemble: Sequence[PlannedTrial] = (),
    ) -> Request:  # fmt: skip
        """The work of a trial's process. A panel or an ensemble has the time of all its trials.

        The seeds of an ensemble share their model.
        """
        plugins = dict.fromkeys(p for each in (trial, *panel) for p in registry.plugins(each.model.components))
        return Request(
            task=task,
            trial=trial,
            timeout_s=self.session.study.info.suite.timeout_s * (1 + len(panel) + len(ensemble)),
            panel=panel,
            process=process,
            ensemble=tuple(p.trial for p in ensemble if isinstance(p.trial, TrainTrial)),
            plugins=tuple(plugins),
            checkpoint=self.checkpoint(trial) if task in ("train", "tune") and not ensemble else None,
            checkpoint_s=self.session.study.info.suite.checkpoint_s,
            weights=self.session.study.path.resolve() / "weights" if self.session.options.keep_weights else None,
        )

    def checkpoint(self, trial: Trial) -> Path:
        """File from which a training trial goes on after an interruption."""
        return self.session.study.path.resolve() / "checkpoints" / f"{trial.id}.safetensors"

    def note_group(self, request: Request, group: int) -> None:
        """Write into a trial's lease which process group is at work on it."""
        for trial in (request.trial, *request.ensemble):
            if trial.id in self.leases.files:  # the baseline of a panel may be one that was timed before
                self.leases.note_group(trial.id, group)

    def announced(self, request: Request) -> Request:
        """Show the user that a request starts, and remove the weights of an earlier attempt. Returns the request."""
        for trial in (request.trial, *request.ensemble):
            (self.session.study.path / "weights" / f"{trial.id}.safetensors").unlink(missing_ok=True)
            self.session.reporter.started(self.session.trials.of_id(trial.id))
        return request

    def say(self, request: Request, text: str) -> None:
        """Pass a process's progress on."""
        self.session.reporter.say(self.session.trials.of_id(request.trial.id), text)

    def keep(
        self, trial: Trial, outcome: Outcome, values: TrainValues | TuneValues | TimeValues | None = None, *,
        environment: Environment | None = None,
    ) -> None:  # fmt: skip
        """Write the record of one attempt, give the lease up, and tell the user."""
        session, planned = self.session, self.session.trials.of_id(trial.id)
        if environment is None and outcome.environment is not None:
            environment = Environment.model_validate(outcome.environment)
        if environment is not None and (plugins := registry.digests(planned.trial.model.components)):
            environment = environment.model_copy(update={"plugins": plugins})
        notices = [*filter(None, [session.study.info.fallback])]
        if isinstance(values, TrainValues):
            notices += values.notices
        record = Record(
            trial_id=planned.id,
            attempt=last_attempt(session.attempts.get(planned.id, [])) + 1,
            state=outcome.state,
            reason=outcome.reason,
            details=outcome.details,
            trial=planned.trial,
            values=values,
            notices=tuple(notices),
            environment=environment,
            started_at=outcome.started_at,
            seconds=outcome.seconds,
        )
        lost = planned.id in self.leases.files and not self.leases.holds(planned.id)
        if lost and outcome.state != "ok":  # whatever ended it, the other driver's attempt is the one that counts
            session.reporter.note(f"{planned.description}: another driver has taken it over; this attempt is left out")
            del self.leases.files[planned.id]
            return
        if self.store(planned, record):
            final = session.done(planned.id) or outcome.state == "interrupted"
            session.reporter.ended(planned, record, final)
        if session.done(planned.id) or outcome.state == "failed":  # whatever made it fail may be in its state
            for stage in self.checkpoint(planned.trial).parent.glob(f"{planned.id}*.safetensors"):
                stage.unlink(missing_ok=True)
        if planned.id in self.leases.files:
            self.leases.release(planned.id)

    def store(self, planned: PlannedTrial, record: Record) -> bool:
        """Whether a record was written; not, where another driver has finished the trial, and no less well."""
        session = self.session
        while True:
            try:
                path = session.study.write(record)
            except FileExistsError:
                self.look_again(planned)
                known = session.attempts.get(planned.id, [])  # none where the file in the way is damaged, and set aside
                rescues = record.state == "ok" and bool(known) and standing(known).state != "ok"
                if session.done(planned.id) and not rescues:
                    session.reporter.note(
                        f"{planned.description}: another driver had finished it; this result is left out"
                    )
                    return False
                record = record.model_copy(update={"attempt": max(last_attempt(known), record.attempt) + 1})
            else:
                session.attempts.setdefault(planned.id, []).append(attempt_of(record, path.name))
                return True
